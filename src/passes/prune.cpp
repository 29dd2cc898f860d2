#include "passes/prune.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::Tensor;

/// Whether ops may go, with what is known of the graphs that they call.
class Effects {
 public:
  bool has(const Op& op) {
    if (op.def().sideEffect) return true;
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (op.input(i) != nullptr && op.modifies(i)) return true;
    }
    const auto callees = op.calledGraphs();
    return std::any_of(callees.begin(), callees.end(), [&](const Graph* g) { return has(*g); });
  }

 private:
  /// Writes inside a graph to its own tensors are no effect of it; those to by-reference inputs are the
  /// call's.
  bool has(const Graph& graph) {
    const auto [it, fresh] = graphs_.emplace(&graph, false);
    if (!fresh) return it->second;
    const bool effect = std::any_of(graph.ops().begin(), graph.ops().end(), [&](const Op* op) {
      const auto callees = op->calledGraphs();
      return op->def().sideEffect ||
             std::any_of(callees.begin(), callees.end(), [&](const Graph* g) { return has(*g); });
    });
    return graphs_[&graph] = effect;
  }

  std::unordered_map<const Graph*, bool> graphs_;
};

bool pruneGraph(Graph& graph, Effects& effects) {
  std::unordered_map<const Tensor*, size_t> uses;
  for (const Tensor* t : graph.tensors()) uses[t] = t->uses().size();
  for (const Tensor* t : graph.outputs()) ++uses[t];

  const auto isDead = [&](const Op& op) {
    return std::all_of(op.outputs().begin(), op.outputs().end(),
                       [&](const Tensor* t) { return uses[t] == 0; }) &&
           !effects.has(op);
  };
  std::vector<Op*> dead;
  for (Op* op : graph.ops()) {
    if (isDead(*op)) dead.push_back(op);
  }
  for (size_t i = 0; i < dead.size(); ++i) {
    for (const Tensor* t : dead[i]->inputs()) {
      if (t == nullptr || --uses[t] != 0 || t->producer() == nullptr) continue;
      if (isDead(*t->producer())) dead.push_back(t->producer());
    }
  }
  if (!dead.empty()) graph.eraseOps(dead);
  return !dead.empty();
}

}  // namespace

bool prune(Graph& graph) {
  Effects effects;
  return pruneGraph(graph, effects);
}

bool prune(ir::Ir& ir) {
  Effects effects;
  return changeGraphs(ir, [&](Graph& graph) { return pruneGraph(graph, effects); });
}

}  // namespace popxl::passes
