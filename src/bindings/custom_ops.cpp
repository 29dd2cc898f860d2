#include "bindings/custom_ops.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "base/error.h"
#include "bindings/convert.h"
#include "ops/ops.h"
#include "popxl/custom_op.h"

namespace popxl::bindings {
namespace {

/// A function of the user's. It lives as long as the table of ops, which may be longer than the interpreter:
/// the reference is never given back.
using Function = PyObject*;

Function kept(const nb::object& function) { return function.is_none() ? nullptr : function.inc_ref().ptr(); }

/// What `work` returns, with the interpreter held. An exception becomes an Error, caused by it; one that asks
/// the program to end stays what it is.
template <typename Work>
auto inPython(ErrorKind kind, const Work& work) {
  const nb::gil_scoped_acquire gil;
  try {
    return work();
  } catch (const nb::python_error& error) {
    // NOLINTNEXTLINE(bugprone-std-exception-baseclass): what catches std::exception makes an Error of it
    if (!error.matches(PyExc_Exception)) throw EndOfProgram{error};
    const auto text = nb::cast<std::string>(nb::str(error.value()));
    const auto name = nb::cast<std::string>(nb::handle(error.type()).attr("__name__"));
    std::throw_with_nested(Error(kind, text.empty() ? name : name + ": " + text));
  } catch (const nb::cast_error&) {
    fail(ErrorKind::kType, "a function of the op gave something that can't be used");
  }
}

nb::dict fromAttrs(const OpUse& use) {
  nb::dict out;
  for (const auto& [name, value] : use.attrs) {
    out[name.c_str()] = fromAttr(std::visit([](const auto& v) { return ir::Attr(v); }, value));
  }
  return out;
}

nb::tuple fromSpec(const TensorSpec& spec) {
  return nb::make_tuple(fromShape(spec.shape), std::string(nameOf(spec.dtype)));
}

nb::list fromSpecs(const std::vector<TensorSpec>& specs) {
  nb::list out;
  for (const TensorSpec& spec : specs) out.append(fromSpec(spec));
  return out;
}

std::vector<TensorSpec> infer(Function fn, const OpUse& use) {
  return inPython(ErrorKind::kGraph, [&] {
    std::vector<TensorSpec> specs;
    for (nb::handle spec : nb::handle(fn)(fromSpecs(use.operands), fromAttrs(use)))
      specs.push_back({toShape(spec[0]), toDType(spec[1])});
    return specs;
  });
}

std::vector<Tensor> compose(Function fn, const OpUse& use, const std::vector<Tensor>& operands) {
  return inPython(ErrorKind::kGraph, [&] {
    nb::list given;
    for (const Tensor& t : operands) given.append(handle(*t.get()));
    std::vector<Tensor> made;
    for (nb::handle value : nb::handle(fn)(given, fromAttrs(use))) {
      ir::Tensor* t = toTensor(value);
      made.push_back(t == nullptr ? Tensor() : Tensor(t->graph().ir().shared_from_this(), t));
    }
    return made;
  });
}

/// Copies the operands: the user may keep what he is given, and memory of a program is used again.
void runOnArrays(Function fn, const OpUse& use, std::span<const InputArray> in,
                 std::span<const OutputArray> out) {
  inPython(ErrorKind::kNumeric, [&] {
    nb::list operands;
    for (const InputArray& array : in) {
      const int64_t size = numElements(array.spec.shape) * sizeOf(array.spec.dtype);
      operands.append(nb::make_tuple(nb::bytes(array.bytes, static_cast<size_t>(size)),
                                     fromShape(array.spec.shape), std::string(nameOf(array.spec.dtype))));
    }
    const nb::object results = nb::handle(fn)(operands, fromSpecs(use.results), fromAttrs(use));
    for (size_t i = 0; i < out.size(); ++i) {
      const auto data = shareBuffer(results[i]);
      const int64_t size = numElements(out[i].spec.shape) * sizeOf(out[i].spec.dtype);
      POPXL_ASSERT(data->size == size, "{} bytes for {}", data->size, size);
      if (size > 0) std::memcpy(out[i].bytes, data->bytes, static_cast<size_t>(size));
    }
  });
}

CustomOp::ArrayFunction arrayFunction(Function fn) {
  if (fn == nullptr) return {};
  return [fn](const OpUse& use, std::span<const InputArray> in, std::span<const OutputArray> out) {
    runOnArrays(fn, use, in, out);
  };
}

CustomOp::Composition composition(Function fn) {
  if (fn == nullptr) return {};
  return [fn](const OpUse& use, const std::vector<Tensor>& operands) { return compose(fn, use, operands); };
}

/// The type of an attribute, with its default, as the first alternative that fits the name.
AttrValue attrValue(const std::string& type, nb::handle value) {
  static const std::vector<std::pair<std::string, AttrValue>> types = {{"int", int64_t{0}},
                                                                       {"float", 0.0},
                                                                       {"bool", false},
                                                                       {"str", std::string()},
                                                                       {"ints", std::vector<int64_t>()},
                                                                       {"floats", std::vector<double>()},
                                                                       {"dtype", DType::kFloat32}};
  for (const auto& [name, empty] : types) {
    if (name != type) continue;
    if (value.is_none()) return empty;
    const ir::Attr attr = toAttr(value, {"default", static_cast<ir::AttrType>(empty.index())});
    return std::visit(
        [](const auto& v) -> AttrValue {
          if constexpr (std::is_constructible_v<AttrValue, std::decay_t<decltype(v)>>) return v;
          return {};
        },
        attr);
  }
  fail(ErrorKind::kType, "`{}` is no type of an attribute", type);
}

void registerOp(const std::string& name, const std::string& doc, const std::vector<std::string>& operands,
                nb::handle attrs, const std::vector<std::string>& results, const nb::object& inferFn,
                const nb::object& forward, const nb::object& composeFn, const std::vector<std::string>& reads,
                const nb::object& gradient, const nb::object& composeGradient) {
  CustomOp op;
  op.name = name;
  op.doc = doc;
  op.operands = operands;
  op.results = results;
  for (nb::handle attr : attrs) {
    op.attrs.push_back({nb::cast<std::string>(attr[0]), attrValue(nb::cast<std::string>(attr[1]), attr[2]),
                        "", attr[2].is_none()});
  }
  if (const Function fn = kept(inferFn); fn != nullptr)
    op.infer = [fn](const OpUse& use) { return infer(fn, use); };
  op.forward = arrayFunction(kept(forward));
  op.compose = composition(kept(composeFn));
  op.gradientReads = reads;
  op.gradient = arrayFunction(kept(gradient));
  op.composeGradient = composition(kept(composeGradient));
  popxl::registerOp(std::move(op));
}

/// Documentation, operands, attributes (name, default or None, whether it must be given) and number of
/// results.
nb::tuple signature(const std::string& name) {
  const ir::OpDef* def = ops::table().find(name);
  if (def == nullptr) fail(ErrorKind::kKey, "there is no op `{}`", name);
  nb::list operands, attrs;
  for (const ir::OperandDef& operand : def->operands) operands.append(std::string(operand.name));
  for (const ir::AttrDef& attr : def->attrs) {
    const bool required = !attr.optional && std::holds_alternative<std::monostate>(attr.fallback);
    attrs.append(nb::make_tuple(std::string(attr.name), fromAttr(attr.fallback), required));
  }
  return nb::make_tuple(std::string(def->doc), operands, attrs, def->results.size());
}

}  // namespace

void bindCustomOps(nb::module_& m) {
  m.def("register_op", &registerOp, nb::arg("name"), nb::arg("doc"), nb::arg("operands"), nb::arg("attrs"),
        nb::arg("results"), nb::arg("infer").none(), nb::arg("forward").none(), nb::arg("compose").none(),
        nb::arg("gradient_reads"), nb::arg("gradient").none(), nb::arg("compose_gradient").none(),
        "Adds an op to the table. Attributes are triples (name, type, default or None).");
  m.def("op_signature", &signature, nb::arg("name"),
        "Documentation, operands, attributes (name, default, required) and number of results of an op.");
  m.def("load_ops", &loadOps, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
        "Loads a shared library of ops; returns their names.");
}

}  // namespace popxl::bindings
