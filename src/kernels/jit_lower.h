#pragma once

#include <span>

#include "kernels/expr.h"
#include "kernels/jit_code.h"

namespace popxl::kernels::jit {

/// How an operand of a group lies along a row.
struct Operand {
  DType dtype;
  Access access = Access::kDense;
  bool streams = false;  ///< as in Slot
};

/// The code of `expr`: every primitive in the order of operations that the tile code has, so that both give
/// the same bits (NaNs aside, whose payload is open). Slots of the inputs that it uses come first, then one
/// for every output. Primitives without vector code of their own call the tile code.
Code lowerExpr(Isa isa, const Expr& expr, std::span<const Operand> inputs, std::span<const Operand> outputs);

}  // namespace popxl::kernels::jit
