#include <algorithm>
#include <set>
#include <unordered_map>

#include "compile/fuse.h"

namespace popxl::compile {
namespace {

class Attacher {
 public:
  Attacher(std::vector<Step>& steps, const StorageMap& storages, const analysis::Liveness& liveness)
      : steps_(steps), storages_(storages), liveness_(liveness) {}

  void run() {
    std::unordered_map<const ir::Tensor*, size_t> madeBy;
    for (size_t s = 0; s < steps_.size(); ++s) {
      Step& step = steps_[s];
      if (!step.elementwise) {
        const ir::Op& op = *step.ops.front();
        if (op.def().groupKernel != nullptr && op.outputs().size() == 1) madeBy.emplace(op.output(), s);
        continue;
      }
      size_t best = s;
      for (const ir::Op* op : step.ops) {
        for (const ir::Tensor* t : op->inputs()) {
          const auto made = t == nullptr ? madeBy.end() : madeBy.find(t);
          if (made == madeBy.end() || (best != s && made->second < best)) continue;
          if (fits(made->second, s)) best = made->second;
        }
      }
      if (best == s) continue;
      step.producer = steps_[best].ops.front();
      madeBy.erase(step.producer->output());
      steps_[best].ops.clear();
    }
    std::erase_if(steps_, [](const Step& step) { return step.ops.empty(); });
  }

 private:
  int32_t bufferOf(const ir::Tensor* t) const { return storages_.has(t) ? storages_.at(t).buffer : -1; }

  std::set<int32_t> inputBuffers(const ir::Op& op) const {
    std::set<int32_t> buffers;
    for (const ir::Tensor* t : op.inputs()) {
      if (t != nullptr) buffers.insert(bufferOf(t));
    }
    return buffers;
  }

  /// Whether op reads or writes the buffer.
  bool touches(const ir::Op& op, int32_t buffer) const {
    const auto uses = [&](const ir::Tensor* t) { return t != nullptr && bufferOf(t) == buffer; };
    return std::any_of(op.inputs().begin(), op.inputs().end(), uses) ||
           std::any_of(op.outputs().begin(), op.outputs().end(), uses);
  }

  /// Whether op writes memory that is among `buffers`.
  bool writes(const ir::Op& op, const std::set<int32_t>& buffers) const {
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (op.input(i) != nullptr && op.modifies(i) && buffers.contains(bufferOf(op.input(i)))) return true;
    }
    return std::any_of(op.outputs().begin(), op.outputs().end(),
                       [&](const ir::Tensor* t) { return buffers.contains(bufferOf(t)); });
  }

  /// Whether the op of step `from` may run with the group of step `to`, which reads its result.
  bool fits(size_t from, size_t to) const {
    if (steps_[from].ops.empty()) return false;
    const ir::Op& op = *steps_[from].ops.front();
    const Storage& result = storages_.at(op.output());
    const std::set<int32_t> inputs = inputBuffers(op);
    if (inputs.contains(result.buffer) || !result.layout.isContiguous()) return false;
    for (size_t s = from + 1; s < to; ++s) {
      const Step& between = steps_[s];
      if (between.producer != nullptr &&
          (touches(*between.producer, result.buffer) || writes(*between.producer, inputs))) {
        return false;
      }
      for (const ir::Op* other : between.ops) {
        if (touches(*other, result.buffer) || writes(*other, inputs)) return false;
      }
    }
    return groupFits(steps_[to], op, result, inputs);
  }

  /// The group works on one position after the other of the result, and leaves the op's operands alone.
  bool groupFits(const Step& group, const ir::Op& op, const Storage& result,
                 const std::set<int32_t>& inputs) const {
    if (spaceOf(*group.ops.front()) != op.output()->shape()) return false;
    for (const ir::Op* member : group.ops) {
      if (writes(*member, inputs) || member->def().update != nullptr) return false;
      const auto uses = operandUses(*member);
      for (size_t i = 0; i < uses.size(); ++i) {
        const ir::Tensor* t = member->input(i);
        if (t == nullptr || bufferOf(t) != result.buffer || !liveness_.reads(*member, i)) continue;
        if (uses[i].element || !(storages_.at(t) == result)) return false;
      }
    }
    return true;
  }

  std::vector<Step>& steps_;
  const StorageMap& storages_;
  const analysis::Liveness& liveness_;
};

}  // namespace

void attachProducers(std::vector<Step>& steps, const StorageMap& storages,
                     const analysis::Liveness& liveness) {
  Attacher(steps, storages, liveness).run();
}

}  // namespace popxl::compile
