#pragma once

#include <optional>

#include "kernels/conv_plan.h"
#include "kernels/onednn_primitive.h"

namespace popxl::kernels::onednn {

/// A tensor of a piece: as it lies outside the library, and as the primitive wants it.
struct Side {
  dnnl::memory::desc outside, inside;
  std::unique_ptr<Primitive> reorder;  ///< null when they are the same

  int64_t insideBytes() const { return reorder == nullptr ? 0 : static_cast<int64_t>(inside.get_size()); }
  int64_t scratchBytes() const { return reorder == nullptr ? 0 : reorder->scratchBytes(); }
};

/// The primitives of one piece of a convolution: result = first (*) second, in the order of the operands of
/// conv.h. Data is channels-last inside, weights are as the library likes them.
struct ConvPiece {
  Side first, second, result;
  std::unique_ptr<Primitive> conv;
};

/// For a convolution of float32 tensors of any strides; `packed`: the layout that weights have inside, the
/// library's choice when null. Null where the library has no fast implementation.
std::optional<ConvPiece> makeConvPiece(const ConvSpec& spec, ConvDirection direction,
                                       const dnnl::memory::desc* packed = nullptr);

/// Runs a primitive of two arguments and, when it wants one, a scratchpad.
void runReorder(const Primitive& primitive, void* from, void* to, std::byte* scratchpad);

}  // namespace popxl::kernels::onednn
