#include "passes/autodiff.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "analysis/dependences.h"
#include "base/error.h"
#include "ir/grad_context.h"
#include "kernels/rows.h"
#include "passes/changes.h"

namespace popxl::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::Tensor;
using TensorSet = std::unordered_set<const Tensor*>;

std::string gradName(const Tensor& t) { return "Gradient___" + t.name(); }

/// Tensors on a path from `sources` (when given) along data to anywhere, through ops that have a gradient.
TensorSet reachableFrom(const std::vector<Op*>& order, const std::vector<Tensor*>& sources) {
  TensorSet reached(sources.begin(), sources.end());
  for (const Op* op : order) {
    if (op->def().grad == nullptr && op->def().structure != ir::Structure::kCall) continue;
    const bool any = std::any_of(op->inputs().begin(), op->inputs().end(),
                                 [&](const Tensor* t) { return t != nullptr && reached.contains(t); });
    if (!any) continue;
    for (const Tensor* t : op->outputs()) {
      if (isFloat(t->dtype())) reached.insert(t);
    }
  }
  return reached;
}

TensorSet reaching(const std::vector<Op*>& order, const std::vector<Tensor*>& sinks) {
  TensorSet reached(sinks.begin(), sinks.end());
  for (size_t i = order.size(); i-- > 0;) {
    const Op* op = order[i];
    const bool any = std::any_of(op->outputs().begin(), op->outputs().end(),
                                 [&](const Tensor* t) { return reached.contains(t); });
    if (!any) continue;
    for (const Tensor* t : op->inputs()) {
      if (t != nullptr) reached.insert(t);
    }
  }
  return reached;
}

std::string withoutSuffix(const std::string& graphId) {
  const auto at = graphId.rfind("_subgraph(");
  return at == std::string::npos ? graphId : graphId.substr(0, at);
}

/// Call sites of a graph over the whole Ir.
std::vector<Op*> callSites(const Graph& graph) {
  std::vector<Op*> sites;
  for (const Graph* g : graph.ir().graphs()) {
    for (Op* op : g->ops()) {
      const auto called = op->calledGraphs();
      if (std::find(called.begin(), called.end(), &graph) != called.end()) sites.push_back(op);
    }
  }
  return sites;
}

class Differentiator;

/// The view of the differentiation that one op's gradient rule has.
class RuleContext final : public ir::GradContext {
 public:
  RuleContext(const Op& op, Differentiator& owner) : GradContext(op), owner_(owner) {}
  Tensor* outGrad(size_t i) override;
  Tensor* outGradOrZero(size_t i) override;
  Tensor* constant(DType dtype, const Shape& shape, double value) override;
  Tensor* input(size_t i) override;
  Tensor* output(size_t i) override;
  bool wants(size_t i) const override;
  void set(size_t i, Tensor* grad) override;
  Tensor* make(std::string_view name, std::vector<Tensor*> inputs, std::vector<ir::Attr> attrs) override {
    return makeAll(name, std::move(inputs), std::move(attrs)).front();
  }
  std::vector<Tensor*> makeAll(std::string_view name, std::vector<Tensor*> inputs,
                               std::vector<ir::Attr> attrs) override;

 private:
  Differentiator& owner_;
};

class Differentiator {
 public:
  Differentiator(Graph& forward, const AutodiffOptions& options, std::map<Graph*, GradInfo>& infos,
                 Changes& changes)
      : forward_(forward), options_(options), infos_(infos), changes_(changes) {}

  GradInfo run() {
    order_ = analysis::topologicalOrder(forward_);
    provided_ = options_.gradsProvided.value_or(forward_.outputs());
    required_ = options_.gradsRequired.value_or(forward_.inputs());
    checkArguments();
    checkDifferentiable();
    fromRequired_ = reachableFrom(order_, required_);
    toProvided_ = reaching(order_, provided_);
    checkOpsHaveGradients();
    differentiateCallees();
    gradGraph_ = &forward_.ir().createGraph(withoutSuffix(forward_.id()) + "_grad");
    changes_.add([made = gradGraph_] { made->ir().eraseGraph(made); });
    build();
    return finish();
  }

