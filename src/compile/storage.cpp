#include "compile/storage.h"

#include <algorithm>

#include "algo/regions.h"
#include "base/error.h"
#include "compile/group_expr.h"

namespace popxl::compile {
StorageMap::StorageMap(const ir::Graph& graph, const std::vector<ir::Op*>& order,
                       const analysis::Liveness& liveness, const ChannelsLast& channelsLast)
    : graph_(graph),
      order_(order),
      liveness_(liveness),
      channelsLast_(channelsLast),
      storages_(graph),
      free_(graph, false),
      passed_(graph, -1),
      lastUse_(graph, -1),
      groupOf_(graph, -1) {
  for (const ir::Op* op : order) passed_[op] = passedOperand(*op);
  findWrites();
  findLastUses();
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Tensor* t = graph.inputs()[i];
    storages_[t] = {addBuffer({Buffer::Kind::kArgumentIn, t->type().bytes(), static_cast<int32_t>(i), t}),
                    channelsLast.layoutOf(t), 0};
  }
  for (const ir::Op* op : order) {
    if (op->def().joins) placePieces(*op);
  }
  for (size_t i = 0; i < order.size(); ++i) place(*order[i], static_cast<int32_t>(i));
}

int32_t StorageMap::sharedOperand(const ir::Op& op) const {
  if (op.def().view != nullptr) return 0;
  return passed_[&op];
}

const Storage& StorageMap::at(const ir::Tensor* t) const {
  POPXL_ASSERT(has(t), "tensor {} has no storage", t->id());
  return storages_[t];
}

int32_t StorageMap::addBuffer(Buffer b) {
  buffers_.push_back(b);
  return static_cast<int32_t>(buffers_.size()) - 1;
}

/// Groups tensors that views and in-place ops might make share memory, and notes when each group is written.
void StorageMap::findWrites() {
  algo::DisjointSets sets;
  const auto indexOf = [&](const ir::Tensor* t) {
    if (groupOf_[t] < 0) {
      groupOf_[t] = sets.size();
      sets.add();
    }
    return groupOf_[t];
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
  if (sets.size() == 0) return;
  for (size_t n = 0; n < order_.size(); ++n) {
    for (size_t i = 0; i < order_[n]->inputs().size(); ++i) {
      const ir::Tensor* t = order_[n]->input(i);
      if (t == nullptr || !order_[n]->modifies(i)) continue;
      if (groupOf_[t] >= 0) writes_[sets.find(groupOf_[t])].push_back(static_cast<int32_t>(n));
    }
  }
  const auto settle = [&](const ir::Tensor* t) {
    if (t != nullptr && groupOf_[t] >= 0) groupOf_[t] = sets.find(groupOf_[t]);
  };
  for (const ir::Op* op : order_) {
    std::for_each(op->inputs().begin(), op->inputs().end(), settle);
    std::for_each(op->outputs().begin(), op->outputs().end(), settle);
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
        until = std::max(until, lastUse_[t]);
      }
    }
    for (const ir::Tensor* t : op.inputs()) {
      if (t != nullptr) lastUse_[t] = std::max(lastUse_[t], until);
    }
  }
}

bool StorageMap::isWrittenBetween(const ir::Tensor* t, int32_t after, int32_t upTo) const {
  if (groupOf_[t] < 0) return false;
  const auto it = writes_.find(groupOf_[t]);
  if (it == writes_.end()) return false;
  const auto next = std::upper_bound(it->second.begin(), it->second.end(), after);
  return next != it->second.end() && *next <= upTo;
}

const Storage& StorageMap::storageOf(const ir::Tensor* t) {
  Storage& storage = storages_[t];
  if (storage.buffer >= 0) return storage;
  POPXL_ASSERT(t->isPersistent(), "tensor {} is used before it is made", t->id());
  const auto kind =
      t->kind() == ir::TensorKind::kVariable ? Buffer::Kind::kVariable : Buffer::Kind::kConstant;
  storage = {addBuffer({kind, t->type().bytes(), 0, t}), Layout(t->dtype(), t->shape()), 0};
  return storage;
}

void StorageMap::placeOwn(const ir::Tensor* t) {
  const int32_t buffer = addBuffer({Buffer::Kind::kLocal, t->type().bytes(), 0, t});
  storages_[t] = {buffer, layoutForViews(t), 0};
}

/// Makes the result of an op share its operand's memory if that is right; true when it does.
bool StorageMap::placeShared(const ir::Op& op, int32_t position) {
  const Storage source = storageOf(op.input(static_cast<size_t>(sharedOperand(op))));
  const int32_t until = std::max(position, lastUse_[op.output()]);
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
      free_[&op] = true;
    } else {
      placeOwn(op.output());
    }
    return;
  }
  const auto aliases = op.aliases();
  for (size_t i = 0; i < op.outputs().size(); ++i) {
    if (has(op.output(i))) continue;  // a piece of another result, or made of pieces
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
