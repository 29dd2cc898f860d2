#include "compile/storage.h"

#include <algorithm>

#include "algo/regions.h"
#include "base/error.h"
#include "compile/group_expr.h"

namespace popxl::compile {
StorageMap::StorageMap(const ir::Graph& graph, const std::vector<ir::Op*>& order,
                       const analysis::Liveness& liveness)
    : graph_(graph), order_(order), liveness_(liveness) {
  for (const ir::Op* op : order) {
    if (const int32_t operand = passedOperand(*op); operand >= 0) passed_[op] = operand;
  }
  findWrites();
  findLastUses();
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Tensor* t = graph.inputs()[i];
    storages_[t] = {addBuffer({Buffer::Kind::kArgumentIn, t->type().bytes(), static_cast<int32_t>(i), t}),
                    Layout(t->dtype(), t->shape()), 0};
  }
  for (size_t i = 0; i < order.size(); ++i) place(*order[i], static_cast<int32_t>(i));
}

int32_t StorageMap::sharedOperand(const ir::Op& op) const {
  if (op.def().view != nullptr) return 0;
  const auto it = passed_.find(&op);
  return it == passed_.end() ? -1 : it->second;
}

int32_t StorageMap::addBuffer(Buffer b) {
  buffers_.push_back(b);
  return static_cast<int32_t>(buffers_.size()) - 1;
}

/// Groups tensors that views and in-place ops might make share memory, and notes when each group is written.
void StorageMap::findWrites() {
  algo::DisjointSets sets;
  const auto indexOf = [&](const ir::Tensor* t) {
    const auto [it, fresh] = groupOf_.emplace(t, sets.size());
    if (fresh) sets.add();
    return it->second;
  };
  for (const ir::Op* op : order_) {
    if (const int32_t shared = sharedOperand(*op); shared >= 0) {
      sets.unite(indexOf(op->output()), indexOf(op->input(static_cast<size_t>(shared))));
    }
    for (const ir::Alias& a : op->aliases()) {
      sets.unite(indexOf(op->output(static_cast<size_t>(a.output))),
                 indexOf(op->input(static_cast<size_t>(a.input))));
    }
  }
  for (auto& [t, group] : groupOf_) group = sets.find(group);
  for (size_t n = 0; n < order_.size(); ++n) {
    for (size_t i = 0; i < order_[n]->inputs().size(); ++i) {
      const ir::Tensor* t = order_[n]->input(i);
      if (t == nullptr || !order_[n]->modifies(i)) continue;
      if (const auto it = groupOf_.find(t); it != groupOf_.end()) {
        writes_[it->second].push_back(static_cast<int32_t>(n));
      }
    }
  }
}

void StorageMap::findLastUses() {
  const auto end = static_cast<int32_t>(order_.size());
  for (const ir::Tensor* t : graph_.outputs()) lastUse_[t] = end;
  for (int32_t n = end; n-- > 0;) {
    const ir::Op& op = *order_[static_cast<size_t>(n)];
    int32_t until = n;
    if (sharedOperand(op) >= 0 || !op.aliases().empty()) {
      for (const ir::Tensor* t : op.outputs()) {
        if (const auto it = lastUse_.find(t); it != lastUse_.end()) until = std::max(until, it->second);
      }
    }
    for (const ir::Tensor* t : op.inputs()) {
      if (t == nullptr) continue;
      const auto [it, fresh] = lastUse_.emplace(t, until);
      if (!fresh) it->second = std::max(it->second, until);
    }
  }
}

bool StorageMap::isWrittenBetween(const ir::Tensor* t, int32_t after, int32_t upTo) const {
  const auto group = groupOf_.find(t);
  if (group == groupOf_.end()) return false;
  const auto it = writes_.find(group->second);
  if (it == writes_.end()) return false;
  const auto next = std::upper_bound(it->second.begin(), it->second.end(), after);
  return next != it->second.end() && *next <= upTo;
}

const Storage& StorageMap::storageOf(const ir::Tensor* t) {
  const auto it = storages_.find(t);
  if (it != storages_.end()) return it->second;
  POPXL_ASSERT(t->isPersistent(), "tensor {} is used before it is made", t->id());
  const auto kind =
      t->kind() == ir::TensorKind::kVariable ? Buffer::Kind::kVariable : Buffer::Kind::kConstant;
  const int32_t buffer = addBuffer({kind, t->type().bytes(), 0, t});
  return storages_.emplace(t, Storage{buffer, Layout(t->dtype(), t->shape()), 0}).first->second;
}

void StorageMap::placeOwn(const ir::Tensor* t) {
  const int32_t buffer = addBuffer({Buffer::Kind::kLocal, t->type().bytes(), 0, t});
  storages_[t] = {buffer, Layout(t->dtype(), t->shape()), 0};
}

/// Makes the result of an op share its operand's memory if that is right; true when it does.
bool StorageMap::placeShared(const ir::Op& op, int32_t position) {
  const Storage source = storageOf(op.input(static_cast<size_t>(sharedOperand(op))));
  const auto last = lastUse_.find(op.output());
  const int32_t until = last == lastUse_.end() ? position : last->second;
  const bool mustShare = op.inplace();
  if (!mustShare && isWrittenBetween(op.output(), position, until)) return false;
  if (op.def().view == nullptr) {
    storages_[op.output()] = source;
    return true;
  }
  ir::View view;
  if (!op.def().view(op, source.layout, view)) {
    if (mustShare && isWrittenBetween(op.output(), position, static_cast<int32_t>(order_.size()))) {
      fail(ErrorKind::kGraph,
           "`{}` at {}: tensor `{}` can't be the same memory as `{}`, whose elements lie in another order, "
           "and one of them "
           "is written later; use the op that does not work in place",
           op.name(), op.loc().str(), op.output()->id(), op.input(0)->id());
    }
    return false;
  }
  storages_[op.output()] = {source.buffer, std::move(view.layout), source.elementOffset + view.elementOffset};
  return true;
}

void StorageMap::place(const ir::Op& op, int32_t position) {
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (op.input(i) != nullptr && (liveness_.reads(op, i) || op.modifies(i))) storageOf(op.input(i));
  }
  if (sharedOperand(op) >= 0) {
    if (placeShared(op, position)) {
      free_.insert(&op);
    } else {
      placeOwn(op.output());
    }
    return;
  }
  const auto aliases = op.aliases();
  for (size_t i = 0; i < op.outputs().size(); ++i) {
    const auto alias = std::find_if(aliases.begin(), aliases.end(),
                                    [&](const ir::Alias& a) { return a.output == static_cast<int32_t>(i); });
    if (alias != aliases.end() && op.modifies(static_cast<size_t>(alias->input))) {
      storages_[op.output(i)] = storageOf(op.input(static_cast<size_t>(alias->input)));
    } else {
      placeOwn(op.output(i));
    }
  }
}

}  // namespace popxl::compile
