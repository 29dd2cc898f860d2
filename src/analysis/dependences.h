#pragma once

#include "algo/toposort.h"
#include "ir/graph.h"

namespace popxl::analysis {

/// What must run before what in a graph, by index into graph.ops(): data, ordering constraints and execution
/// contexts. Nodes beyond the ops stand for the points between two execution contexts.
algo::Dag dependences(const ir::Graph& graph);

/// The ops so that data and constraints lead forwards; order of creation where they leave a choice.
std::vector<ir::Op*> topologicalOrder(const ir::Graph& graph);

/// The given ops and all that must run before them, by data or ordering constraints. Null ones are left out.
std::vector<const ir::Op*> mustRunBefore(const std::vector<const ir::Op*>& ops);

}  // namespace popxl::analysis
