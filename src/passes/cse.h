#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Merges ops of one graph that compute the same: same op, operands, attributes and place. Only ops without
/// effect and randomness, and only where nothing writes the memory of their operands or results.
///
///   %a = add %x, %y : float32 (2)
///   %b = add %x, %y : float32 (2)      // uses of %b become uses of %a
bool cse(ir::Ir& ir);
bool cse(ir::Graph& graph);

}  // namespace popxl::passes
