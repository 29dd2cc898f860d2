#include "api/custom_gradient.h"

#include <algorithm>
#include <unordered_map>

#include "api/custom_def.h"
#include "api/custom_kernel.h"
#include "base/error.h"
#include "ir/text_values.h"
#include "passes/autodiff.h"

namespace popxl::api {
namespace {

using ir::GradContext;
using ir::Tensor;

/// The operands that have gradients, by index.
std::vector<size_t> differentiable(const ir::Op& op) {
  std::vector<size_t> operands;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (isFloat(op.input(i)->dtype())) operands.push_back(i);
  }
  return operands;
}

/// What the user's gradient reads, in the gradient graph.
std::vector<Tensor*> operandsOf(GradContext& c) {
  const CustomOp& op = customOf(c.op.def()).op;
  const std::vector<std::string> names = gradientOperands(op);
  std::vector<Tensor*> operands;
  for (const std::string& name : op.gradientReads) {
    auto i = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (i < op.results.size()) {
      operands.push_back(c.outGradOrZero(i));
    } else if (i -= op.results.size(); i < op.operands.size()) {
      operands.push_back(c.input(i));
    } else {
      operands.push_back(c.output(i - op.operands.size()));
    }
  }
  return operands;
}

/// Copies ops of other graphs into the gradient graph.
class Copies {
 public:
  explicit Copies(GradContext& c) : c_(c) {}
  void set(const Tensor* from, Tensor* to) { copies_[from] = to; }
  Tensor* of(const Tensor* t) {
    Tensor*& copy = copies_[t];
    if (copy == nullptr) {
      POPXL_ASSERT(t->kind() == ir::TensorKind::kConstant, "{} has no copy", t->id());
      copy = c_.outGradOrZero(0)->graph().addConstant(t->name(), t->type(), t->data());
    }
    return copy;
  }
  void add(const ir::Graph& graph) {
    for (const ir::Op* op : graph.ops()) {
      std::vector<Tensor*> operands;
      for (const Tensor* t : op->inputs()) operands.push_back(t == nullptr ? nullptr : of(t));
      const std::vector<Tensor*> results = c_.makeAll(op->def().name, std::move(operands), op->attrs());
      for (size_t i = 0; i < results.size(); ++i) set(op->output(i), results[i]);
    }
  }

 private:
  GradContext& c_;
  std::unordered_map<const Tensor*, Tensor*> copies_;
};

void checkGradient(const ir::Op& op, size_t operand, const Tensor& grad) {
  const ir::TensorType& wanted = op.input(operand)->type();
  if (grad.shape() == wanted.shape && grad.dtype() == wanted.dtype) return;
  fail(ErrorKind::kGraph, "the gradient of operand `{}` is {}; it has to be like the operand, {}",
       op.def().operands[operand].name, grad.type().str(), wanted.str());
}

}  // namespace

void composeGradient(GradContext& c) {
  ir::withPlace(c.op, [&] {
    const Custom& custom = customOf(c.op.def());
    const std::vector<Tensor*> operands = operandsOf(c);
    OpUse use = useOf(c.op);
    use.operands.clear();
    use.results.clear();
    for (const Tensor* t : operands) use.operands.push_back({t->shape(), t->dtype()});
    for (const size_t i : differentiable(c.op))
      use.results.push_back({c.op.input(i)->shape(), c.op.input(i)->dtype()});
    const Trace trace = guarded(ErrorKind::kGraph, [&] {
      return custom.gradients.of(c.op.def(), custom.op.gradientReads, custom.op.composeGradient, use);
    });
    const std::vector<size_t> wanted = differentiable(c.op);
    if (trace.results.size() != wanted.size()) {
      fail(ErrorKind::kGraph,
           "the gradient has to give one tensor for each of {} floating-point operands; it gave {}",
           wanted.size(), trace.results.size());
    }
    Copies copies(c);
    for (size_t i = 0; i < operands.size(); ++i) copies.set(trace.graph->inputs()[i], operands[i]);
    copies.add(*trace.graph);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (trace.results[i] == nullptr || !c.wants(wanted[i])) continue;
      checkGradient(c.op, wanted[i], *trace.results[i]);
      c.set(wanted[i], copies.of(trace.results[i]));
    }
  });
}

void makeGradientOp(GradContext& c) {
  std::vector<ir::Attr> attrs = c.op.attrs();
  const std::vector<size_t> wanted = differentiable(c.op);
  std::string like;
  for (const size_t i : wanted)
    like += (like.empty() ? "" : ", ") + ir::typeText({c.op.input(i)->dtype(), c.op.input(i)->shape(), {}});
  attrs.emplace_back('[' + like + ']');
  const auto grads = c.makeAll(std::string(c.op.def().name) + "_grad", operandsOf(c), std::move(attrs));
  for (size_t i = 0; i < wanted.size(); ++i) c.set(wanted[i], grads[i]);
}

void differentiateBody(GradContext& c) {
  const std::shared_ptr<const ir::Graph> body = bodyOf(c.op);
  const std::shared_ptr<ir::Ir> copy = body->ir().clone();
  ir::Graph& forward = *copy->findGraph(body->id());
  passes::AutodiffOptions options;
  std::vector<size_t> provided, required;
  options.gradsProvided.emplace();
  options.gradsRequired.emplace();
  for (size_t i = 0; i < forward.outputs().size(); ++i) {
    if (!isFloat(forward.outputs()[i]->dtype())) continue;
    provided.push_back(i);
    options.gradsProvided->push_back(forward.outputs()[i]);
  }
  for (const size_t i : differentiable(c.op)) {
    if (!c.wants(i)) continue;
    required.push_back(i);
    options.gradsRequired->push_back(forward.inputs()[i]);
  }
  const passes::GradInfo info =
      ir::withPlace(c.op, [&] { return passes::autodiff(forward, options).at(&forward); });
  Copies copies(c);
  for (size_t i = 0; i < forward.inputs().size(); ++i) copies.set(forward.inputs()[i], c.input(i));
  copies.add(forward);
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    const Tensor* in = info.graph->inputs()[i];
    copies.set(in, i < provided.size() ? c.outGradOrZero(provided[i]) : copies.of(info.inputs[i].fwd));
  }
  copies.add(*info.graph);
  for (size_t i = 0; i < required.size(); ++i) c.set(required[i], copies.of(info.graph->outputs()[i]));
}

}  // namespace popxl::api
