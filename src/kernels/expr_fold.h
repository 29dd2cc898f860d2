#pragma once

#include <optional>

#include "kernels/expr.h"

namespace popxl::kernels::detail {

/// The constant that `node` gives on constant operands, when every back end computes exactly these bits;
/// nothing for primitives that are approximated.
std::optional<Node> foldConstant(const Expr& expr, const Node& node);

/// The id of an existing node with the same value as `node`, or -1: identities such as x * 1 that hold for
/// every bit pattern, signed zeros and NaN included.
int32_t simplify(const Expr& expr, const Node& node);

/// A constant whose value does not fit its type exactly is brought into it, so that equal constants compare
/// equal.
Node normalizeConstant(Node node);

}  // namespace popxl::kernels::detail
