#include <algorithm>
#include <optional>

#include "analysis/dependences.h"
#include "base/error.h"
#include "ir/loop.h"
#include "passes/differentiator.h"
#include "passes/surgery.h"

// The gradient of a repeat is a repeat that runs the other way. Its body, the step, takes the gradients of
// the carried values after an iteration to those before it and adds up those of inputs that stay. Forward
// values that it needs it computes again from the iteration's inputs, of which the carried ones are stacked
// by the forward repeat (docs/design/051-control-flow.md).
namespace popxl::passes {

using ir::Graph;
using ir::indexIn;
using ir::Op;
using ir::Tensor;

namespace {

class RepeatGradient {
 public:
  RepeatGradient(Differentiator& d, Op& repeat)
      : d_(d), repeat_(repeat), loop_(repeat), body_(*repeat.calledGraph()), context_(repeat, d) {}

  void run() {
    findActive();
    if (required_.empty()) return;
    GradInfo info = d_.gradOfBody(body_, provided_, required_);
    step_ = &d_.newGradGraph(body_);
    connect(info);
    TensorMapping tensors = addInputs(info);
    copyOps(*info.graph, *step_, tensors);
    addOutputs(info, tensors);
    body_.ir().eraseGraph(info.graph);
    giveGradients(makeRepeat());
  }

 private:
  /// An input of the step with what the backward repeat passes for it.
  struct Input {
    std::optional<size_t> place;  ///< the input of the differentiated body that it stands for
    const Tensor* like;           ///< in the body
    std::string name;
    Tensor* operand;
  };

