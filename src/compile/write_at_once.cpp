#include <algorithm>
#include <unordered_map>

#include "compile/fuse.h"

namespace popxl::compile {
namespace {

/// The tensor that a step only copies into an operand of its op; null when it does anything else.
const ir::Tensor* copiedBy(const Step& step) {
  if (!step.elementwise || step.ops.size() != 1 || step.producer != nullptr) return nullptr;
  const ir::Op& op = *step.ops.front();
  const auto aliases = op.aliases();
  if (aliases.size() != 1 || !op.modifies(static_cast<size_t>(aliases.front().input))) return nullptr;
  const int32_t copied = copiedOperand(op);
  return copied < 0 || copied == aliases.front().input ? nullptr : op.input(static_cast<size_t>(copied));
}

bool touches(const Step& step, int32_t buffer, const StorageMap& storages) {
  const auto lies = [&](const ir::Tensor* t) {
    return t != nullptr && storages.has(t) && storages.at(t).buffer == buffer;
  };
  const auto uses = [&](const ir::Op* op) {
    return std::any_of(op->inputs().begin(), op->inputs().end(), lies) ||
           std::any_of(op->outputs().begin(), op->outputs().end(), lies);
  };
  return (step.producer != nullptr && uses(step.producer)) ||
         std::any_of(step.ops.begin(), step.ops.end(), uses);
}

/// Whether a tensor is all of the memory that was made for it, laid out as `other`.
bool isOwn(const ir::Tensor* t, const Storage& other, const StorageMap& storages) {
  const Storage& own = storages.at(t);
  const Buffer& buffer = storages.buffers()[static_cast<size_t>(own.buffer)];
  return buffer.kind == Buffer::Kind::kLocal && buffer.root == t && own.elementOffset == 0 &&
         own.layout == other.layout;
}

}  // namespace

void writeCopiesAtOnce(std::vector<Step>& steps, StorageMap& storages) {
  std::unordered_map<const ir::Tensor*, size_t> madeBy;
  for (size_t s = 0; s < steps.size(); ++s) {
    const ir::Op& op = *steps[s].ops.front();
    if (op.def().kernel != nullptr) {
      for (const ir::Tensor* t : op.outputs()) madeBy.emplace(t, s);
    }
    const ir::Tensor* t = copiedBy(steps[s]);
    const auto made = t == nullptr ? madeBy.end() : madeBy.find(t);
    if (made == madeBy.end()) continue;
    const Storage target = storages.at(op.output());
    if (storages.onlyUse(t) != &op || !isOwn(t, target, storages)) continue;
    const auto from = steps.begin() + static_cast<std::ptrdiff_t>(made->second);
    const bool inUse = std::any_of(from, steps.begin() + static_cast<std::ptrdiff_t>(s),
                                   [&](const Step& step) { return touches(step, target.buffer, storages); });
    if (inUse) continue;
    storages.move(t, target);
    steps[s].ops.clear();
  }
  std::erase_if(steps, [](const Step& step) { return step.ops.empty(); });
}

}  // namespace popxl::compile
