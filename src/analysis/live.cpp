#include "analysis/live.h"

#include <algorithm>

namespace popxl::analysis {
namespace {

using ir::Structure;

bool hasOwnEffect(const ir::Op& op) {
  // A load moves its stream on.
  return op.def().sideEffect || op.def().structure == Structure::kHostLoad || op.modifiesAny();
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
  enter(ir.mainGraph());
  for (const ir::Tensor* t : ir.mainGraph().outputs()) markTensor(*t);
  while (!opWork_.empty() || !tensorWork_.empty()) {
    if (!opWork_.empty()) {
      const ir::Op* op = opWork_.back();
      opWork_.pop_back();
      follow(*op);
    } else {
      const ir::Tensor* t = tensorWork_.back();
      tensorWork_.pop_back();
      follow(*t);
    }
  }
}

/// Graphs whose call has an effect, callees first; and which operands stand for which graph inputs.
void Liveness::findEffects(const ir::Graph& graph, std::unordered_set<const ir::Graph*>& seen) {
  if (!seen.insert(&graph).second) return;
  for (ir::Op* op : graph.ops()) {
    const bool branches = op->def().structure == Structure::kConditional;
    size_t operand = branches ? 1 : 0;
    for (const ir::Graph* callee : op->calledGraphs()) {
      findEffects(*callee, seen);
      if (effectful_.contains(callee)) effectful_.insert(&graph);
      for (const ir::Tensor* input : callee->inputs()) {
        operandsOf_[input].push_back({op, static_cast<int32_t>(operand++)});
      }
    }
    if (hasOwnEffect(*op)) effectful_.insert(&graph);
  }
}

bool Liveness::hasEffect(const ir::Op& op) const {
  const auto called = op.calledGraphs();
  return hasOwnEffect(op) ||
         std::any_of(called.begin(), called.end(), [&](auto* g) { return effectful_.contains(g); });
}

void Liveness::markOp(const ir::Op& op) {
  if (ops_.insert(&op).second) opWork_.push_back(&op);
}

void Liveness::markTensor(const ir::Tensor& t) {
  if (tensors_.insert(&t).second) tensorWork_.push_back(&t);
}

void Liveness::enter(const ir::Graph& graph) {
  if (!entered_.insert(&graph).second) return;
  for (const ir::Op* op : graph.ops()) {
    if (hasEffect(*op)) markOp(*op);
  }
}

void Liveness::follow(const ir::Op& op) {
  for (const ir::Graph* callee : op.calledGraphs()) {
    enter(*callee);
    if (op.def().structure != Structure::kRepeat) continue;
    for (const ir::Tensor* t : callee->outputs()) markTensor(*t);  // the next iteration may read any of them
  }
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (op.input(i) != nullptr && reads(op, i)) markTensor(*op.input(i));
  }
}

void Liveness::follow(const ir::Tensor& t) {
  if (const ir::Op* op = t.producer(); op != nullptr) {
    markOp(*op);
    for (const ir::Graph* callee : op->calledGraphs()) {
      const auto index = static_cast<size_t>(t.producerIndex());
      if (index < callee->outputs().size()) markTensor(*callee->outputs()[index]);
    }
  }
  const auto operands = operandsOf_.find(&t);
  if (operands == operandsOf_.end()) return;
  for (const ir::Use& use : operands->second) {
    const ir::Tensor* operand = use.op->input(static_cast<size_t>(use.index));
    if (ops_.contains(use.op) && operand != nullptr) markTensor(*operand);
  }
}

bool Liveness::reads(const ir::Op& op, size_t i) const {
  switch (op.def().structure) {
    case Structure::kCall:
      return op.modifies(i) || tensors_.contains(op.calledGraph()->inputs()[i]);
    case Structure::kRepeat: {
      const ir::Graph& body = *op.calledGraph();
      return i < body.outputs().size() || op.modifies(i) || tensors_.contains(body.inputs()[i]);
    }
    case Structure::kConditional: {
      if (i == 0) return true;
      const auto [branch, input] = branchInput(op, i);
      return op.modifies(i) || tensors_.contains(op.calledGraphs()[branch]->inputs()[input]);
    }
    default:
      return reads_(op, i);
  }
}

}  // namespace popxl::analysis
