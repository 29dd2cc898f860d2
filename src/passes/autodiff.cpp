#include "passes/autodiff.h"

#include <algorithm>

#include "analysis/dependences.h"
#include "base/error.h"
#include "ir/loop.h"
#include "kernels/rows.h"
#include "passes/differentiator.h"
#include "passes/surgery.h"

namespace popxl::passes {

using ir::Graph;
using ir::Op;
using ir::Tensor;

namespace {

bool runsGraphs(const Op& op) {
  const ir::Structure s = op.def().structure;
  return s == ir::Structure::kCall || s == ir::Structure::kRepeat || s == ir::Structure::kConditional;
}

bool hasGradient(const Op& op) { return op.def().grad != nullptr || runsGraphs(op); }

bool readsAny(const Op& op, const TensorSet& tensors) {
  return std::any_of(op.inputs().begin(), op.inputs().end(),
                     [&](const Tensor* t) { return t != nullptr && tensors.contains(t); });
}

bool makesAny(const Op& op, const TensorSet& tensors) {
  return std::any_of(op.outputs().begin(), op.outputs().end(),
                     [&](const Tensor* t) { return tensors.contains(t); });
}

}  // namespace

std::string gradName(const Tensor& t) { return "Gradient___" + t.name(); }

TensorSet reachableFrom(const std::vector<Op*>& order, const std::vector<Tensor*>& sources) {
  TensorSet reached(sources.begin(), sources.end());
  for (const Op* op : order) {
    if (!hasGradient(*op) || !readsAny(*op, reached)) continue;
    for (const Tensor* t : op->outputs()) {
      if (isFloat(t->dtype())) reached.insert(t);
    }
  }
  return reached;
}

TensorSet reaching(const std::vector<Op*>& order, const std::vector<Tensor*>& sinks) {
  TensorSet reached(sinks.begin(), sinks.end());
  for (size_t i = order.size(); i-- > 0;) {
    if (!makesAny(*order[i], reached)) continue;
    for (const Tensor* t : order[i]->inputs()) {
      if (t != nullptr) reached.insert(t);
    }
  }
  return reached;
}

std::vector<Op*> sitesOf(const Graph& graph) {
  std::vector<Op*> sites;
  for (const Graph* g : graph.ir().graphs()) {
    for (Op* op : g->ops()) {
      const auto called = op->calledGraphs();
      if (std::find(called.begin(), called.end(), &graph) != called.end()) sites.push_back(op);
    }
  }
  return sites;
}

Tensor* makeZeros(Graph& graph, const Tensor& like, const Op& from) {
  const std::vector<ir::Attr> attrs = {ir::Attr(like.shape()), ir::Attr(like.dtype())};
  ir::OpRequest request{{}, attrs, false, {"zeros"}, from.settings(), from.loc()};
  return graph.addOp(*graph.ir().table().find("init"), std::move(request))->output();
}

namespace {

/// What a place that runs a graph gets for a new output of it; Error(kValue) where that is too large to be.
ir::TensorType gainedType(const Op& site, const Tensor& t) {
  if (site.def().structure != ir::Structure::kRepeat) return t.type();
  const auto count = site.attr<int64_t>("repeat_count");
  ir::TensorType type = {t.dtype(), ir::stackedShape(count, t.shape()), {}};
  try {
    type.checkSize();
  } catch (const Error& error) {
    fail(error.kind(), "`{}` of graph `{}` is needed of each of the {} iterations of `{}` at {}: {}", t.id(),
         t.graph().displayName(), count, site.name(), site.loc().str(), error.what());
  }
  return type;
}

}  // namespace

void gainOutput(Graph& graph, Tensor* t, Changes& changes) {
  const std::vector<Op*> sites = sitesOf(graph);
  for (const Op* site : sites) {
    if (site->def().structure != ir::Structure::kConditional) continue;
    fail(ErrorKind::kGraph,
         "graph `{}` can't gain output `{}`, which a gradient may need: `{}` at {} runs the graph as one of "
         "two branches; differentiate or add the output before making it, or return the tensor",
         graph.displayName(), t->id(), site->name(), site->loc().str());
  }
  std::vector<ir::TensorType> types;
  for (const Op* site : sites) types.push_back(gainedType(*site, *t));
  graph.addOutput(t);
  changes.add([&graph] { graph.removeOutput(graph.outputs().size() - 1); });
  for (size_t i = 0; i < sites.size(); ++i) {
    Op* site = sites[i];
    ir::TensorType& type = types[i];
    if (site->def().structure == ir::Structure::kRepeat) {
      const auto stacked = site->attr<int64_t>("stacked");
      site->setAttr("stacked", stacked + 1);
      changes.add([site, stacked] { site->setAttr("stacked", stacked); });
    }
    site->addOutput("autodiff_output", std::move(type));
    changes.add([site] { site->removeLastOutput(); });
  }
}

bool DiffState::hasEffect(const Op& op) {
  const ir::Structure s = op.def().structure;
  if (op.def().sideEffect || s == ir::Structure::kHostLoad || s == ir::Structure::kRemoteLoad ||
      s == ir::Structure::kCollective)
    return true;
  const auto graphs = op.calledGraphs();
  return std::any_of(graphs.begin(), graphs.end(), [&](const Graph* graph) {
    const auto known = effects.find(graph);
    if (known != effects.end()) return known->second;
    const bool effect = std::any_of(graph->ops().begin(), graph->ops().end(),
                                    [&](const Op* inner) { return hasEffect(*inner); });
    return effects[graph] = effect;
  });
}

GradInfo Differentiator::run() {
  order_ = analysis::topologicalOrder(forward_);
  provided_ = options_.gradsProvided.value_or(forward_.outputs());
  required_ = options_.gradsRequired.value_or(forward_.inputs());
  checkArguments();
  checkDifferentiable();
  fromRequired_ = reachableFrom(order_, required_);
  toProvided_ = reaching(order_, provided_);
  checkOpsHaveGradients();
  differentiateCallees();
  gradGraph_ = &newGradGraph(forward_);
  build();
  return finish();
}

GradInfo Differentiator::gradOfBody(Graph& body, std::vector<Tensor*> provided,
                                    std::vector<Tensor*> required) const {
  const AutodiffOptions options{std::move(provided), std::move(required), options_.known};
  if (options_.known.contains(&body)) {
    fail(ErrorKind::kGraph,
         "the gradient graph that is given for `{}` can't be used: a loop or a conditional runs that graph; "
         "give one for a graph that it calls instead",
         body.displayName());
  }
  Differentiator own(body, options, state_, Intermediates::kRecomputed);
  own.isBody_ = true;
  return own.run();
}

/// An empty graph named after the forward one.
Graph& Differentiator::newGradGraph(const Graph& forward) const {
  Graph& made = forward.ir().createGraph(forward.baseName() + "_grad");
  state_.changes.add([&made] { made.ir().eraseGraph(&made); });
  return made;
}

bool Differentiator::needed(const Tensor* t) const {
  return isFloat(t->dtype()) && fromRequired_.contains(t) && toProvided_.contains(t);
}

/// A copy of a constant, else an input or what is computed of inputs again.
Tensor* Differentiator::forwardTensor(Tensor* t) {
  if (const auto it = forwardTensors_.find(t); it != forwardTensors_.end()) return it->second;
  Tensor* made = nullptr;
  if (t->kind() == ir::TensorKind::kConstant) {
    made = gradGraph_->addConstant(t->name(), t->type(), t->data());
  } else if (const Op* op = t->producer(); op != nullptr && isRecomputed(*op)) {
    made = op->def().structure == ir::Structure::kPrint ? forwardTensor(op->input(0)) : recomputed(t);
  } else {
    made = gradGraph_->addInput(t->name(), t->type());
    inputs_.push_back({false, t});
  }
  if (made->producer() == nullptr && !made->loc().known()) made->setLoc(t->loc());
  forwardTensors_.emplace(t, made);
  return made;
}

bool Differentiator::isRecomputed(const Op& op) const {
  if (intermediates_ != Intermediates::kRecomputed) return false;
  return op.def().structure == ir::Structure::kPrint || !state_.hasEffect(op);
}

/// Runs the op that makes a forward tensor once more, and those before it that have not been yet.
Tensor* Differentiator::recomputed(Tensor* t) {
  const auto stops = [&](const Op& op) { return copies_.contains(&op) || !isRecomputed(op); };
  for (Op* op : computing(*t, stops)) {
    if (op->def().structure == ir::Structure::kPrint) continue;
    ir::OpRequest request{{}, op->attrs(), op->inplace(), {}, op->settings(), op->loc()};
    for (Tensor* operand : op->inputs()) {
      request.inputs.push_back(operand == nullptr ? nullptr : forwardTensor(operand));
    }
    for (const Tensor* output : op->outputs()) request.outputNames.push_back(output->name());
    copies_.emplace(op, gradGraph_->addOp(op->def(), std::move(request)));
  }
  return copies_.at(t->producer())->output(static_cast<size_t>(t->producerIndex()));
}

Tensor* Differentiator::gradOf(const Tensor* t, const Op* from) {
  const auto it = partials_.find(t);
  if (it == partials_.end()) return nullptr;
  if (it->second.size() > 1) {
    it->second = {add(it->second, gradName(*t), from)};
  } else if (Tensor* only = it->second.front(); only->producer() != nullptr && named_.insert(only).second) {
    gradGraph_->rename(only, gradName(*t));
  }
  return it->second.front();
}

void Differentiator::addPartial(const Tensor* t, Tensor* grad) {
  POPXL_ASSERT(grad->shape() == t->shape(), "gradient {} of {} {}", grad->type().str(), t->id(),
               t->type().str());
  partials_[t].push_back(grad);
}

Tensor* Differentiator::constant(const ir::TensorType& type, double value) {
  auto data = ir::HostData::allocate(type.bytes());  // zeros
  for (int64_t i = 0; value != 0 && i < type.numElements(); ++i) {
    kernels::writeNumber(type.dtype, data->bytes, i, value);
  }
  return gradGraph_->addConstant(value == 0 ? "zeros" : "constant", {type.dtype, type.shape, {}},
                                 std::move(data));
}

void Differentiator::checkArguments() {
  for (const Tensor* t : provided_) {
    if (std::find(forward_.outputs().begin(), forward_.outputs().end(), t) == forward_.outputs().end()) {
      fail(ErrorKind::kValue, "grads_provided: tensor `{}` is not an output of graph `{}`", t->id(),
           forward_.displayName());
    }
  }
  for (const Tensor* t : required_) {
    if (std::find(forward_.inputs().begin(), forward_.inputs().end(), t) == forward_.inputs().end()) {
      fail(ErrorKind::kValue, "grads_required: tensor `{}` is not an input of graph `{}`", t->id(),
           forward_.displayName());
    }
  }
}

static void requireSafe(const Graph& graph) {
  if (graph.canBeDifferentiated()) return;
  fail(ErrorKind::kGraph,
       "graph `{}` has been marked as unsafe to autodiff; give its gradient graph in "
       "called_graphs_grad_info",
       graph.displayName());
}

void Differentiator::checkDifferentiable() const {
  requireSafe(forward_);
  for (const Op* op : forward_.ops()) {
    for (Graph* callee : op->calledGraphs()) {
      if (!state_.infos.contains(callee)) requireSafe(*callee);
    }
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      if (op->input(i) == nullptr || !op->modifies(i)) continue;
      fail(ErrorKind::kGraph,
           "The graph {} contains a modifying op: `{}` at {} writes tensor `{}`, whose value the gradient "
           "may need; use the op that does not work in place",
           forward_.displayName(), op->name(), op->loc().str(), op->input(i)->id());
    }
  }
}

