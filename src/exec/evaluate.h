#pragma once

#include <cstddef>
#include <vector>

#include "ir/op.h"

namespace popxl::exec {

using Bytes = std::vector<std::byte>;

/// The values of a dense tensor, and their memory, each rounded to the dtype.
ir::Array arrayOf(const ir::TensorType& type, const Bytes& bytes);
Bytes bytesOf(const ir::Array& array, DType dtype);

/// The results of one op by its definition: its arithmetic, reduction or reference loop in float64, each
/// result rounded to its dtype once. Operands and results are dense in row-major order; an absent operand is
/// empty.
std::vector<Bytes> evaluate(const ir::Op& op, const std::vector<Bytes>& operands);

/// The new value of an operand that the op changes before its arithmetic reads it (OpDef::update).
Bytes evaluateUpdate(const ir::Op& op, size_t operand, const Bytes& old);

}  // namespace popxl::exec
