#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Removes ops whose results nothing uses and that have no effect: they write no operand, do not talk to host
/// or remote buffers, print nothing, and call no graph that does. Graph outputs count as uses, whether or not
/// a caller uses them.
///
///   %a = exp %x : float32 (2)
///   %b = neg %a : float32 (2)      // both go when %b is unused
bool prune(ir::Ir& ir);
bool prune(ir::Graph& graph);

}  // namespace popxl::passes