/// An op between required and provided that has no gradient rule is an error, not a silent zero.
void Differentiator::checkOpsHaveGradients() const {
  for (const Op* op : order_) {
    if (hasGradient(*op) || op->def().stopsGradient) continue;
    const bool reads = std::any_of(op->inputs().begin(), op->inputs().end(), [&](const Tensor* t) {
      return t != nullptr && isFloat(t->dtype()) && fromRequired_.contains(t);
    });
    if (!reads || !makesAny(*op, toProvided_)) continue;
    fail(ErrorKind::kGraph,
         "graph `{}` can't be differentiated: `{}` at {} has no gradient; keep it outside the graph",
         forward_.displayName(), op->name(), op->loc().str());
  }
}

void Differentiator::build() {
  for (Tensor* t : provided_) {
    Tensor* in = gradGraph_->addInput(gradName(*t), {t->dtype(), t->shape(), t->type().metaShape});
    in->setLoc(t->loc());
    inputs_.push_back({true, t});
    partials_[t].push_back(in);
  }
  for (size_t i = order_.size(); i-- > 0;) {
    Op& op = *order_[i];
    const bool hasGrad = std::any_of(op.outputs().begin(), op.outputs().end(), [&](const Tensor* t) {
      return partials_.contains(t) && isFloat(t->dtype());
    });
    const bool wanted = std::any_of(op.inputs().begin(), op.inputs().end(),
                                    [&](const Tensor* t) { return t != nullptr && needed(t); });
    if (!hasGrad || !wanted) continue;
    differentiate(op);
  }
}

