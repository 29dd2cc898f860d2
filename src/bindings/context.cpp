#include "ir/context.h"

#include <nanobind/stl/optional.h>

#include "bindings/convert.h"
#include "bindings/module.h"

namespace popxl::bindings {
namespace {

ir::Context& context() { return ir::Context::current(); }

/// A hook that keeps nothing of Python alive but one function of the library, which finds the user's hooks
/// itself.
ir::Graph::Hook trampoline(nb::handle callable) {
  return [callable](ir::Op& op) { callable(handle(op)); };
}

}  // namespace

void bindContext(nb::module_& m) {
  m.def(
      "push_graph", [](const GraphHandle& g) { context().pushGraph(*g); }, nb::arg("graph"));
  m.def("pop_graph", [] { context().popGraph(); });
  m.def("current_graph", [] { return orNone(context().graph()); });
  m.def(
      "push_scope", [](const std::string& name) { context().pushScope(name); }, nb::arg("name"));
  m.def("pop_scope", [] { context().popScope(); });
  m.def("scopes", [] { return context().scopes(); });
  m.def(
      "scoped_name", [](const std::string& name) { return context().scopedName(name); }, nb::arg("name"));
  m.def(
      "push_ipu", [](std::optional<int32_t> ipu) { context().pushIpu(ipu); }, nb::arg("ipu").none());
  m.def("pop_ipu", [] { context().popIpu(); });
  m.def(
      "current_ipu", [] { return context().ipu(); }, "-1 when undefined.");
  m.def(
      "push_tile_set", [](ir::TileSet t) { context().pushTileSet(t); }, nb::arg("tile_set"));
  m.def("pop_tile_set", [] { context().popTileSet(); });
  m.def("current_tile_set", [] { return context().tileSet(); });
  m.def(
      "push_execution", [](ir::ExecutionContext c) { context().pushExecution(c); }, nb::arg("context"));
  m.def("pop_execution", [] { context().popExecution(); });
  m.def("current_execution", [] { return context().execution(); });
  nb::enum_<ir::SequenceMode>(m, "SequenceMode", "Whether ops run in the order in which they are made.")
      .value("Ordered", ir::SequenceMode::kOrdered)
      .value("Unordered", ir::SequenceMode::kUnordered)
      .value("Pass", ir::SequenceMode::kPass);
  m.def(
      "push_sequence", [](ir::SequenceMode mode) { context().pushSequence(mode); }, nb::arg("mode"));
  m.def("pop_sequence", [] { context().popSequence(); });
  m.def("current_sequence", [] { return context().sequence(); });
  // The function must be one that lives as long as the module.
  m.def(
      "add_hook", [](const GraphHandle& g, nb::handle function) { return g->addHook(trampoline(function)); },
      nb::arg("graph"), nb::arg("function"));
  m.def(
      "remove_hook", [](const GraphHandle& g, int64_t hook) { g->removeHook(hook); }, nb::arg("graph"),
      nb::arg("hook"));
}

}  // namespace popxl::bindings
