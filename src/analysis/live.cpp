#include "analysis/live.h"

#include <algorithm>

#include "base/error.h"
#include "ir/loop.h"

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
  for (const ir::Graph* graph : ir.graphs()) {
    const auto index = static_cast<size_t>(graph->index());
    while (graphs_.size() < index) graphs_.emplace_back(ir.mainGraph());  // in place of removed graphs
    graphs_.emplace_back(*graph);
  }
  findEffects(ir.mainGraph());
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
  for (const ir::Graph* graph : ir.graphs()) findReturned(*graph);
}

/// Graphs whose call has an effect, callees first; and which operands stand for which graph inputs.
void Liveness::findEffects(const ir::Graph& graph) {
  GraphInfo& info = of(graph);
  if (info.visited) return;
  info.visited = true;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    info.inputOf[graph.inputs()[i]] = static_cast<int32_t>(i);
  for (ir::Op* op : graph.ops()) {
    info.effectful = info.effectful || hasOwnEffect(*op);
    if (op->def().structure == Structure::kNone) continue;
    size_t operand = ir::firstInput(*op);
    for (const ir::Graph* callee : op->calledGraphs()) {
      findEffects(*callee);
      info.effectful = info.effectful || of(*callee).effectful;
      of(*callee).sites.push_back({op, static_cast<int32_t>(operand)});
      operand += callee->inputs().size();
    }
  }
}

bool Liveness::hasEffect(const ir::Op& op) const {
  const auto called = op.calledGraphs();
  return hasOwnEffect(op) ||
         std::any_of(called.begin(), called.end(), [&](auto* g) { return of(*g).effectful; });
}

void Liveness::markOp(const ir::Op& op) {
  auto live = of(op.graph()).ops[&op];
  if (live) return;
  live = true;
  opWork_.push_back(&op);
}

void Liveness::markTensor(const ir::Tensor& t) {
  auto live = of(t.graph()).tensors[&t];
  if (live) return;
  live = true;
  tensorWork_.push_back(&t);
}

void Liveness::enter(const ir::Graph& graph) {
  if (of(graph).entered) return;
  of(graph).entered = true;
  for (const ir::Op* op : graph.ops()) {
    if (hasEffect(*op)) markOp(*op);
  }
}

void Liveness::follow(const ir::Op& op) {
  if (op.def().structure != Structure::kNone) {
    for (const ir::Graph* callee : op.calledGraphs()) {
      enter(*callee);
      if (op.def().structure != Structure::kRepeat) continue;
      const ir::Loop loop(op);
      for (size_t i = 0; i < loop.carried; ++i) {
        markTensor(*callee->outputs()[i]);  // the next iteration may read any of them
      }
    }
  }
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (op.input(i) != nullptr && reads(op, i)) markTensor(*op.input(i));
  }
}

void Liveness::follow(const ir::Tensor& t) {
  if (const ir::Op* op = t.producer(); op != nullptr) {
    markOp(*op);
    if (op->def().structure != Structure::kNone) {
      for (const ir::Graph* callee : op->calledGraphs()) {
        const auto index = static_cast<size_t>(t.producerIndex());
        if (index < callee->outputs().size()) markTensor(*callee->outputs()[index]);
      }
    }
  }
  const GraphInfo& info = of(t.graph());
  const int32_t input = info.inputOf[&t];
  if (input < 0) return;
  for (const ir::Use& site : info.sites) {
    const ir::Tensor* operand = site.op->input(static_cast<size_t>(site.index) + static_cast<size_t>(input));
    if (operand != nullptr && live(*site.op)) markTensor(*operand);
  }
}

/// Which results of a graph some live op that runs it passes on.
void Liveness::findReturned(const ir::Graph& graph) {
  GraphInfo& info = of(graph);
  const auto& outputs = graph.outputs();
  if (graph.isMain()) info.returns.assign(outputs.size(), true);
  for (const ir::Use& site : info.sites) {
    if (!live(*site.op)) continue;
    const bool repeats = site.op->def().structure == Structure::kRepeat;
    const size_t carried = repeats ? ir::Loop(*site.op).carried : 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      info.returns[i] = info.returns[i] || i < carried || live(*site.op->output(i));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (info.returns[i]) info.returned[outputs[i]] = true;
  }
}

bool Liveness::reads(const ir::Op& op, size_t i) const {
  switch (op.def().structure) {
    case Structure::kCall:
      return live(*op.calledGraph()->inputs()[i]) || op.modifies(i);
    case Structure::kRepeat: {
      const ir::Loop loop(op);
      if (i < loop.first) return true;
      const size_t input = i - loop.first;
      return input < loop.carried || op.modifies(i) || live(*loop.body->inputs()[input]);
    }
    case Structure::kConditional: {
      if (i == 0) return true;
      const auto [branch, input] = branchInput(op, i);
      return op.modifies(i) || live(*op.calledGraphs()[branch]->inputs()[input]);
    }
    default:
      return reads_(op, i);
  }
}

}  // namespace popxl::analysis