  Graph& gradGraph() { return *gradGraph_; }
  bool needed(const Tensor* t) const {
    return isFloat(t->dtype()) && fromRequired_.contains(t) && toProvided_.contains(t);
  }

  /// A forward tensor in the gradient graph: a copy of a constant, else an input.
  Tensor* forwardTensor(Tensor* t) {
    const auto it = forwardTensors_.find(t);
    if (it != forwardTensors_.end()) return it->second;
    Tensor* made = nullptr;
    if (t->kind() == ir::TensorKind::kConstant) {
      made = gradGraph_->addConstant(t->name(), t->type(), t->data());
    } else {
      made = gradGraph_->addInput(t->name(), t->type());
      inputs_.push_back({false, t});
    }
    made->setLoc(t->loc());
    forwardTensors_.emplace(t, made);
    return made;
  }

  /// The gradient of a forward tensor, summed over its uses; null when there is none.
  Tensor* gradOf(const Tensor* t, const Op* from) {
    const auto it = partials_.find(t);
    if (it == partials_.end()) return nullptr;
    if (it->second.size() > 1) {
      it->second = {add(it->second, gradName(*t), from)};
    } else if (Tensor* only = it->second.front(); only->producer() != nullptr && named_.insert(only).second) {
      gradGraph_->rename(only, gradName(*t));
    }
    return it->second.front();
  }

  void addPartial(const Tensor* t, Tensor* grad) {
    POPXL_ASSERT(grad->shape() == t->shape(), "gradient {} of {} {}", grad->type().str(), t->id(),
                 t->type().str());
    partials_[t].push_back(grad);
  }

  Tensor* zeros(const ir::TensorType& type) { return constant(type, 0); }
  Tensor* constant(const ir::TensorType& type, double value) {
    auto data = ir::HostData::allocate(type.bytes());  // zeros
    for (int64_t i = 0; value != 0 && i < type.numElements(); ++i) {
      kernels::writeNumber(type.dtype, data->bytes, i, value);
    }
    return gradGraph_->addConstant(value == 0 ? "zeros" : "constant", {type.dtype, type.shape, {}},
                                   std::move(data));
  }

