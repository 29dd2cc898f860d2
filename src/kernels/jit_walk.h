#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "kernels/jit.h"
#include "kernels/tile_program.h"

namespace popxl::kernels::jit {

/// A compiled group over a space: the space's dimensions, merged where the strides of all operands allow, are
/// seen as blocks of rows.
class Walk {
 public:
  /// Operands' strides have one entry (elements) a dimension of `space`. Outputs of more than `streamedFrom`
  /// bytes are written past the caches.
  Walk(Isa isa, const Expr& expr, const Shape& space, std::span<const TileOperand> inputs,
       std::span<const TileOperand> outputs, int64_t streamedFrom = INT64_MAX);

  int64_t positions() const { return positions_; }
  size_t calls() const { return function_->calls(); }
  /// Positions [begin, end), row-major. Operands: inputs, then outputs.
  void run(std::byte* const* operands, int64_t begin, int64_t end) const;

 private:
  std::vector<std::vector<int64_t>> mergeDimensions(const Shape& space,
                                                    const std::vector<const Strides*>& strides);

  bool canStream(std::byte* const* operands) const;
  bool isAligned(const Block& block) const;

  std::shared_ptr<const Function> function_;
  std::shared_ptr<const Function> streaming_;  // the same for aligned blocks of large outputs; or null
  int64_t positions_;
  std::vector<int64_t> sizes_;                 // merged; rows and columns last
  std::vector<std::vector<int64_t>> strides_;  // bytes, of every slot, by merged dimension
  std::vector<int64_t> rowStrides_;            // bytes, of every slot
  std::vector<int64_t> columnStrides_;         // elements, of every slot
};

}  // namespace popxl::kernels::jit
