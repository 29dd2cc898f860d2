#include <nanobind/stl/optional.h>

#include "bindings/convert.h"
#include "bindings/module.h"
#include "passes/autodiff.h"
#include "passes/decompose_sum.h"

namespace popxl::bindings {
namespace {

using passes::GradInfo;

/// Pairs (is a gradient, forward tensor).
nb::list connections(const std::vector<passes::Connection>& list) {
  nb::list out;
  for (const passes::Connection& c : list) out.append(nb::make_tuple(c.isGrad, handle(*c.fwd)));
  return out;
}

std::optional<std::vector<ir::Tensor*>> tensors(nb::handle given) {
  if (given.is_none()) return std::nullopt;
  std::vector<ir::Tensor*> out;
  for (nb::handle t : given) out.push_back(toTensor(t));
  return out;
}

nb::list autodiff(const GraphHandle& forward, nb::handle provided, nb::handle required,
                  const std::vector<GradInfo>& known) {
  passes::AutodiffOptions options;
  options.gradsProvided = tensors(provided);
  options.gradsRequired = tensors(required);
  for (const GradInfo& info : known) options.known.emplace(info.forward, info);
  nb::list out;
  for (auto& [graph, info] : passes::autodiff(*forward, options)) out.append(info);
  return out;
}

}  // namespace

void bindTransforms(nb::module_& m) {
  nb::class_<GradInfo>(m, "GradInfo", "A gradient graph and how it connects to its forward graph.")
      .def_prop_ro("forward", [](const GradInfo& info) { return handle(*info.forward); })
      .def_prop_ro("graph", [](const GradInfo& info) { return handle(*info.graph); })
      .def_prop_ro("inputs", [](const GradInfo& info) { return connections(info.inputs); })
      .def_prop_ro("outputs", [](const GradInfo& info) { return connections(info.outputs); });
  m.def("autodiff", &autodiff, nb::arg("graph"), nb::arg("grads_provided").none(),
        nb::arg("grads_required").none(), nb::arg("known"),
        "Differentiates a graph; returns the GradInfo of every gradient graph made or given.");
  m.def(
      "decompose_sum", [](const GraphHandle& g) { return passes::decomposeSum(*g); }, nb::arg("graph"),
      "Splits sums of more than two tensors; returns whether there were any.");
}

}  // namespace popxl::bindings
