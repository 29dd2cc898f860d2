#pragma once

#include "ir/ir.h"

namespace popxl::analysis {

/// Error(kGraph) naming op and line when what an op was made for has changed since: the graph that it runs
/// gained or lost inputs or outputs, or a collective or variable of groups is for another number of replicas.
void checkCalls(const ir::Ir& ir);

/// Whether something was made for the number of replicas that the program has now.
bool dependsOnReplicas(const ir::Ir& ir);

/// Whether running the graph may reach a collective.
bool holdsCollective(const ir::Graph& graph);

}  // namespace popxl::analysis