void Differentiator::differentiate(Op& op) {
  switch (op.def().structure) {
    case ir::Structure::kCall:
      return differentiateCall(op);
    case ir::Structure::kRepeat:
      return differentiateRepeat(*this, op);
    case ir::Structure::kConditional:
      return differentiateConditional(*this, op);
    default:
      break;
  }
  if (op.def().grad == nullptr) return;
  RuleContext context(op, *this);
  op.def().grad(context);
}

Tensor* Differentiator::add(std::vector<Tensor*> grads, std::string name, const Op* from) {
  const ir::OpDef* sum = forward_.ir().table().find("add_n");
  POPXL_ASSERT(sum != nullptr, "the op table has no add_n");
  ir::OpRequest request;
  request.inputs = std::move(grads);
  request.outputNames = {std::move(name)};
  if (from != nullptr) {
    request.settings = from->settings();
    request.loc = from->loc();
  }
  return gradGraph_->addOp(*sum, std::move(request))->output();
}

GradInfo Differentiator::finish() {
  GradInfo info{&forward_, gradGraph_, {}, {}};
  for (Tensor* t : required_) {
    Tensor* grad = gradOf(t, nullptr);
    if (grad == nullptr) {
      if (!options_.gradsRequired) continue;
      grad = constant(t->type(), 0);
      gradGraph_->rename(grad, gradName(*t));
    }
    gradGraph_->addOutput(grad);
    info.outputs.push_back({true, t});
  }
  removeUnused();
  if (!isBody_) giveOutputs();
  info.inputs = inputs_;
  return info;
}

