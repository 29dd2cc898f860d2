#include <algorithm>
#include <set>

#include "base/error.h"
#include "passes/differentiator.h"

// Gradients of calls: gradient graphs of called graphs are shared by all their calls.
namespace popxl::passes {

using ir::Graph;
using ir::indexIn;
using ir::Op;
using ir::Tensor;

namespace {

std::set<size_t> placesOf(const std::vector<Connection>& connections, const std::vector<Tensor*>& list) {
  std::set<size_t> places;
  for (const Connection& c : connections) {
    const auto at = std::find(list.begin(), list.end(), c.fwd);
    if (c.isGrad && at != list.end()) places.insert(static_cast<size_t>(at - list.begin()));
  }
  return places;
}
/// Whether a gradient graph that was made for other call sites takes and gives all that these need.
bool covers(const GradInfo& info, const std::set<size_t>& outputs, const std::set<size_t>& inputs) {
  const auto given = placesOf(info.outputs, info.forward->inputs());
  const auto seeds = placesOf(info.inputs, info.forward->outputs());
  const auto& results = info.forward->outputs();
  return std::includes(given.begin(), given.end(), inputs.begin(), inputs.end()) &&
         std::all_of(outputs.begin(), outputs.end(), [&](size_t i) {
           const auto first = std::find(results.begin(), results.end(), results[i]);
           return seeds.contains(static_cast<size_t>(first - results.begin()));
         });
}
void alsoNeeded(const GradInfo& info, std::set<size_t>& outputs, std::set<size_t>& inputs) {
  outputs.merge(placesOf(info.inputs, info.forward->outputs()));
  inputs.merge(placesOf(info.outputs, info.forward->inputs()));
}

}  // namespace

bool isBranch(const Graph& graph) {
  const std::vector<Op*> sites = sitesOf(graph);
  return std::any_of(sites.begin(), sites.end(),
                     [](const Op* site) { return site->def().structure == ir::Structure::kConditional; });
}

/// Gradient graphs of what this graph calls, for the union of what its call sites need.
void Differentiator::differentiateCallees() {
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
    if (const auto made = state_.infos.find(callee); made != state_.infos.end()) {
      if (covers(made->second, outputs, inputs)) continue;
      alsoNeeded(made->second, outputs, inputs);
    }
    AutodiffOptions options;
    options.known = options_.known;
    options.gradsProvided.emplace();
    for (const size_t i : outputs) options.gradsProvided->push_back(callee->outputs()[i]);
    options.gradsRequired.emplace();
    for (const size_t i : inputs) options.gradsRequired->push_back(callee->inputs()[i]);
    // A branch of a conditional can't gain outputs.
    const Intermediates from = isBranch(*callee) ? Intermediates::kRecomputed : Intermediates::kGiven;
    state_.infos[callee] = Differentiator(*callee, options, state_, from).run();
  }
}

/// What reaches a tensor of the called graph through the results of a call. A tensor that is several
/// outputs has the sum of them as its gradient, given once.
Tensor* Differentiator::gradOfCallOutput(const Op& call, const Tensor* fwd, bool first) {
  const std::vector<Tensor*>& outputs = call.calledGraph()->outputs();
  std::vector<Tensor*> grads;
  for (size_t i = 0; i < outputs.size() && first; ++i) {
    if (outputs[i] != fwd) continue;
    if (Tensor* grad = gradOf(call.output(i), &call); grad != nullptr) grads.push_back(grad);
  }
  if (grads.empty()) return constant(fwd->type(), 0);
  return grads.size() == 1 ? grads.front() : add(std::move(grads), "t", &call);
}

void Differentiator::differentiateCall(Op& call) {
  Graph* callee = call.calledGraphs().front();
  const auto found = state_.infos.find(callee);
  if (found == state_.infos.end()) return;
  const GradInfo& info = found->second;
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

}  // namespace popxl::passes
