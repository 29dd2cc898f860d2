#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Removes graphs that the main graph does not reach by calls. Only for a copy that is compiled: in the
/// user's own Ir a graph may be called later.
bool pruneGraphs(ir::Ir& ir);

}  // namespace popxl::passes
