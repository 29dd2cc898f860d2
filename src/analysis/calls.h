#pragma once

#include "ir/ir.h"

namespace popxl::analysis {

/// Error(kGraph) naming call and line when a graph has changed since an op that runs it was made: inputs or
/// outputs were added or removed, so that operands and results of the op no longer match.
void checkCalls(const ir::Ir& ir);

/// Whether running the graph may reach a collective.
bool holdsCollective(const ir::Graph& graph);

}  // namespace popxl::analysis
