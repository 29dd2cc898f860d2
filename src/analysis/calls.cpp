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

bool dependsOnReplicas(const ir::Ir& ir) {
  const std::vector<ir::Tensor*> tensors = ir.mainGraph().tensors();
  const std::vector<ir::Graph*> graphs = ir.graphs();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ir::Tensor* t) { return t->settings().numGroups > 1; }) ||
         std::any_of(graphs.begin(), graphs.end(), [](const ir::Graph* g) { return holdsCollective(*g); });
}

namespace {

/// Error(kGraph) where an op or variable was made for another number of replicas.
void checkReplicas(const ir::Ir& ir) {
  constexpr const char* kAdvice =
      "`{}` at {} was made for another number of replicas than the {} of the program; set the replication "
      "factor before what depends on it";
  const int64_t replicas = ir.replicationFactor();
  for (const ir::Tensor* t : ir.mainGraph().tensors()) {
    const auto known = static_cast<int64_t>(t->settings().groupOf.size());
    if (known != 0 && known != replicas) fail(ErrorKind::kGraph, kAdvice, t->id(), t->loc().str(), replicas);
  }
  for (const ir::Graph* graph : ir.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (op->def().structure == ir::Structure::kCollective && !matches(*op))
        fail(ErrorKind::kGraph, kAdvice, op->name(), op->loc().str(), replicas);
    }
  }
}

}  // namespace

void checkCalls(const ir::Ir& ir) {
  checkReplicas(ir);
  for (const ir::Graph* graph : ir.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (op->calledGraph() == nullptr || matches(*op)) continue;
      fail(ErrorKind::kGraph,
           "`{}` at {} runs graph `{}`, whose inputs or outputs were changed afterwards, so that operands "
           "and results no longer match; complete a graph before calling it",
           op->name(), op->loc().str(), op->calledGraph()->displayName());
    }
  }
}

}  // namespace popxl::analysis
