#include "ir/graph.h"

#include <fmt/format.h>

#include "base/error.h"
#include "bindings/convert.h"
#include "bindings/module.h"
#include "passes/surgery.h"

namespace popxl::bindings {
namespace {

TensorHandle tensorById(const GraphHandle& g, const std::string& id) {
  ir::Tensor* t = g->findById(id);
  if (t == nullptr) fail(ErrorKind::kKey, "graph `{}` has no tensor `{}`", g->displayName(), id);
  return handle(*t);
}

nb::list ids(const std::vector<ir::Tensor*>& tensors) {
  nb::list out;
  for (const ir::Tensor* t : tensors) out.append(t->id());
  return out;
}

nb::list tensorsOfKind(const GraphHandle& g, int kind) {
  nb::list out;
  for (ir::Tensor* t : g->tensors()) {
    if (static_cast<int>(t->kind()) == kind) out.append(handle(*t));
  }
  return out;
}

nb::list calledGraphs(const GraphHandle& g) {
  std::vector<ir::Graph*> seen;
  for (const ir::Op* op : g->ops()) {
    for (ir::Graph* called : op->calledGraphs()) {
      if (std::find(seen.begin(), seen.end(), called) == seen.end()) seen.push_back(called);
    }
  }
  return toList(seen);
}

void bindContents(nb::class_<GraphHandle>& cls) {
  cls.def(
         "getOps", [](const GraphHandle& g) { return toList(g->ops()); }, "Ops in order of creation.")
      .def(
          "getOpSchedule", [](const GraphHandle& g) { return toList(g->schedule()); },
          "Ops in the order they run in.")
      .def("getOpIds",
           [](const GraphHandle& g) {
             nb::list out;
             for (const ir::Op* op : g->ops()) out.append(op->id());
             return out;
           })
      .def("getTensor", &tensorById, nb::arg("id"))
      .def("getTensors", [](const GraphHandle& g) { return toList(g->tensors()); })
      .def("tensors_of_kind", &tensorsOfKind, nb::arg("kind"))
      .def("getInputIds", [](const GraphHandle& g) { return ids(g->inputs()); })
      .def("getOutputIds", [](const GraphHandle& g) { return ids(g->outputs()); })
      .def("getCalledGraphs", &calledGraphs)
      .def_prop_ro("inputs", [](const GraphHandle& g) { return toList(g->inputs()); })
      .def_prop_ro("outputs", [](const GraphHandle& g) { return toList(g->outputs()); })
      .def("__contains__",
           [](const GraphHandle& g, const std::string& id) { return g->findById(id) != nullptr; });
}

}  // namespace

void bindGraph(nb::module_& m) {
  auto cls = nb::class_<GraphHandle>(m, "Graph", "A graph of a program.");
  bindIdentity(cls);
  bindContents(cls);
  cls.def_prop_ro("id", [](const GraphHandle& g) { return g->id(); })
      .def_prop_ro("key", [](const GraphHandle& g) { return reinterpret_cast<uintptr_t>(g.ptr); })
      .def_prop_ro("ir_id", [](const GraphHandle& g) { return g.ir->id(); })
      .def("getIr", [](const GraphHandle& g) { return g.ir; })
      .def(
          "unique_name", [](const GraphHandle& g, const std::string& base) { return g->uniqueName(base); },
          nb::arg("base"), "A name that no tensor of the graph has; it is taken from then on.")
      .def(
          "mark_output", [](const GraphHandle& g, nb::handle tensor) { g->addOutput(toTensor(tensor)); },
          nb::arg("tensor"))
      .def(
          "remove_output", [](const GraphHandle& g, size_t index) { passes::removeOutput(*g, index); },
          nb::arg("index"))
      .def(
          "setCanBeRecursivelyAutodiffed",
          [](const GraphHandle& g, bool value) { g->setCanBeDifferentiated(value); }, nb::arg("value"))
      .def("getCanBeRecursivelyAutodiffed", [](const GraphHandle& g) { return g->canBeDifferentiated(); })
      .def(
          "erase_ops",
          [](const GraphHandle& g, const std::vector<OpHandle>& ops) {
            std::vector<ir::Op*> parts;
            for (const OpHandle& op : ops) parts.push_back(op.ptr);
            g->eraseOps(parts);
          },
          nb::arg("ops"))
      .def(
          "replace_uses",
          [](const GraphHandle& g, nb::handle from, nb::handle to) {
            passes::replaceUses(*g, toTensor(from), toTensor(to));
          },
          nb::arg("old"), nb::arg("new"),
          "Every use of a tensor becomes a use of another, graph outputs too.")
      .def("__repr__", [](const GraphHandle& g) { return fmt::format("Graph[{}]", g->displayName()); });
}

}  // namespace popxl::bindings