/// Ops that no output needs, then forward tensors that no op reads.
void Differentiator::removeUnused() {
  TensorSet live(gradGraph_->outputs().begin(), gradGraph_->outputs().end());
  std::vector<Op*> dead;
  for (size_t i = gradGraph_->ops().size(); i-- > 0;) {
    Op* op = gradGraph_->ops()[i];
    const bool used = op->def().sideEffect || std::any_of(op->outputs().begin(), op->outputs().end(),
                                                          [&](const Tensor* t) { return live.contains(t); });
    if (used) {
      live.insert(op->inputs().begin(), op->inputs().end());
    } else {
      dead.push_back(op);
    }
  }
  gradGraph_->eraseOps(dead);
  const std::vector<Tensor*> graphInputs = gradGraph_->inputs();
  std::vector<Connection> kept;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].isGrad || live.contains(graphInputs[i])) {
      kept.push_back(inputs_[i]);
    } else {
      gradGraph_->eraseTensor(graphInputs[i]);
    }
  }
  inputs_ = std::move(kept);
}

/// Makes the forward tensors that the gradient graph reads inputs or outputs of the forward graph.
void Differentiator::giveOutputs() {
  TensorSet known(forward_.inputs().begin(), forward_.inputs().end());
  known.insert(forward_.outputs().begin(), forward_.outputs().end());
  for (const Connection& c : inputs_) {
    if (!c.isGrad && !known.contains(c.fwd)) gainOutput(forward_, c.fwd, state_.changes);
  }
}

Tensor* RuleContext::outGrad(size_t i) { return owner_.gradOf(op.output(i), &op); }

Tensor* RuleContext::outGradOrZero(size_t i) {
  Tensor* grad = outGrad(i);
  return grad != nullptr ? grad : zeros(op.output(i)->type());
}

Tensor* RuleContext::constant(DType dtype, const Shape& shape, double value) {
  return owner_.constant({dtype, shape, {}}, value);
}

Tensor* RuleContext::input(size_t i) { return owner_.forwardTensor(op.input(i)); }
Tensor* RuleContext::output(size_t i) { return owner_.forwardTensor(op.output(i)); }
bool RuleContext::wants(size_t i) const { return op.input(i) != nullptr && owner_.needed(op.input(i)); }

void RuleContext::set(size_t i, Tensor* grad) {
  if (grad != nullptr && wants(i)) owner_.addPartial(op.input(i), grad);
}

std::vector<Tensor*> RuleContext::makeAll(std::string_view name, std::vector<Tensor*> inputs,
                                          std::vector<ir::Attr> attrs) {
  bool inplace = false;
  const ir::OpDef* def = op.graph().ir().table().find(name, &inplace);
  POPXL_ASSERT(def != nullptr, "gradient of {} makes unknown op {}", op.name(), name);
  return owner_.gradGraph()
      .addOp(*def, {.inputs = std::move(inputs),
                    .attrs = std::move(attrs),
                    .inplace = inplace,
                    .outputNames = {},
                    .settings = op.settings(),
                    .loc = op.loc()})
      ->outputs();
}

std::map<Graph*, GradInfo> autodiff(Graph& forward, const AutodiffOptions& options) {
  DiffState state;
  state.infos = options.known;
  state.infos[&forward] = Differentiator(forward, options, state, Intermediates::kGiven).run();
  state.changes.keep();
  return state.infos;
}

}  // namespace popxl::passes
