#include "compile/fuse.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"

namespace popxl::compile {
namespace {

constexpr size_t kMaxOps = 64;
constexpr size_t kMaxOperands = 28;

/// POPXL_DISABLE_PASSES=fuse: one op a step, to tell whether fusion is at fault.
bool fusionDisabled() {
  const char* value = std::getenv("POPXL_DISABLE_PASSES");
  return value != nullptr && std::string_view(value).find("fuse") != std::string_view::npos;
}

bool isReduction(const ir::OpDef& def) { return def.reducesAxes || def.reducesToOutput; }

/// A group that may still grow. It runs when it is closed, so its ops move from their place in the order to
/// there.
struct Group {
  Shape space;
  std::vector<std::pair<size_t, const ir::Op*>> ops;     // with their place in the order
  std::set<const ir::Tensor*> values;                    // results of its ops
  std::map<int32_t, std::set<const ir::Tensor*>> reads;  // by buffer
  std::set<int32_t> owned;                               // buffers that it writes
  std::set<const ir::Tensor*> operands;
  int64_t id = 0;
};

class Fuser {
 public:
  Fuser(const ir::Graph& graph, const std::vector<ir::Op*>& order, const StorageMap& storages,
        const analysis::Liveness& liveness)
      : order_(order), storages_(storages), liveness_(liveness), pendingUses_(graph, 0) {
    for (const ir::Op* op : order) {
      for (const ir::Tensor* t : op->inputs()) {
        if (t != nullptr) ++pendingUses_[t];
      }
    }
  }

  std::vector<Step> run() {
    for (size_t n = 0; n < order_.size(); ++n) {
      const ir::Op& op = *order_[n];
      const bool elementwise = op.def().expr != nullptr && !isReduction(op.def());
      for (const ir::Tensor* t : op.inputs()) {
        if (t != nullptr) --pendingUses_[t];
      }
      if (storages_.isFree(&op)) {
        carryUses(op);
      } else if (elementwise) {
        addElementwise(n, op);
      } else {
        addSingle(op);
      }
      while (alone_ && !open_.empty()) close(open_.begin());
      closeFinished(op);
    }
    while (!open_.empty()) close(open_.begin());
    return std::move(steps_);
  }

 private:
  using Groups = std::list<Group>;

  /// A free view is read in its source's place: a group that makes the source has to run before the view is
  /// read.
  void carryUses(const ir::Op& op) {
    const int32_t operand = storages_.sharedOperand(op);
    if (operand < 0) return;  // made of pieces that kernels write
    if (auto g = owner(op.input(static_cast<size_t>(operand))); g != open_.end()) close(g);
  }

  Groups::iterator owner(const ir::Tensor* t) {
    if (!storages_.has(t)) return open_.end();
    const auto it = ownerOf_.find(storages_.at(t).buffer);
    return it == ownerOf_.end() ? open_.end() : it->second;
  }

  void close(Groups::iterator g) {
    std::sort(g->ops.begin(), g->ops.end());
    Step step;
    step.elementwise = true;
    for (const auto& [place, op] : g->ops) step.ops.push_back(op);
    steps_.push_back(std::move(step));
    for (const int32_t buffer : g->owned) ownerOf_.erase(buffer);
    forgetReads(*g);
    open_.erase(g);
  }

  /// Groups whose results nothing to come will read cannot grow: run them now, so that their operands can
  /// die.
  /// Only the groups that an op reads or joined can have become such.
  void closeFinished(const ir::Op& op) {
    if (open_.empty()) return;
    const auto check = [&](const ir::Tensor* t) {
      const auto g = t == nullptr ? open_.end() : owner(t);
      if (g == open_.end()) return;
      const bool waits = std::any_of(g->values.begin(), g->values.end(),
                                     [&](const ir::Tensor* value) { return pendingUses_[value] > 0; });
      if (!waits) close(g);
    };
    for (const ir::Tensor* t : op.inputs()) check(t);
    for (const ir::Tensor* t : op.outputs()) check(t);
  }

