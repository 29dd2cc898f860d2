#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Computes the transpose of a product as a product, which is then written once, where it is wanted.
///
///   %c = matmul %a, %b, _
///   %t = transpose %c {permutation = [1, 0]}   // becomes matmul of the transposes of %b and %a
///
/// Products read transposed operands where they lie. The gradient of a transposed weight has this form.
bool transposedProducts(ir::Ir& ir);

}  // namespace popxl::passes
