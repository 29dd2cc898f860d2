#include "analysis/calls.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace popxl::analysis {
namespace {

bool matches(const ir::Op& op) {
  std::vector<ir::TensorType> types;
  try {
    op.def().infer(op, types);
  } catch (const Error&) {
    return false;
  }
  if (types.size() != op.outputs().size()) return false;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].shape != op.output(i)->shape() || types[i].dtype != op.output(i)->dtype()) return false;
  }
  return true;
}

bool holdsCollective(const ir::Graph& graph, std::set<const ir::Graph*>& seen) {
  if (!seen.insert(&graph).second) return false;
  return std::any_of(graph.ops().begin(), graph.ops().end(), [&](const ir::Op* op) {
    const std::vector<ir::Graph*> callees = op->calledGraphs();
    return op->def().structure == ir::Structure::kCollective ||
           std::any_of(callees.begin(), callees.end(),
                       [&](const ir::Graph* callee) { return holdsCollective(*callee, seen); });
  });
}

}  // namespace

bool holdsCollective(const ir::Graph& graph) {
  std::set<const ir::Graph*> seen;
  return holdsCollective(graph, seen);
}

void checkCalls(const ir::Ir& ir) {
  for (const ir::Graph* graph : ir.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (op->calledGraph() == nullptr || matches(*op)) continue;
      fail(ErrorKind::kGraph,
           "`{}` at {} runs graph `{}`, whose inputs or outputs were changed afterwards, so that operands "
           "and results no "
           "longer match; complete a graph before calling it",
           op->name(), op->loc().str(), op->calledGraph()->displayName());
    }
  }
}

}  // namespace popxl::analysis
