#include "popxl/surgery.h"

#include "api/grad_info.h"
#include "api/make_op.h"
#include "passes/differentiator.h"
#include "passes/surgery.h"

namespace popxl::transforms {

Graph cloneGraph(const Graph& graph) { return {graph.ir(), &passes::cloneGraph(*graph.get())}; }

InputMap copyOps(const Graph& source, const Graph& target, const InputMap& tensors) {
  passes::TensorMapping mapping;
  for (const auto& [from, to] : tensors) mapping[from.get()] = to.get();
  passes::copyOps(*source.get(), *target.get(), mapping);
  InputMap made;
  for (const Tensor& t : source.tensors()) {
    if (const auto copy = mapping.find(t.get()); copy != mapping.end())
      made.emplace_back(t, api::wrap(copy->second));
  }
  return made;
}

OutlinedMain outlineMain(const Ir& ir, std::string_view name) {
  const passes::Outlined made = passes::outlineMain(*ir.get(), std::string(name));
  return {{ir.get(), made.graph}, api::wrap(made.variables)};
}

void addOutput(const Graph& graph, const Tensor& tensor) {
  passes::Changes changes;
  passes::gainOutput(*graph.get(), tensor.get(), changes);
  changes.keep();
}

void removeOutput(const Graph& graph, size_t index) { passes::removeOutput(*graph.get(), index); }

void replaceUses(const Graph& graph, const Tensor& old, const Tensor& by) {
  passes::replaceUses(*graph.get(), old.get(), by.get());
}

GradGraphInfo makeGradInfo(const Graph& forward, const Graph& graph, std::vector<ExpectedConnection> inputs,
                           std::vector<ExpectedConnection> outputs) {
  GradGraphInfo info{forward, graph, std::move(inputs), std::move(outputs)};
  passes::checkGradInfo(fromInfo(info));
  return info;
}

}  // namespace popxl::transforms
