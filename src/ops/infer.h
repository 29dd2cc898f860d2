#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/op.h"

/// Pieces of which shape and dtype inference is made.
namespace popxl::ops {

using ir::Attr;
using ir::Op;
using ir::TensorType;
using Types = std::vector<TensorType>;

inline const TensorType& typeOf(const Op& op, size_t operand) { return op.input(operand)->type(); }
inline const std::vector<int64_t>& ints(const Op& op, std::string_view attr) {
  return op.attr<std::vector<int64_t>>(attr);
}
inline int64_t integer(const Op& op, std::string_view attr) { return op.attr<int64_t>(attr); }

/// "operand `rhs` (x, float32 (2, 3))": how messages name an operand.
std::string describe(const Op& op, size_t operand);

/// The result is like operand I.
template <size_t I>
void likeOperand(const Op& op, Types& out) {
  out.push_back(typeOf(op, I));
}
inline void sameType(const Op& op, Types& out) { likeOperand<0>(op, out); }
/// One dtype, shapes broadcast over all operands present. Error(kGraph) when they do not fit.
void broadcastAll(const Op& op, Types& out);
/// Like broadcastAll, with a bool result.
void broadcastToBool(const Op& op, Types& out);
/// Shape of operand 0, bool.
void sameShapeBool(const Op& op, Types& out);
/// Dtype of operand 0, shape of attribute `shape`.
void shapeOfAttr(const Op& op, Types& out);

/// Error(kGraph) unless both operands have one shape.
void requireSameShape(const Op& op, size_t a, size_t b);
/// Error(kGraph) unless both operands have one dtype.
void requireSameDType(const Op& op, size_t a, size_t b);
/// The result is like operand I; all operands have its dtype.
template <size_t I>
void likeOperandOfOneDType(const Op& op, Types& out) {
  for (size_t i = 0; i < op.inputs().size(); ++i) requireSameDType(op, I, i);
  likeOperand<I>(op, out);
}
/// Error(kGraph) unless the operand has this rank.
void requireRank(const Op& op, size_t operand, int64_t rank);
/// Error(kGraph) unless the operand has at most one element.
void requireScalar(const Op& op, size_t operand);

/// Attribute `axis` as an index into the dimensions of a tensor of this rank.
int64_t axisOf(const Op& op, int64_t rank, std::string_view attr = "axis");
/// Attribute "axes" sorted, non-negative; empty means all of them. Error(kValue) for one out of range or
/// twice.
std::vector<int64_t> reductionAxes(const Op& op, int64_t rank);
/// `shape` with the axes kept as 1, or dropped.
Shape reducedShape(const Shape& shape, const std::vector<int64_t>& axes, bool keep);
/// The strides and shape of a reduced tensor as if its axes had been kept.
Layout keptLayout(const Layout& reduced, const std::vector<int64_t>& axes, int64_t rank);

/// Values of an operand that is known while the graph is built (a constant or a variable with data).
/// Error(kValue) when it is not.
std::vector<int64_t> knownInts(const Op& op, size_t operand);

}  // namespace popxl::ops