  void forgetReads(const Group& g) {
    for (const auto& [buffer, tensors] : g.reads) {
      const auto readers = readersOf_.find(buffer);
      readers->second.erase(g.id);
      if (readers->second.empty()) readersOf_.erase(readers);
    }
  }

  void closeOwnersOf(const ir::Op& op) {
    if (open_.empty()) return;
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (op.input(i) == nullptr || !(liveness_.reads(op, i) || op.modifies(i))) continue;
      if (auto g = owner(op.input(i)); g != open_.end()) close(g);
    }
  }

  /// Before op writes a buffer, groups that read it have to run, except `keep`.
  void closeReadersOfWritten(const ir::Op& op, Groups::iterator keep) {
    if (open_.empty()) return;
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (op.input(i) == nullptr || !op.modifies(i)) continue;
      const int32_t buffer = storages_.at(op.input(i)).buffer;
      const auto readers = readersOf_.find(buffer);
      if (readers == readersOf_.end()) continue;
      for (const auto& [id, g] : std::map(readers->second)) {  // a copy: closing takes groups out
        if (g != keep) close(g);
      }
    }
  }

  void addSingle(const ir::Op& op) {
    closeOwnersOf(op);
    closeReadersOfWritten(op, open_.end());
    steps_.push_back({{&op}, false});
  }

  /// Whether all that the group writes of a buffer is the same elements: only the last of several writes is
  /// carried out.
  bool holdsOnly(const Group& g, const Storage& written) const {
    return std::all_of(g.values.begin(), g.values.end(), [&](const ir::Tensor* t) {
      const Storage& own = storages_.at(t);
      return own.buffer != written.buffer || own == written;
    });
  }

  static bool isUpdated(const ir::Op& op, size_t operand) {
    const auto& also = op.def().alsoModifies;
    return op.def().update != nullptr &&
           std::find(also.begin(), also.end(), static_cast<int32_t>(operand)) != also.end();
  }

