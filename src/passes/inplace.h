#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Lets ops work in place where the operand has no other name and all its other readers have run before.
///
///   %a = matmul %x, %w
///   %b = gelu %a          // becomes gelu_ %a
bool inplace(ir::Graph& graph);
bool inplace(ir::Ir& ir);

}  // namespace popxl::passes