  /// Carried values on a way from what gradients are wanted for to what has one, and what goes into the step.
  void findActive() {
    const std::vector<Op*> order = analysis::topologicalOrder(body_);
    const TensorSet varying = findVarying(order);
    std::vector<Tensor*> sinks;
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      if (context_.outGrad(i) != nullptr) sinks.push_back(body_.outputs()[i]);
    }
    TensorSet leading = reaching(order, sinks);
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < loop_.carried; ++i) {
        Tensor* out = body_.outputs()[i];
        if (!isFloat(out->dtype()) || !leading.contains(body_.inputs()[i])) continue;
        if (std::find(sinks.begin(), sinks.end(), out) != sinks.end()) continue;
        sinks.push_back(out);
        more = true;
      }
      if (more) leading = reaching(order, sinks);
    }
    for (size_t i = 0; i < body_.inputs().size(); ++i) {
      Tensor* in = body_.inputs()[i];
      if (!isFloat(in->dtype()) || !varying.contains(in)) continue;
      // A carried output has its gradient to pass on even if the next iteration reads it not at all.
      const bool carried = i < loop_.carried;
      const bool matters = carried ? std::find(sinks.begin(), sinks.end(), body_.outputs()[i]) != sinks.end()
                                   : leading.contains(in);
      if (!matters) continue;
      required_.push_back(in);
      if (carried) active_.push_back(i);
    }
    for (const size_t i : active_) provided_.push_back(body_.outputs()[i]);
    for (size_t i = loop_.carried; i < body_.outputs().size(); ++i) {
      if (context_.outGrad(i) == nullptr) continue;
      provided_.push_back(body_.outputs()[i]);
      gradStacks_.push_back(i);
    }
  }

  /// What depends on an input for which the gradient is wanted, in this iteration or one before.
  TensorSet findVarying(const std::vector<Op*>& order) const {
    std::vector<Tensor*> sources;
    for (size_t i = 0; i < body_.inputs().size(); ++i) {
      if (context_.wants(loop_.first + i)) sources.push_back(body_.inputs()[i]);
    }
    for (;;) {
      TensorSet varying = reachableFrom(order, sources);
      const size_t before = sources.size();
      for (size_t i = 0; i < loop_.carried; ++i) {
        Tensor* in = body_.inputs()[i];
        if (!varying.contains(body_.outputs()[i]) || varying.contains(in)) continue;
        sources.push_back(in);
      }
      if (sources.size() == before) return varying;
    }
  }

  Tensor* zeros(const Tensor& like) { return makeZeros(d_.gradGraph(), like, repeat_); }

  /// What the forward repeat has to keep of all iterations: a result that stacks a tensor of the body.
  Tensor* stack(Tensor* t) {
    for (size_t i = loop_.carried; i < body_.outputs().size(); ++i) {
      if (body_.outputs()[i] == t) return context_.output(i);
    }
    gainOutput(body_, t, d_.changes());
    return context_.output(body_.outputs().size() - 1);
  }

  /// Sorts the inputs of the differentiated body into carried, scanned and constant ones of the step.
  void connect(const GradInfo& info) {
    for (size_t k = 0; k < active_.size(); ++k) {
      Tensor* grad = context_.outGrad(active_[k]);
      carried_.push_back({k, provided_[k], gradName(*body_.inputs()[active_[k]]),
                          grad != nullptr ? grad : zeros(*provided_[k])});
    }
    for (const Connection& c : info.outputs) {
      if (const size_t i = indexIn(body_.inputs(), c.fwd); i < loop_.carried || loop_.isScanned(i)) continue;
      carried_.push_back({{}, c.fwd, "sum_" + gradName(*c.fwd), zeros(*c.fwd)});
    }
    for (size_t k = 0; k < gradStacks_.size(); ++k) {
      const Tensor* out = body_.outputs()[gradStacks_[k]];
      scanned_.push_back({active_.size() + k, out, gradName(*out), context_.outGrad(gradStacks_[k])});
    }
    for (size_t i = 0; i < info.inputs.size(); ++i) {
      if (info.inputs[i].isGrad) continue;
      Tensor* t = info.inputs[i].fwd;
      const size_t place = indexIn(body_.inputs(), t);
      if (place == body_.inputs().size() || (place < loop_.carried && t != body_.outputs()[place])) {
        scanned_.push_back({i, t, t->name(), stack(t)});
      } else {
        auto& list = loop_.isScanned(place) ? scanned_ : constant_;
        list.push_back({i, t, t->name(), context_.input(loop_.first + place)});
      }
    }
  }

  TensorMapping addInputs(const GradInfo& info) {
    TensorMapping tensors;
    for (const auto* list : {&carried_, &scanned_, &constant_}) {
      for (const Input& input : *list) {
        const ir::TensorType& type = input.like->type();
        Tensor* in = step_->addInput(input.name, {type.dtype, type.shape, {}});
        in->setLoc(input.like->loc());
        if (input.place) tensors[info.graph->inputs()[*input.place]] = in;
        operands_.push_back(input.operand);
      }
    }
    return tensors;
  }

  /// Carried gradients, sums of those of inputs that stay, then stacked ones of scanned inputs.
  void addOutputs(const GradInfo& info, TensorMapping& tensors) {
    std::vector<Tensor*> sums, stacks;
    std::vector<size_t> summed, scanned;
    for (size_t k = 0; k < info.outputs.size(); ++k) {
      Tensor* grad = mapped(info.graph->outputs()[k], *step_, tensors);
      const size_t i = indexIn(body_.inputs(), info.outputs[k].fwd);
      if (i < loop_.carried) {
        step_->addOutput(grad);
        gradOf_.push_back(i);
      } else if (loop_.isScanned(i)) {
        stacks.push_back(grad);
        scanned.push_back(i);
      } else {
        Tensor* sum = step_->inputs()[active_.size() + sums.size()];
        ir::OpRequest request{{sum, grad}, {}, false, {sum->name()}, repeat_.settings(), repeat_.loc()};
        sums.push_back(step_->addOp(*body_.ir().table().find("add"), std::move(request))->output());
        summed.push_back(i);
      }
    }
    for (Tensor* t : sums) step_->addOutput(t);
    for (Tensor* t : stacks) step_->addOutput(t);
    gradOf_.insert(gradOf_.end(), summed.begin(), summed.end());
    gradOf_.insert(gradOf_.end(), scanned.begin(), scanned.end());
    stacked_ = static_cast<int64_t>(scanned.size());
  }

  /// How often the forward repeat ran; null where that is fixed.
  Tensor* tripCount() {
    if (!loop_.whileTrue) return loop_.trips == nullptr ? nullptr : context_.input(0);
    Tensor* ran = nullptr;  // 1 for each iteration that ran
    for (Tensor* t : body_.outputs()) {
      if (t->kind() == ir::TensorKind::kConstant && t->name().starts_with(kRan)) ran = t;
    }
    if (ran == nullptr) ran = addOne();
    return context_.make("sum", {stack(ran)}, {});
  }

  Tensor* addOne() {
    auto data = ir::HostData::allocate(sizeOf(DType::kInt32));
    *reinterpret_cast<int32_t*>(data->bytes) = 1;
    Tensor* one = body_.addConstant(kRan, {DType::kInt32, {}, {}}, std::move(data));
    d_.changes().add([one] { one->graph().eraseTensor(one); });
    return one;
  }

  std::vector<Tensor*> makeRepeat() {
    Tensor* trips = tripCount();
    std::vector<ir::Attr> attrs = {ir::Attr(step_), ir::Attr(loop_.count), ir::Attr(stacked_),
                                   ir::Attr(static_cast<int64_t>(scanned_.size())), ir::Attr(!loop_.reverse)};
    if (trips == nullptr) return context_.makeAll("repeat", operands_, std::move(attrs));
    operands_.insert(operands_.begin(), trips);
    return context_.makeAll("repeat_up_to", operands_, std::move(attrs));
  }

  void giveGradients(const std::vector<Tensor*>& results) {
    for (size_t k = 0; k < results.size(); ++k) context_.set(loop_.first + gradOf_[k], results[k]);
  }

  static constexpr const char* kRan = "iteration_ran";

  Differentiator& d_;
  Op& repeat_;
  const ir::Loop loop_;  // as it was: what it gains are stacked outputs
  Graph& body_;
  RuleContext context_;
  Graph* step_ = nullptr;
  std::vector<size_t> active_;      // carried inputs that have gradients
  std::vector<size_t> gradStacks_;  // stacked outputs that have
  std::vector<Tensor*> provided_, required_;
  std::vector<Input> carried_, scanned_, constant_;
  std::vector<Tensor*> operands_;
  std::vector<size_t>
      gradOf_;  // the body's input of which each result of the backward repeat is the gradient
  int64_t stacked_ = 0;
};

}  // namespace

void differentiateRepeat(Differentiator& d, Op& repeat) {
  // A branch can't gain outputs: the loop gets a body of its own.
  if (Graph* body = repeat.calledGraph(); isBranch(*body)) {
    Graph& own = cloneGraph(*body);
    repeat.setAttr("graph", &own);
    d.changes().add([&repeat, body, &own] {
      repeat.setAttr("graph", body);
      own.ir().eraseGraph(&own);
    });
  }
  RepeatGradient(d, repeat).run();
}

}  // namespace popxl::passes