  /// Whether op can use the values of group g directly.
  bool fits(const ir::Op& op, const Shape& space, const std::vector<OperandUse>& uses, const Group& g) const {
    if (g.space != space || g.ops.size() >= kMaxOps) return false;
    std::set<const ir::Tensor*> operands = g.operands;
    for (size_t i = 0; i < uses.size(); ++i) {
      const ir::Tensor* t = op.input(i);
      if (t == nullptr || !(uses[i].value || uses[i].element)) continue;
      const bool inside = g.values.contains(t);
      if (inside && (uses[i].element || t->shape() != space)) return false;
      if (!inside && storages_.has(t) && g.owned.contains(storages_.at(t).buffer)) return false;
      if (!inside) operands.insert(t);
    }
    if (operands.size() + g.values.size() + op.outputs().size() > kMaxOperands) return false;
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (op.input(i) == nullptr || !op.modifies(i)) continue;
      // What the group reads of the written memory must be the same element at every position.
      const Storage& written = storages_.at(op.input(i));
      const auto reads = g.reads.find(written.buffer);
      if (isUpdated(op, i)) {  // before all arithmetic of the group, which then must not touch it
        if (reads != g.reads.end() || g.owned.contains(written.buffer)) return false;
        continue;
      }
      if (written.layout.shape != space) return false;
      if (g.owned.contains(written.buffer) && !holdsOnly(g, written)) return false;
      if (reads == g.reads.end()) continue;
      for (const ir::Tensor* t : reads->second) {
        if (!(storages_.at(t) == written)) return false;
      }
    }
    return true;
  }

  void addElementwise(size_t n, const ir::Op& op) {
    const Shape space = spaceOf(op);
    const auto uses = operandUses(op);
    auto target = open_.end();
    for (size_t i = 0; i < uses.size(); ++i) {
      const bool touched = uses[i].value || uses[i].element || (op.input(i) != nullptr && op.modifies(i));
      if (op.input(i) == nullptr || !touched) continue;
      const auto g = owner(op.input(i));
      if (g == open_.end() || g == target) continue;
      const bool first = target == open_.end();
      if (!fits(op, space, uses, *g) || (!first && !merge(target, g))) {
        close(g);
      } else if (first) {
        target = g;
      }
    }
    if (target != open_.end() && !fits(op, space, uses, *target)) {
      close(target);
      target = open_.end();
    }
    closeReadersOfWritten(op, target);
    if (target == open_.end())
      target = open_.insert(open_.end(), Group{space, {}, {}, {}, {}, {}, nextGroup_++});
    join(n, op, uses, target);
  }

  bool merge(Groups::iterator into, Groups::iterator from) {
    if (into->ops.size() + from->ops.size() > kMaxOps ||
        into->operands.size() + from->operands.size() + into->values.size() + from->values.size() >
            kMaxOperands) {
      return false;
    }
    into->ops.insert(into->ops.end(), from->ops.begin(), from->ops.end());
    into->values.insert(from->values.begin(), from->values.end());
    into->operands.insert(from->operands.begin(), from->operands.end());
    for (const auto& [buffer, tensors] : from->reads) {
      into->reads[buffer].insert(tensors.begin(), tensors.end());
      readersOf_[buffer].insert_or_assign(into->id, into);
    }
    forgetReads(*from);
    for (const int32_t buffer : from->owned) {
      into->owned.insert(buffer);
      ownerOf_[buffer] = into;
    }
    open_.erase(from);
    return true;
  }

  void join(size_t n, const ir::Op& op, const std::vector<OperandUse>& uses, Groups::iterator g) {
    for (size_t i = 0; i < uses.size(); ++i) {
      const ir::Tensor* t = op.input(i);
      if (t == nullptr || !(uses[i].value || uses[i].element) || g->values.contains(t)) continue;
      g->reads[storages_.at(t).buffer].insert(t);
      readersOf_[storages_.at(t).buffer].insert_or_assign(g->id, g);
      g->operands.insert(t);
    }
    g->ops.emplace_back(n, &op);
    for (const int32_t i : op.def().alsoModifies) {
      const ir::Tensor* t = op.input(static_cast<size_t>(i));
      if (t == nullptr) continue;
      g->owned.insert(storages_.at(t).buffer);
      ownerOf_[storages_.at(t).buffer] = g;
    }
    for (const ir::Tensor* t : op.outputs()) {
      g->values.insert(t);
      const int32_t buffer = storages_.at(t).buffer;
      g->owned.insert(buffer);
      ownerOf_[buffer] = g;
    }
  }

  const std::vector<ir::Op*>& order_;
  const StorageMap& storages_;
  const analysis::Liveness& liveness_;
  ir::TensorMap<int64_t> pendingUses_;
  const bool alone_ = fusionDisabled();
  Groups open_;
  int64_t nextGroup_ = 0;
  std::map<int32_t, Groups::iterator> ownerOf_;
  std::map<int32_t, std::map<int64_t, Groups::iterator>> readersOf_;  // of buffers, by group id
  std::vector<Step> steps_;
};

}  // namespace

Shape spaceOf(const ir::Op& op) {
  if (op.def().reducesAxes) return op.input(0)->shape();
  if (!op.def().reducesToOutput) return op.output(0)->shape();
  Shape space;
  const auto uses = operandUses(op);
  space = op.output(0)->shape();
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!uses[i].value) continue;
    const Shape before = space;
    POPXL_ASSERT(broadcastShapes(before, op.input(i)->shape(), space), "operands of {} do not broadcast",
                 op.name());
  }
  return space;
}

std::vector<Step> fuse(const ir::Graph& graph, const std::vector<ir::Op*>& order, const StorageMap& storages,
                       const analysis::Liveness& liveness) {
  std::vector<Step> steps = Fuser(graph, order, storages, liveness).run();
  if (!fusionDisabled()) attachProducers(steps, storages, liveness);
  return steps;
}

}  // namespace popxl::compile
