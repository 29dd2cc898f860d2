#include "popxl/transforms.h"

#include <algorithm>

#include "api/make_op.h"
#include "base/error.h"
#include "passes/autodiff.h"

namespace popxl::transforms {

InputMap GradGraphInfo::inputsDict(const CallSite& forwardCall) const {
  if (!(forwardCall.calledGraph() == forwardGraph)) {
    fail(ErrorKind::kType, "the call is of graph `{}`; this gradient belongs to `{}`", forwardCall.calledGraph().name(),
         forwardGraph.name());
  }
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
  const Tensor forward = forwardCall.parentToGraph(forwardOperand);
  for (size_t i = 0; i < expectedOutputs.size(); ++i) {
    if (expectedOutputs[i].forward == forward) return gradCall.outputs()[i];
  }
  fail(ErrorKind::kValue, "graph `{}` does not compute the gradient of `{}`; name it in gradsRequired", graph.name(),
       forward.id());
}

GradGraphInfo autodiff(const Graph& graph, const AutodiffOptions& options) {
  if (!graph) fail(ErrorKind::kValue, "an empty Graph can't be differentiated");
  const auto plain = [](const std::optional<std::vector<Tensor>>& tensors) {
    std::optional<std::vector<ir::Tensor*>> out;
    if (tensors) {
      out.emplace();
      for (const Tensor& t : *tensors) out->push_back(t.get());
    }
    return out;
  };
  passes::AutodiffOptions given;
  given.gradsProvided = plain(options.gradsProvided);
  given.gradsRequired = plain(options.gradsRequired);
  const passes::GradInfo made = passes::autodiff(*graph.get(), given).at(graph.get());
  GradGraphInfo info{graph, {graph.ir(), made.graph}, {}, {}};
  for (const passes::Connection& c : made.inputs) info.expectedInputs.push_back({c.isGrad, api::wrap(c.fwd)});
  for (const passes::Connection& c : made.outputs) info.expectedOutputs.push_back({c.isGrad, api::wrap(c.fwd)});
  return info;
}

}  // namespace popxl::transforms
