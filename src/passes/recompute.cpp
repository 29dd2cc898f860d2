#include "passes/recompute.h"

#include <algorithm>

#include "passes/differentiator.h"
#include "passes/surgery.h"

namespace popxl::passes {

using ir::Graph;
using ir::Op;
using ir::Tensor;

namespace {

class Recomputation {
 public:
  explicit Recomputation(const GradInfo& info) : info_(info) {
    graph_ = &info.graph->ir().createGraph(info.graph->baseName() + "_recompute");
  }

  GradInfo run() {
    const std::vector<Tensor*>& inputs = info_.graph->inputs();
    TensorMapping tensors;  // of the gradient graph
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Connection& c = info_.inputs[i];
      tensors[inputs[i]] = c.isGrad ? addInput(*inputs[i], c) : forwardTensor(c.fwd);
    }
    copyOps(*info_.graph, *graph_, tensors);
    for (Tensor* t : info_.graph->outputs()) graph_->addOutput(mapped(t, *graph_, tensors));
    return {info_.forward, graph_, std::move(connections_), info_.outputs};
  }

 private:
  Tensor* addInput(const Tensor& like, const Connection& connection) {
    Tensor* in = graph_->addInput(like.name(), like.type());
    in->setLoc(like.loc());
    connections_.push_back(connection);
    return in;
  }

  Tensor* forwardTensor(Tensor* t) {
    const auto stops = [&](const Op& op) { return copied_.contains(&op) || state_.hasEffect(op); };
    for (const Op* op : computing(*t, stops)) {
      for (Tensor* operand : op->inputs()) {
        if (operand != nullptr && operand->kind() != ir::TensorKind::kConstant) given(operand);
      }
      copyOp(*op, *graph_, forward_);
      copied_.insert(op);
    }
    return given(t);
  }

  /// A forward tensor that is known by now, or else becomes an input.
  Tensor* given(Tensor* t) {
    const auto known = forward_.find(t);
    if (known != forward_.end()) return known->second;
    return forward_[t] = addInput(*t, {false, t});
  }

  const GradInfo& info_;
  Graph* graph_;
  DiffState state_;
  TensorMapping forward_;  // forward tensors in the new graph
  std::unordered_set<const Op*> copied_;
  std::vector<Connection> connections_;
};

}  // namespace

GradInfo recompute(const GradInfo& info) { return Recomputation(info).run(); }

}  // namespace popxl::passes
