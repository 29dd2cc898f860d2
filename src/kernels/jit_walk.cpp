#include "kernels/jit_walk.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace popxl::kernels::jit {
namespace {

constexpr size_t kMaxDims = 32;
constexpr uintptr_t kLineBytes = 64;

}  // namespace

Walk::Walk(Isa isa, const Expr& expr, const Shape& space, std::span<const TileOperand> inputs,
           std::span<const TileOperand> outputs, int64_t streamedFrom)
    : positions_(numElements(space)) {
  std::vector<const Strides*> strides;
  for (const auto& operands : {inputs, outputs}) {
    for (const TileOperand& operand : operands) strides.push_back(&operand.strides);
  }
  std::vector<std::vector<int64_t>> merged = mergeDimensions(space, strides);
  const bool scalar = sizes_.back() == 1;
  std::vector<Operand> kinds;
  for (size_t i = 0; i < strides.size(); ++i) {
    const TileOperand& operand = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    const int64_t inner = scalar ? 1 : merged[i].back();
    kinds.push_back({.dtype = operand.dtype,
                     .access = inner == 1   ? Access::kDense
                               : inner == 0 ? Access::kUniform
                                            : Access::kStrided});
  }
  const std::span<Operand> all(kinds);
  function_ = compile(isa, expr, all.first(inputs.size()), all.subspan(inputs.size()));
  bool streams = false;
  for (Operand& out : all.subspan(inputs.size())) {
    const int64_t size = popxl::sizeOf(out.dtype);
    out.streams = out.access == Access::kDense && size >= 4 && positions_ > streamedFrom / size;
    streams = streams || out.streams;
  }
  if (streams) streaming_ = compile(isa, expr, all.first(inputs.size()), all.subspan(inputs.size()));
  for (const Slot& slot : function_->slots()) {
    std::vector<int64_t> own = merged[static_cast<size_t>(slot.operand)];
    columnStrides_.push_back(own.back());
    for (int64_t& stride : own)
      stride = slot.access == Access::kElement ? 0 : stride * popxl::sizeOf(slot.dtype);
    rowStrides_.push_back(own[own.size() - 2]);
    strides_.push_back(std::move(own));
  }
}

/// Sets sizes_ (two dimensions at least) and returns the operands' strides in them.
std::vector<std::vector<int64_t>> Walk::mergeDimensions(const Shape& space,
                                                        const std::vector<const Strides*>& strides) {
  std::vector<std::vector<int64_t>> merged(strides.size());
  for (size_t d = 0; d < space.size(); ++d) {
    if (space[d] == 1) continue;
    bool merges = !sizes_.empty();
    for (size_t i = 0; i < strides.size() && merges; ++i) {
      merges = merged[i].back() == (*strides[i])[d] * space[d];
    }
    if (merges) {
      sizes_.back() *= space[d];
    } else {
      sizes_.push_back(space[d]);
    }
    for (size_t i = 0; i < strides.size(); ++i) {
      if (merges) merged[i].pop_back();
      merged[i].push_back((*strides[i])[d]);
    }
  }
  while (sizes_.size() < 2) {
    sizes_.insert(sizes_.begin(), 1);
    for (std::vector<int64_t>& own : merged) own.insert(own.begin(), 0);
  }
  POPXL_ASSERT(sizes_.size() <= kMaxDims, "{} dimensions that do not merge", sizes_.size());
  return merged;
}

/// Not results in place: their lines are in the caches already.
bool Walk::canStream(std::byte* const* operands) const {
  if (streaming_ == nullptr) return false;
  const std::span<const Slot> slots = streaming_->slots();
  return std::none_of(slots.begin(), slots.end(), [&](const Slot& out) {
    return out.streams && std::any_of(slots.begin(), slots.end(), [&](const Slot& other) {
             return !other.streams && operands[other.operand] == operands[out.operand];
           });
  });
}

/// Whether all that is streamed is whole cache lines.
bool Walk::isAligned(const Block& block) const {
  const std::span<const Slot> slots = streaming_->slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].streams) continue;
    const auto rowStride = static_cast<uintptr_t>(block.rows == 1 ? 0 : block.rowStrides[i]);
    if ((reinterpret_cast<uintptr_t>(block.pointers[i]) | rowStride) % kLineBytes != 0) return false;
  }
  return block.columns % kBlock == 0;
}

void Walk::run(std::byte* const* operands, int64_t begin, int64_t end) const {
  const std::span<const Slot> slots = function_->slots();
  const size_t rank = sizes_.size();
  const int64_t rows = sizes_[rank - 2], columns = sizes_[rank - 1];
  std::array<std::byte*, kMaxSlots> pointers;
  const bool streams = canStream(operands);
  for (int64_t position = begin; position < end;) {
    const int64_t column = position % columns;
    const int64_t row = position / columns % rows;
    // A part of a row, or as many whole rows as there are.
    const bool part = column != 0 || end - position < columns;
    Block block{.pointers = pointers.data(),
                .rowStrides = rowStrides_.data(),
                .strides = columnStrides_.data(),
                .position = static_cast<uint64_t>(position),
                .rowPositions = columns};
    block.columns = part ? std::min(columns - column, end - position) : columns;
    // What is left of whole cache lines is a block of its own.
    if (streams && part && block.columns > kBlock) block.columns -= block.columns % kBlock;
    block.rows = part ? 1 : std::min(rows - row, (end - position) / columns);
    for (size_t i = 0; i < slots.size(); ++i) {
      int64_t offset = column * strides_[i][rank - 1] + row * strides_[i][rank - 2];
      int64_t outer = position / columns / rows;
      for (size_t d = rank - 2; d-- > 0; outer /= sizes_[d]) offset += outer % sizes_[d] * strides_[i][d];
      pointers[i] = operands[slots[i].operand] + offset;
    }
    (streams && isAligned(block) ? *streaming_ : *function_).run(block);
    position += block.rows * block.columns;
  }
}

}  // namespace popxl::kernels::jit
