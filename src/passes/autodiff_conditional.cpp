#include <algorithm>

#include "base/error.h"
#include "ir/loop.h"
#include "passes/differentiator.h"
#include "passes/surgery.h"

// The gradient of a conditional is a conditional on the same condition. Each of its branches computes forward
// values that it needs again from the branch's inputs, and gives zeros for what only the other branch reads.
namespace popxl::passes {

using ir::Graph;
using ir::Op;
using ir::Tensor;

namespace {

class ConditionalGradient {
 public:
  ConditionalGradient(Differentiator& d, Op& conditional)
      : d_(d), op_(conditional), branches_(conditional.calledGraphs()), context_(conditional, d) {}

  void run() {
    findParents();
    if (parents_.empty()) return;
    std::vector<Tensor*> operands = {context_.input(0)};
    std::vector<ir::Attr> attrs;
    for (size_t branch = 0; branch < branches_.size(); ++branch) {
      attrs.emplace_back(&gradOfBranch(branch, operands));
    }
    const std::vector<Tensor*> grads = context_.makeAll("conditional", std::move(operands), std::move(attrs));
    for (size_t i = 0; i < parents_.size(); ++i) d_.addPartial(parents_[i], grads[i]);
  }

 private:
  Tensor* operandOf(size_t branch, size_t input) const {
    return op_.input(ir::firstInput(op_, branch) + input);
  }

  /// The operands of which a gradient is wanted, each once; outputs that have one.
  void findParents() {
    for (size_t branch = 0; branch < branches_.size(); ++branch) {
      for (size_t i = 0; i < branches_[branch]->inputs().size(); ++i) {
        Tensor* t = operandOf(branch, i);
        const bool known = std::find(parents_.begin(), parents_.end(), t) != parents_.end();
        if (d_.needed(t) && !known) parents_.push_back(t);
      }
    }
    for (size_t i = 0; i < op_.outputs().size(); ++i) {
      if (context_.outGrad(i) != nullptr) seeds_.push_back(i);
    }
  }

  Graph& gradOfBranch(size_t branch, std::vector<Tensor*>& operands) {
    Graph& forward = *branches_[branch];
    std::vector<Tensor*> provided, required;
    for (const size_t i : seeds_) provided.push_back(forward.outputs()[i]);
    std::vector<Tensor*> wanted;  // the operand of each required input
    for (size_t i = 0; i < forward.inputs().size(); ++i) {
      if (!d_.needed(operandOf(branch, i))) continue;
      required.push_back(forward.inputs()[i]);
      wanted.push_back(operandOf(branch, i));
    }
    const GradInfo info = d_.gradOfBody(forward, std::move(provided), std::move(required));
    size_t seed = 0;
    for (const Connection& c : info.inputs) {
      operands.push_back(c.isGrad ? context_.outGrad(seeds_[seed++]) : forwardValue(branch, c.fwd));
    }
    giveOneForEachParent(*info.graph, wanted);
    return *info.graph;
  }

  Tensor* forwardValue(size_t branch, Tensor* t) {
    const auto& inputs = branches_[branch]->inputs();
    const auto at = std::find(inputs.begin(), inputs.end(), t);
    if (at == inputs.end()) return context_.output(gainResult(branch, t));
    return context_.input(ir::firstInput(op_, branch) + static_cast<size_t>(at - inputs.begin()));
  }

  /// Makes a tensor of a branch, which can't be computed again, a result; the other branch gives zeros.
  size_t gainResult(size_t branch, Tensor* t) {
    Graph &own = *branches_[branch], &other = *branches_[1 - branch];
    const auto at = std::find(own.outputs().begin(), own.outputs().end(), t);
    if (at != own.outputs().end()) return static_cast<size_t>(at - own.outputs().begin());
    if (sitesOf(own).size() != 1 || sitesOf(other).size() != 1 || &own == &other) {
      fail(ErrorKind::kGraph,
           "the gradient of `{}` at {} needs `{}`, which would have to become an output of `{}`, but that "
           "graph or the other branch is run elsewhere too; return the tensor",
           op_.name(), op_.loc().str(), t->id(), own.displayName());
    }
    own.addOutput(t);
    other.addOutput(makeZeros(other, *t, op_));
    op_.addOutput("autodiff_output", {t->dtype(), t->shape(), {}});
    d_.changes().add([&own, &other, op = &op_] {
      own.removeOutput(own.outputs().size() - 1);
      Op* zeros = other.outputs().back()->producer();
      other.removeOutput(other.outputs().size() - 1);
      other.eraseOp(zeros);
      op->removeLastOutput();
    });
    return own.outputs().size() - 1;
  }

  /// Replaces the outputs of a branch's gradient, one for each of `wanted`, by one for each parent.
  void giveOneForEachParent(Graph& graph, const std::vector<Tensor*>& wanted) {
    const std::vector<Tensor*> grads = graph.outputs();
    while (!graph.outputs().empty()) graph.removeOutput(graph.outputs().size() - 1);
    for (const Tensor* parent : parents_) {
      std::vector<Tensor*> own;
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] == parent) own.push_back(grads[i]);
      }
      graph.addOutput(total(graph, *parent, std::move(own)));
    }
  }

  Tensor* total(Graph& graph, const Tensor& parent, std::vector<Tensor*> grads) {
    if (grads.size() == 1) return grads.front();
    if (grads.empty()) return makeZeros(graph, parent, op_);
    ir::OpRequest request{std::move(grads), {}, false, {gradName(parent)}, op_.settings(), op_.loc()};
    return graph.addOp(*graph.ir().table().find("add_n"), std::move(request))->output();
  }

  Differentiator& d_;
  Op& op_;
  const std::vector<Graph*> branches_;
  RuleContext context_;
  std::vector<Tensor*> parents_;
  std::vector<size_t> seeds_;
};

}  // namespace

void differentiateConditional(Differentiator& d, Op& conditional) {
  ConditionalGradient(d, conditional).run();
}

}  // namespace popxl::passes