 private:
  void checkArguments() {
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

  void checkDifferentiable() const {
    requireSafe(forward_);
    for (const Op* op : forward_.ops()) {
      for (Graph* callee : op->calledGraphs()) {
        if (!infos_.contains(callee)) requireSafe(*callee);
      }
      for (size_t i = 0; i < op->inputs().size(); ++i) {
        if (op->input(i) == nullptr || !op->modifies(i)) continue;
        fail(ErrorKind::kGraph,
             "The graph {} contains a modifying op: `{}` at {} writes tensor `{}`, whose value the gradient "
             "may need; use "
             "the op that does not work in place",
             forward_.displayName(), op->name(), op->loc().str(), op->input(i)->id());
      }
    }
  }

  /// An op between required and provided that has no gradient rule is an error, not a silent zero.
  void checkOpsHaveGradients() const {
    for (const Op* op : order_) {
      if (op->def().grad != nullptr || op->def().stopsGradient || op->def().structure == ir::Structure::kCall)
        continue;
      const bool reads = std::any_of(op->inputs().begin(), op->inputs().end(), [&](const Tensor* t) {
        return t != nullptr && isFloat(t->dtype()) && fromRequired_.contains(t);
      });
      const bool matters = std::any_of(op->outputs().begin(), op->outputs().end(),
                                       [&](const Tensor* t) { return toProvided_.contains(t); });
      if (!reads || !matters) continue;
      fail(ErrorKind::kGraph,
           "graph `{}` can't be differentiated: `{}` at {} has no gradient; keep it outside the graph",
           forward_.displayName(), op->name(), op->loc().str());
    }
  }

  static std::set<size_t> placesOf(const std::vector<Connection>& connections,
                                   const std::vector<Tensor*>& list) {
    std::set<size_t> places;
    for (const Connection& c : connections) {
      const auto at = std::find(list.begin(), list.end(), c.fwd);
      if (c.isGrad && at != list.end()) places.insert(static_cast<size_t>(at - list.begin()));
    }
    return places;
  }
  /// Whether a gradient graph that was made for other call sites takes and gives all that these need.
  static bool covers(const GradInfo& info, const std::set<size_t>& outputs, const std::set<size_t>& inputs) {
    const auto given = placesOf(info.outputs, info.forward->inputs());
    const auto seeds = placesOf(info.inputs, info.forward->outputs());
    const auto& results = info.forward->outputs();
    return std::includes(given.begin(), given.end(), inputs.begin(), inputs.end()) &&
           std::all_of(outputs.begin(), outputs.end(), [&](size_t i) {
             const auto first = std::find(results.begin(), results.end(), results[i]);
             return seeds.contains(static_cast<size_t>(first - results.begin()));
           });
  }
  static void alsoNeeded(const GradInfo& info, std::set<size_t>& outputs, std::set<size_t>& inputs) {
    outputs.merge(placesOf(info.inputs, info.forward->outputs()));
    inputs.merge(placesOf(info.outputs, info.forward->inputs()));
  }

  /// Gradient graphs of what this graph calls, for the union of what its call sites need.
  void differentiateCallees() {
    std::map<Graph*, std::pair<std::set<size_t>, std::set<size_t>>> needs;
    std::vector<Graph*> callees;
    for (const Op* op : order_) {
      if (op->def().structure != ir::Structure::kCall) continue;
      Graph* callee = op->calledGraphs().front();
      if (options_.known.contains(callee)) continue;
      if (!needs.contains(callee)) callees.push_back(callee);
      auto& [outputs, inputs] = needs[callee];
      for (size_t i = 0; i < op->outputs().size(); ++i) {
        if (needed(op->output(i))) outputs.insert(i);
      }
      for (size_t i = 0; i < op->inputs().size(); ++i) {
        if (needed(op->input(i))) inputs.insert(i);
      }
    }
    for (Graph* callee : callees) {
      auto& [outputs, inputs] = needs[callee];
      if (outputs.empty() || inputs.empty()) continue;
      if (const auto made = infos_.find(callee); made != infos_.end()) {
        if (covers(made->second, outputs, inputs)) continue;
        alsoNeeded(made->second, outputs, inputs);
      }
      AutodiffOptions options;
      options.known = options_.known;
      options.gradsProvided.emplace();
      for (const size_t i : outputs) options.gradsProvided->push_back(callee->outputs()[i]);
      options.gradsRequired.emplace();
      for (const size_t i : inputs) options.gradsRequired->push_back(callee->inputs()[i]);
      infos_[callee] = Differentiator(*callee, options, infos_, changes_).run();
    }
  }

  void build() {
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
      if (op.def().structure == ir::Structure::kCall) {
        differentiateCall(op);
      } else if (op.def().grad != nullptr) {
        RuleContext context(op, *this);
        op.def().grad(context);
      }
    }
  }

  /// What reaches a tensor of the called graph through the results of a call. A tensor that is several
  /// outputs has the sum of them as its gradient, given once.
  Tensor* gradOfCallOutput(const Op& call, const Tensor* fwd, bool first) {
    const std::vector<Tensor*>& outputs = call.calledGraph()->outputs();
    std::vector<Tensor*> grads;
    for (size_t i = 0; i < outputs.size() && first; ++i) {
      if (outputs[i] != fwd) continue;
      if (Tensor* grad = gradOf(call.output(i), &call); grad != nullptr) grads.push_back(grad);
    }
    if (grads.empty()) return zeros(fwd->type());
    return grads.size() == 1 ? grads.front() : add(std::move(grads), "t", &call);
  }

