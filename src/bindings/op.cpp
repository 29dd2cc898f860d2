#include "ir/op.h"

#include <fmt/format.h>

#include "base/error.h"
#include "bindings/convert.h"
#include "bindings/module.h"
#include "ir/loop.h"

namespace popxl::bindings {
namespace {

/// Operands that programs count but that a repeat keeps as attributes: trip count and keep-going flag.
constexpr int64_t kRepeatOffset = 2;

int64_t operandOffset(const ir::Op& op) {
  if (op.def().structure != ir::Structure::kRepeat) return 0;
  return kRepeatOffset - static_cast<int64_t>(ir::firstInput(op));
}

bool modifiesIndex(const OpHandle& op, int64_t index) {
  const int64_t own = index - operandOffset(*op);
  return own >= 0 && op->modifies(static_cast<size_t>(own));
}

ir::Tensor* present(const std::vector<ir::Tensor*>& tensors, int64_t index, const char* what,
                    const ir::Op& op) {
  if (index < 0 || index >= static_cast<int64_t>(tensors.size()) ||
      tensors[static_cast<size_t>(index)] == nullptr) {
    fail(ErrorKind::kIndex, "op `{}` has no {} {}; it has {}", op.name(), what, index, tensors.size());
  }
  return tensors[static_cast<size_t>(index)];
}

void setInput(const OpHandle& op, size_t operand, nb::handle tensor) {
  ir::Tensor* t = toTensor(tensor);
  if (&t->graph() != &op->graph() || operand > op->inputs().size()) {
    fail(ErrorKind::kValue,
         "tensor `{}` can't become operand {} of `{}`, an op with {} operands of graph `{}`", t->id(),
         operand, op->name(), op->inputs().size(), op->graph().displayName());
  }
  if (operand == op->inputs().size()) {
    op->addInput(t);
  } else {
    op->setInput(operand, t);
  }
}

/// Ops that change weights: the var_updates family.
bool isOptimizerOp(const OpHandle& op) {
  return op->def().alwaysInplace || op->def().name.ends_with("updater");
}

nb::list aliases(const OpHandle& op) {
  nb::list out;
  for (const ir::Alias& alias : op->aliases()) out.append(nb::make_tuple(alias.output, alias.input));
  return out;
}

nb::dict attributes(const OpHandle& op) {
  nb::dict out;
  for (size_t i = 0; i < op->attrs().size(); ++i) {
    const std::string_view name = op->def().attrs[i].name;
    out[nb::str(name.data(), name.size())] = fromAttr(op->attrs()[i]);
  }
  return out;
}

const ir::AttrDef& attrDef(const OpHandle& op, const std::string& name) {
  const int32_t index = op->def().attrIndex(name);
  if (index < 0) fail(ErrorKind::kKey, "op `{}` has no attribute `{}`", op->name(), name);
  return op->def().attrs[static_cast<size_t>(index)];
}

void bindSettings(nb::module_& m) {
  nb::class_<ir::Settings>(m, "Settings", "What the context in force gave to an op when it was made.")
      .def_ro("tileSet", &ir::Settings::tileSet)
      .def_ro("executionContext", &ir::Settings::context)
      .def_ro("vgraphId", &ir::Settings::ipu)
      .def_prop_ro("scope",
                   [](const ir::Settings& s) { return s.scope == nullptr ? std::string() : *s.scope; });
}

void bindParts(nb::class_<OpHandle>& cls) {
  cls.def("getGraph", [](const OpHandle& op) { return handle(op->graph()); })
      .def("getIr", [](const OpHandle& op) { return op.ir; })
      .def("inTensor",
           [](const OpHandle& op, int64_t i) { return handle(*present(op->inputs(), i, "operand", *op)); })
      .def("outTensor",
           [](const OpHandle& op, int64_t i) { return handle(*present(op->outputs(), i, "result", *op)); })
      .def("getInputTensors", [](const OpHandle& op) { return toList(op->inputs()); })
      .def("getOutputTensors", [](const OpHandle& op) { return toList(op->outputs()); })
      .def_prop_ro(
          "inputs", [](const OpHandle& op) { return toList(op->inputs()); }, "Operands; None where absent.")
      .def_prop_ro("outputs", [](const OpHandle& op) { return toList(op->outputs()); })
      .def("getCalledGraphs", [](const OpHandle& op) { return toList(op->calledGraphs()); })
      .def("attributes", &attributes, "All attributes by name.")
      .def(
          "attr",
          [](const OpHandle& op, const std::string& name) {
            attrDef(op, name);
            return fromAttr(op->attrValue(name));
          },
          nb::arg("name"))
      .def(
          "set_attr",
          [](const OpHandle& op, const std::string& name, nb::handle value) {
            op->setAttr(name, toAttr(value, attrDef(op, name)));
          },
          nb::arg("name"), nb::arg("value").none())
      .def("has_attr",
           [](const OpHandle& op, const std::string& name) { return op->def().attrIndex(name) >= 0; });
}

}  // namespace

void bindOp(nb::module_& m) {
  bindSettings(m);
  auto cls = nb::class_<OpHandle>(m, "Op", "One op of a graph.");
  bindIdentity(cls);
  bindParts(cls);
  cls.def("opType", [](const OpHandle& op) { return op->type(); })
      .def_prop_ro("op_type", [](const OpHandle& op) { return op->type(); })
      .def_prop_ro(
          "table_name", [](const OpHandle& op) { return op->name(); },
          "Name in the op table and in the text form.")
      .def_prop_ro("id", [](const OpHandle& op) { return op->id(); })
      .def("debugName",
           [](const OpHandle& op) { return fmt::format("{} ({})", op->name(), op->loc().str()); })
      .def("name", [](const OpHandle& op) { return op->name(); })
      .def("getSettings", [](const OpHandle& op) { return op->settings(); })
      .def("hasVirtualGraphId", [](const OpHandle& op) { return op->settings().ipu >= 0; })
      .def("getVirtualGraphId", [](const OpHandle& op) { return op->settings().ipu; })
      .def("modifiesIndex", &modifiesIndex, nb::arg("index"),
           "Whether the op writes an operand; those of a Loop are counted from 2.")
      .def(
          "modifies", [](const OpHandle& op, size_t index) { return op->modifies(index); },
          nb::arg("operand"))
      .def(
          "declare_modified", [](const OpHandle& op, int32_t input) { op->declareModified(input); },
          nb::arg("operand"), "States that a call, repeat or conditional changes an operand.")
      .def("set_input", &setInput, nb::arg("operand"), nb::arg("tensor"),
           "Gives an op of a graph under construction another operand; one more where it has so many.")
      .def(
          "add_output",
          [](const OpHandle& op, const std::string& name, nb::handle like) {
            return handle(*op->addOutput(name, toTensor(like)->type()));
          },
          nb::arg("name"), nb::arg("like"), "One more result, of a call whose graph gained an output.")
      .def_prop_ro("aliases", &aliases, "Pairs (result, operand) that share memory.")
      .def("isOptimizerOp", &isOptimizerOp)
      .def_prop_ro("erased", [](const OpHandle& op) { return op->erased(); })
      .def_prop_ro(
          "location", [](const OpHandle& op) { return op->loc().str(); }, "File and line of the program.")
      .def("__str__", [](const OpHandle& op) { return op->str(); })
      .def("__repr__", [](const OpHandle& op) { return fmt::format("Op[{} {}]", op->id(), op->type()); });
}

}  // namespace popxl::bindings
