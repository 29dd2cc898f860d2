#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/convert.h"
#include "bindings/module.h"
#include "passes/autodiff.h"
#include "passes/decompose_sum.h"
#include "passes/differentiator.h"
#include "passes/merge_exchange.h"
#include "passes/pass_runner.h"
#include "passes/recompute.h"
#include "passes/surgery.h"

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
  std::vector<GradInfo> infos;
  for (auto& [graph, info] : passes::autodiff(*forward, options)) infos.push_back(std::move(info));
  std::sort(infos.begin(), infos.end(), [](const GradInfo& a, const GradInfo& b) {
    return a.forward->index() < b.forward->index();  // not by address
  });
  nb::list out;
  for (const GradInfo& info : infos) out.append(info);
  return out;
}

std::vector<passes::Connection> toConnections(nb::handle given) {
  std::vector<passes::Connection> out;
  for (nb::handle item : given) {
    out.push_back({nb::cast<bool>(item[nb::int_(0)]), toTensor(item[nb::int_(1)])});
  }
  return out;
}

/// Copies ops of one graph into another of the same program; `tensors` pairs what stands for what.
nb::list copyOps(const GraphHandle& from, const GraphHandle& to, nb::handle tensors) {
  passes::TensorMapping mapping;
  for (nb::handle pair : tensors) mapping[toTensor(pair[nb::int_(0)])] = toTensor(pair[nb::int_(1)]);
  passes::copyOps(*from, *to, mapping);
  nb::list out;
  for (const ir::Tensor* t : from->tensors()) {
    if (const auto copy = mapping.find(t); copy != mapping.end()) {
      out.append(nb::make_tuple(handle(*const_cast<ir::Tensor*>(t)), handle(*copy->second)));
    }
  }
  return out;
}

void bindSurgery(nb::module_& m) {
  m.def("copy_ops", &copyOps, nb::arg("source"), nb::arg("target"), nb::arg("tensors"),
        "Copies the ops of a graph into another; `tensors` are pairs of what stands for what, and returned "
        "with those that were made.");
  m.def(
      "gain_output",
      [](const GraphHandle& g, nb::handle tensor) {
        passes::Changes changes;
        passes::gainOutput(*g, toTensor(tensor), changes);
        changes.keep();
      },
      nb::arg("graph"), nb::arg("tensor"),
      "Makes a tensor one more output of its graph, and a result of all ops that run it.");
  m.def(
      "clone_graph", [](const GraphHandle& g) { return handle(passes::cloneGraph(*g)); }, nb::arg("graph"),
      "A copy of a graph in the same Ir.");
  m.def(
      "outline_main",
      [](const std::shared_ptr<ir::Ir>& ir, const std::string& name) {
        const passes::Outlined made = passes::outlineMain(*ir, name);
        return nb::make_tuple(handle(*made.graph), toList(made.variables));
      },
      nb::arg("ir"), nb::arg("name"), "Moves the ops of the main graph into a graph; it and its operands.");
}

}  // namespace

void bindTransforms(nb::module_& m) {
  nb::class_<GradInfo>(m, "GradInfo", "A gradient graph and how it connects to its forward graph.")
      .def(
          "__init__",
          [](GradInfo* info, const GraphHandle& forward, const GraphHandle& graph, nb::handle inputs,
             nb::handle outputs) {
            const GradInfo given{&*forward, &*graph, toConnections(inputs), toConnections(outputs)};
            passes::checkGradInfo(given);
            new (info) GradInfo(given);
          },
          nb::arg("forward"), nb::arg("graph"), nb::arg("inputs"), nb::arg("outputs"),
          "Of a gradient graph made by hand: pairs (is a gradient, forward tensor) for inputs and outputs.")
      .def_prop_ro("forward", [](const GradInfo& info) { return handle(*info.forward); })
      .def_prop_ro("graph", [](const GradInfo& info) { return handle(*info.graph); })
      .def_prop_ro("inputs", [](const GradInfo& info) { return connections(info.inputs); })
      .def_prop_ro("outputs", [](const GradInfo& info) { return connections(info.outputs); });
  m.def("autodiff", &autodiff, nb::arg("graph"), nb::arg("grads_provided").none(),
        nb::arg("grads_required").none(), nb::arg("known"),
        "Differentiates a graph; returns the GradInfo of every gradient graph made or given.");
  bindSurgery(m);
  m.def(
      "recompute", [](const GradInfo& info) { return passes::recompute(info); }, nb::arg("info"),
      "The GradInfo of a gradient graph that computes forward tensors again.");
  m.def(
      "run_pass",
      [](const std::shared_ptr<ir::Ir>& ir, const std::string& name) { return passes::runPass(name, *ir); },
      nb::arg("ir"), nb::arg("name"), "Runs a pass by its name; whether it changed the program.");
  m.def(
      "pass_names",
      [] {
        nb::list names;
        for (const passes::Pass& pass : passes::allPasses()) names.append(pass.name.data());
        return names;
      },
      "Names of the passes of run_pass.");
  m.def(
      "merge_exchange",
      [](const GraphHandle& g, const std::vector<OpHandle>& given) {
        std::vector<ir::Op*> ops;
        for (const OpHandle& op : given) ops.push_back(op.ptr);
        passes::mergeExchanges(*g, ops);
      },
      nb::arg("graph"), nb::arg("ops"),
      "Makes one op of those of the ops that are transfers and do not depend on each other.");
  m.def(
      "decompose_sum", [](const GraphHandle& g) { return passes::decomposeSum(*g); }, nb::arg("graph"),
      "Splits sums of more than two tensors; returns whether there were any.");
}

}  // namespace popxl::bindings
