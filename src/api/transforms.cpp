#include "popxl/transforms.h"

#include <algorithm>

#include "api/grad_info.h"
#include "api/make_op.h"
#include "base/error.h"
#include "passes/autodiff.h"
#include "passes/pass_runner.h"
#include "passes/recompute.h"

namespace popxl::transforms {

namespace {

void checkCall(const CallSite& call, const Graph& graph) {
  if (call.calledGraph() == graph) return;
  fail(ErrorKind::kType, "the call is of graph `{}`, not of `{}`", call.calledGraph().name(), graph.name());
}

GradGraphInfo toInfo(const std::shared_ptr<ir::Ir>& ir, const passes::GradInfo& made) {
  GradGraphInfo info{{ir, made.forward}, {ir, made.graph}, {}, {}};
  for (const passes::Connection& c : made.inputs) info.expectedInputs.push_back({c.isGrad, api::wrap(c.fwd)});
  for (const passes::Connection& c : made.outputs)
    info.expectedOutputs.push_back({c.isGrad, api::wrap(c.fwd)});
  return info;
}

}  // namespace

passes::GradInfo fromInfo(const GradGraphInfo& info) {
  const auto plain = [](const std::vector<ExpectedConnection>& connections) {
    std::vector<passes::Connection> out;
    for (const ExpectedConnection& c : connections) out.push_back({c.isGradient, c.forward.get()});
    return out;
  };
  return {info.forwardGraph.get(), info.graph.get(), plain(info.expectedInputs), plain(info.expectedOutputs)};
}

InputMap GradGraphInfo::inputsDict(const CallSite& forwardCall) const {
  checkCall(forwardCall, forwardGraph);
  InputMap map;
  const std::vector<Tensor> inputs = graph.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (expectedInputs[i].isGradient) continue;
    map.emplace_back(inputs[i], forwardCall.graphToParent(expectedInputs[i].forward));
  }
  return map;
}

Tensor GradGraphInfo::gradientOf(const Tensor& forwardOperand, const CallSite& forwardCall,
                                 const CallSite& gradCall) const {
  checkCall(forwardCall, forwardGraph);
  checkCall(gradCall, graph);
  const Tensor forward = forwardCall.parentToGraph(forwardOperand);
  for (size_t i = 0; i < expectedOutputs.size(); ++i) {
    if (expectedOutputs[i].forward == forward) return gradCall.outputs()[i];
  }
  fail(ErrorKind::kValue, "graph `{}` does not compute the gradient of `{}`; name it in gradsRequired",
       graph.name(), forward.id());
}

InputMap GradGraphInfo::forwardInsToGradOuts(const CallSite& gradCall) const {
  checkCall(gradCall, graph);
  InputMap map;
  const std::vector<Tensor> gradients = gradCall.outputs();
  for (size_t i = 0; i < expectedOutputs.size(); ++i)
    map.emplace_back(expectedOutputs[i].forward, gradients[i]);
  return map;
}

InputMap GradGraphInfo::forwardParentInsToGradOuts(const CallSite& forwardCall,
                                                   const CallSite& gradCall) const {
  checkCall(forwardCall, forwardGraph);
  InputMap map = forwardInsToGradOuts(gradCall);
  for (auto& [forward, gradient] : map) forward = forwardCall.graphToParent(forward);
  return map;
}

GradGraphInfo autodiff(const Graph& graph, const AutodiffOptions& options) {
  if (!graph) fail(ErrorKind::kValue, "an empty Graph can't be differentiated");
  const auto plain = [&](const std::optional<std::vector<Tensor>>& tensors) {
    std::optional<std::vector<ir::Tensor*>> out;
    if (tensors) {
      out.emplace();
      for (const Tensor& t : *tensors) {
        if (!t)
          fail(ErrorKind::kValue, "an empty Tensor is neither input nor output of graph `{}`", graph.name());
        out->push_back(t.get());
      }
    }
    return out;
  };
  passes::AutodiffOptions given;
  given.gradsProvided = plain(options.gradsProvided);
  given.gradsRequired = plain(options.gradsRequired);
  for (const GradGraphInfo& info : options.known)
    given.known.emplace(info.forwardGraph.get(), fromInfo(info));
  return toInfo(graph.ir(), passes::autodiff(*graph.get(), given).at(graph.get()));
}

GradGraphInfo recompute(const GradGraphInfo& info) {
  return toInfo(info.graph.ir(), passes::recompute(fromInfo(info)));
}

bool runPass(const Ir& ir, std::string_view name) { return passes::runPass(name, *ir.get()); }

}  // namespace popxl::transforms
