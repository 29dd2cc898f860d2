#include "popxl/surgery.h"

#include "api/grad_info.h"
#include "api/make_op.h"
#include "base/error.h"
#include "passes/differentiator.h"
#include "passes/surgery.h"

namespace popxl::transforms {
namespace {

ir::Graph& given(const Graph& graph) {
  if (!graph)
    fail(ErrorKind::kValue, "an empty Graph, made by the default constructor, can't be changed or copied");
  return *graph.get();
}

ir::Tensor* given(const Tensor& t) {
  if (!t) fail(ErrorKind::kValue, "an empty Tensor, made by the default constructor, is of no graph");
  return t.get();
}

}  // namespace

Graph cloneGraph(const Graph& graph) {
  ir::Graph& clone = passes::cloneGraph(given(graph));
  return {graph.ir(), &clone};
}

InputMap copyOps(const Graph& source, const Graph& target, const InputMap& tensors) {
  passes::TensorMapping mapping;
  for (const auto& [from, to] : tensors) mapping[given(from)] = given(to);
  passes::copyOps(given(source), given(target), mapping);
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
  passes::gainOutput(given(graph), given(tensor), changes);
  changes.keep();
}

void removeOutput(const Graph& graph, size_t index) { passes::removeOutput(given(graph), index); }

void replaceUses(const Graph& graph, const Tensor& old, const Tensor& by) {
  passes::replaceUses(given(graph), given(old), given(by));
}

GradGraphInfo makeGradInfo(const Graph& forward, const Graph& graph, std::vector<ExpectedConnection> inputs,
                           std::vector<ExpectedConnection> outputs) {
  given(forward);
  given(graph);
  for (const auto* side : {&inputs, &outputs}) {
    for (const ExpectedConnection& c : *side) given(c.forward);
  }
  GradGraphInfo info{forward, graph, std::move(inputs), std::move(outputs)};
  passes::checkGradInfo(fromInfo(info));
  return info;
}

}  // namespace popxl::transforms
