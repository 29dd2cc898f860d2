#include "analysis/live.h"

#include <algorithm>

namespace popxl::analysis {
namespace {

using ir::Structure;

bool hasOwnEffect(const ir::Op& op) {
  if (op.def().sideEffect || op.def().structure == Structure::kHostLoad) return true;  // a load moves its stream on
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (op.input(i) != nullptr && op.modifies(i)) return true;
  }
  return false;
}

/// Position of each operand of a conditional in its branches: (branch, input), nullopt for the condition.
std::pair<size_t, size_t> branchInput(const ir::Op& op, size_t operand) {
  const size_t thenInputs = op.calledGraphs()[0]->inputs().size();
  return operand - 1 < thenInputs ? std::pair<size_t, size_t>{0, operand - 1}
                                  : std::pair<size_t, size_t>{1, operand - 1 - thenInputs};
}

}  // namespace

Liveness::Liveness(const ir::Ir& ir, Reads reads) : reads_(std::move(reads)) {
  std::unordered_set<const ir::Graph*> seen;
  findEffects(ir.mainGraph(), seen);
  for (const ir::Graph* graph : seen) {
    for (const ir::Op* op : graph->ops()) {
      for (const ir::Graph* callee : op->calledGraphs()) sites_[callee].push_back(op);
    }
  }
  for (const ir::Op* op : ir.mainGraph().ops()) {
    const auto called = op->calledGraphs();
    const bool calls = std::any_of(called.begin(), called.end(), [&](auto* g) { return effectful_.contains(g); });
    if (calls || hasOwnEffect(*op)) markOp(*op);
  }
  for (const ir::Tensor* t : ir.mainGraph().outputs()) markTensor(*t);
  while (!opWork_.empty() || !tensorWork_.empty()) {
    if (!opWork_.empty()) {
      const ir::Op* op = opWork_.back();
      opWork_.pop_back();
      follow(*op);
    } else {
      const ir::Tensor* t = tensorWork_.back();
      tensorWork_.pop_back();
      if (t->producer() != nullptr) markOp(*t->producer());
      // Written in place elsewhere: those ops are marked by their own effect.
      const ir::Graph& graph = t->graph();
      const auto at = std::find(graph.inputs().begin(), graph.inputs().end(), t);
      if (t->kind() != ir::TensorKind::kInput || at == graph.inputs().end()) {
        if (t->producer() != nullptr) linkCallee(*t->producer());
        continue;
      }
      for (const ir::Op* site : sites_[&graph]) {
        if (ops_.contains(site)) opWork_.push_back(site);
      }
    }
  }
}

/// Graphs whose call has an effect, callees first.
void Liveness::findEffects(const ir::Graph& graph, std::unordered_set<const ir::Graph*>& seen) {
  if (!seen.insert(&graph).second) return;
  for (const ir::Op* op : graph.ops()) {
    for (const ir::Graph* callee : op->calledGraphs()) {
      findEffects(*callee, seen);
      if (effectful_.contains(callee)) effectful_.insert(&graph);
    }
    if (hasOwnEffect(*op)) effectful_.insert(&graph);
  }
}

void Liveness::markOp(const ir::Op& op) {
  if (ops_.insert(&op).second) opWork_.push_back(&op);
}

void Liveness::markTensor(const ir::Tensor& t) {
  if (tensors_.insert(&t).second) tensorWork_.push_back(&t);
}

/// Live results of a live call are live outputs of the graph that it calls.
void Liveness::linkCallee(const ir::Op& op) {
  for (const ir::Graph* callee : op.calledGraphs()) {
    for (size_t i = 0; i < op.outputs().size() && i < callee->outputs().size(); ++i) {
      const bool carried = op.def().structure == Structure::kRepeat;
      if (carried || tensors_.contains(op.output(i))) markTensor(*callee->outputs()[i]);
    }
  }
}

void Liveness::follow(const ir::Op& op) {
  for (const ir::Graph* callee : op.calledGraphs()) {
    for (const ir::Op* inner : callee->ops()) {
      const auto called = inner->calledGraphs();
      const bool calls = std::any_of(called.begin(), called.end(), [&](auto* g) { return effectful_.contains(g); });
      if (calls || hasOwnEffect(*inner)) markOp(*inner);
    }
  }
  linkCallee(op);
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (op.input(i) != nullptr && reads(op, i)) markTensor(*op.input(i));
  }
}

bool Liveness::reads(const ir::Op& op, size_t i) const {
  switch (op.def().structure) {
    case Structure::kCall:
      return op.modifies(i) || tensors_.contains(op.calledGraphs()[0]->inputs()[i]);
    case Structure::kRepeat: {
      const ir::Graph& body = *op.calledGraphs()[0];
      return i < body.outputs().size() || op.modifies(i) || tensors_.contains(body.inputs()[i]);
    }
    case Structure::kConditional: {
      if (i == 0) return true;
      const auto [branch, input] = branchInput(op, i);
      return op.modifies(i) || tensors_.contains(op.calledGraphs()[branch]->inputs()[input]);
    }
    default: return reads_(op, i);
  }
}

}  // namespace popxl::analysis
