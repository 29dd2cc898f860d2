#include <algorithm>

#include "base/error.h"
#include "bindings/convert.h"
#include "bindings/debug_info.h"
#include "bindings/module.h"
#include "ir/context.h"

namespace popxl::bindings {
namespace {

std::vector<ir::Attr> toAttrs(const ir::OpDef& def, const nb::dict& given) {
  std::vector<ir::Attr> attrs;
  if (given.empty()) return attrs;
  attrs.resize(def.attrs.size());
  for (const auto& [name, value] : given) {
    const int32_t index = def.attrIndex(nb::cast<std::string>(name));
    if (index < 0) {
      fail(ErrorKind::kValue, "op `{}` has no attribute `{}`", def.name, nb::cast<std::string>(name));
    }
    attrs[static_cast<size_t>(index)] = toAttr(value, def.attrs[static_cast<size_t>(index)]);
  }
  return attrs;
}

/// Like toTensor; the message names the operand.
ir::Tensor* toOperand(const ir::OpDef& def, size_t index, nb::handle value) {
  try {
    return toTensor(value);
  } catch (const Error&) {
    if (def.operands.empty()) throw;
    fail(
        ErrorKind::kType,
        "operand `{}` of `{}` must be a tensor, not a value of type {}; use popxl.constant to make one of it",
        def.operands[std::min(index, def.operands.size() - 1)].name, def.name,
        nb::cast<std::string>(value.type().attr("__name__")));
  }
}

ir::Op& makeOp(const char* name, nb::handle inputs, const nb::dict& attrs, bool inplace,
               nb::handle outputNames) {
  ir::Context& context = ir::Context::current();
  bool namedInplace = false;
  const ir::OpDef* def = context.requireGraph().ir().table().find(name, &namedInplace);
  if (def == nullptr) fail(ErrorKind::kKey, "there is no op `{}`", name);
  std::vector<ir::Tensor*> operands;
  for (nb::handle input : inputs) operands.push_back(toOperand(*def, operands.size(), input));
  std::vector<std::string> names;
  for (nb::handle given : outputNames) {
    if (!given.is_none() && !nb::isinstance<nb::str>(given)) {
      fail(ErrorKind::kType, "the name of a tensor must be a string, not {}",
           nb::cast<std::string>(nb::repr(given)));
    }
    names.push_back(given.is_none() ? std::string() : nb::cast<std::string>(given));
  }
  try {
    ir::Op* op = context.addOp(*def, operands, toAttrs(*def, attrs), userLocation(), inplace || namedInplace,
                               std::move(names));
    DebugInfo::addOp(*op);
    return *op;
  } catch (...) {
    context.requireGraph().eraseImplicit(operands);
    throw;
  }
}

nb::list addOp(const char* name, nb::handle inputs, const nb::dict& attrs, bool inplace,
               nb::handle outputNames) {
  return toList(makeOp(name, inputs, attrs, inplace, outputNames).outputs());
}

OpHandle createOp(const char* name, nb::handle inputs, const nb::dict& attrs, bool inplace,
                  nb::handle outputNames) {
  return handle(makeOp(name, inputs, attrs, inplace, outputNames));
}

TensorHandle finish(ir::Tensor* t) {
  t->setLoc(userLocation());
  DebugInfo::addTensor(*t);
  return handle(*t);
}

/// Memory for `type`, of one value or of one for each group.
std::shared_ptr<ir::HostData> memory(nb::handle buffer, const ir::TensorType& type, int64_t values) {
  auto data = shareBuffer(buffer);
  POPXL_ASSERT(data->size == type.bytes() * values, "{} bytes for {} values of {}", data->size, values,
               type.str());
  return data;
}

TensorHandle addVariable(const GraphHandle& g, const std::string& name, nb::handle shape, nb::handle dtype,
                         nb::handle buffer, int64_t groups) {
  const ir::TensorType type{toDType(dtype), toShape(shape), {}};
  return finish(g->addVariable(ir::Context::current().scopedName(name), type, memory(buffer, type, groups)));
}

TensorHandle addConstant(const GraphHandle& g, const std::string& name, nb::handle shape, nb::handle dtype,
                         nb::handle buffer) {
  const ir::TensorType type{toDType(dtype), toShape(shape), {}};
  return finish(g->addConstant(ir::Context::current().scopedName(name), type, memory(buffer, type, 1)));
}

TensorHandle addInput(const GraphHandle& g, const std::string& name, nb::handle shape, nb::handle dtype,
                      bool byRef, nb::handle metaShape) {
  const ir::TensorType type{toDType(dtype), toShape(shape), toShape(metaShape)};
  return finish(g->addInput(ir::Context::current().scopedName(name), type, byRef));
}

}  // namespace

void bindBuild(nb::module_& m) {
  m.def("add_op", &addOp, nb::arg("name"), nb::arg("inputs"), nb::arg("attrs") = nb::dict(),
        nb::arg("inplace") = false, nb::arg("output_names") = nb::tuple(),
        "Makes an op of the table in the current graph; returns its results. An absent optional operand is "
        "None.");
  m.def("create_op", &createOp, nb::arg("name"), nb::arg("inputs"), nb::arg("attrs") = nb::dict(),
        nb::arg("inplace") = false, nb::arg("output_names") = nb::tuple(),
        "Like add_op; returns the op itself.");
  m.def("add_variable", &addVariable, nb::arg("graph"), nb::arg("name"), nb::arg("shape"), nb::arg("dtype"),
        nb::arg("buffer"), nb::arg("groups") = 1,
        "Makes a variable over a C-contiguous array of one value a group, which is not copied.");
  m.def("add_constant", &addConstant, nb::arg("graph"), nb::arg("name"), nb::arg("shape"), nb::arg("dtype"),
        nb::arg("buffer"), "Makes a constant over a C-contiguous array, which is not copied.");
  m.def("add_input", &addInput, nb::arg("graph"), nb::arg("name"), nb::arg("shape"), nb::arg("dtype"),
        nb::arg("by_ref") = false, nb::arg("meta_shape") = nb::tuple(), "Makes an input of a graph.");
}

}  // namespace popxl::bindings