  Tensor* add(std::vector<Tensor*> grads, std::string name, const Op* from) {
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

  void differentiateCall(Op& call) {
    Graph* callee = call.calledGraphs().front();
    const auto found = infos_.find(callee);
    if (found == infos_.end()) return;
    const GradInfo& info = found->second;
    const auto indexIn = [](const std::vector<Tensor*>& list, const Tensor* t) {
      return static_cast<size_t>(std::find(list.begin(), list.end(), t) - list.begin());
    };
    RuleContext context(call, *this);
    std::vector<Tensor*> inputs;
    TensorSet seeded;
    for (const Connection& c : info.inputs) {
      const size_t out = indexIn(callee->outputs(), c.fwd), in = indexIn(callee->inputs(), c.fwd);
      POPXL_ASSERT(out < callee->outputs().size() || in < callee->inputs().size(), "{} of {}", c.fwd->id(),
                   callee->id());
      if (c.isGrad) {
        inputs.push_back(gradOfCallOutput(call, c.fwd, seeded.insert(c.fwd).second));
      } else if (in < callee->inputs().size()) {
        inputs.push_back(context.input(in));
      } else {
        inputs.push_back(context.output(out));
      }
    }
    const auto grads = context.makeAll("call", std::move(inputs), {ir::Attr(info.graph)});
    for (size_t i = 0; i < info.outputs.size(); ++i) {
      const size_t in = indexIn(callee->inputs(), info.outputs[i].fwd);
      if (context.wants(in)) context.set(in, grads[i]);
    }
  }

  GradInfo finish() {
    GradInfo info{&forward_, gradGraph_, {}, {}};
    for (Tensor* t : required_) {
      Tensor* grad = gradOf(t, nullptr);
      if (grad == nullptr) {
        if (!options_.gradsRequired) continue;
        grad = zeros(t->type());
        gradGraph_->rename(grad, gradName(*t));
      }
      gradGraph_->addOutput(grad);
      info.outputs.push_back({true, t});
    }
    removeUnused();
    const std::vector<Tensor*> extra = extraOutputs();
    if (!extra.empty()) giveOutputs(extra);
    info.inputs = inputs_;
    return info;
  }

  /// Ops that no output needs, then forward tensors that no op reads.
  void removeUnused() {
    TensorSet live(gradGraph_->outputs().begin(), gradGraph_->outputs().end());
    std::vector<Op*> dead;
    for (size_t i = gradGraph_->ops().size(); i-- > 0;) {
      Op* op = gradGraph_->ops()[i];
      const bool used =
          op->def().sideEffect || std::any_of(op->outputs().begin(), op->outputs().end(),
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

  std::vector<Tensor*> extraOutputs() const {
    TensorSet known(forward_.inputs().begin(), forward_.inputs().end());
    known.insert(forward_.outputs().begin(), forward_.outputs().end());
    std::vector<Tensor*> extra;
    for (const Connection& c : inputs_) {
      if (!c.isGrad && !known.contains(c.fwd)) extra.push_back(c.fwd);
    }
    return extra;
  }

  void giveOutputs(const std::vector<Tensor*>& extra) {
    const std::vector<Op*> sites = callSites(forward_);
    checkCanGainOutputs(sites, extra);
    for (Tensor* t : extra) {
      forward_.addOutput(t);
      changes_.add([graph = &forward_] { graph->removeOutput(graph->outputs().size() - 1); });
      for (Op* site : sites) {
        site->addOutput("autodiff_output", t->type());
        changes_.add([site] { site->removeLastOutput(); });
      }
    }
  }

  void checkCanGainOutputs(const std::vector<Op*>& sites, const std::vector<Tensor*>& extra) const {
    for (const Op* site : sites) {
      if (site->def().structure == ir::Structure::kCall) continue;
      fail(ErrorKind::kGraph,
           "graph `{}` can't be differentiated: its gradient needs `{}`, which would have to become an "
           "output, but `{}` at "
           "{} runs the graph with a fixed number of outputs; differentiate before making it, or return the "
           "tensor",
           forward_.displayName(), extra.front()->id(), site->name(), site->loc().str());
    }
  }

  Graph& forward_;
  const AutodiffOptions& options_;
  std::map<Graph*, GradInfo>& infos_;
  Changes& changes_;
  Graph* gradGraph_ = nullptr;
  std::vector<Op*> order_;
  std::vector<Tensor*> provided_, required_;
  TensorSet fromRequired_, toProvided_;
  std::vector<Connection> inputs_;
  std::unordered_map<const Tensor*, Tensor*> forwardTensors_;
  std::unordered_map<const Tensor*, std::vector<Tensor*>> partials_;
  TensorSet named_;
};

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

}  // namespace

std::map<Graph*, GradInfo> autodiff(Graph& forward, const AutodiffOptions& options) {
  std::map<Graph*, GradInfo> infos = options.known;
  Changes changes;
  infos[&forward] = Differentiator(forward, options, infos, changes).run();
  changes.keep();
  return infos;
}

}  // namespace popxl::passes
