#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Removes ops whose result is an operand as it is: views of the whole, sums and concatenations of one
/// tensor, casts to the dtype that a tensor has. Not those that stop gradients or bring a tensor to another
/// place.
///
///   %a = transpose %x {permutation = [0, 1]}
///   %b = exp %a                               // becomes exp %x
bool preAlias(ir::Graph& graph);
bool preAlias(ir::Ir& ir);

}  // namespace popxl::passes
