#pragma once

#include "kernels/expr.h"

namespace popxl::kernels {

/// Floating-point operations that a primitive counts as in costs: 1 for arithmetic and comparisons, for a
/// transcendental the length of the polynomial that computes it, 0 for what moves or reinterprets bits.
double flopsOf(Prim p);
/// Those of an expression at one position: of all nodes that its outputs need.
double flopsOf(const Expr& expr);

}  // namespace popxl::kernels
