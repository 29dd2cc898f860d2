#include "bindings/convert.h"

#include <nanobind/ndarray.h>

#include "base/error.h"

namespace popxl::bindings {
namespace {

std::string typeName(nb::handle value) { return nb::cast<std::string>(value.type().attr("__name__")); }

template <typename T>
std::vector<T> toVector(nb::handle value) {
  std::vector<T> out;
  for (nb::handle item : value) out.push_back(nb::cast<T>(item));
  return out;
}

int64_t toInt(nb::handle value) {
  // Also NumPy integers, which are no int but have __index__.
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  int overflow = 0;
  const int64_t out = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0)
    fail(ErrorKind::kValue, "{} does not fit into 64 bits", nb::cast<std::string>(nb::str(index)));
  if (out == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return out;
}

double toFloat(nb::handle value) {
  const double out = PyFloat_AsDouble(value.ptr());
  if (out == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return out;
}

ir::Attr convert(nb::handle value, ir::AttrType type) {
  switch (type) {
    case ir::AttrType::kInt:
      return toInt(value);
    case ir::AttrType::kFloat:
      return toFloat(value);
    case ir::AttrType::kBool: {
      const int truth = PyObject_IsTrue(value.ptr());
      if (truth < 0) throw nb::python_error();
      return truth == 1;
    }
    case ir::AttrType::kString:
      return nb::cast<std::string>(value);
    case ir::AttrType::kInts:
      return toShape(value);
    case ir::AttrType::kFloats: {
      std::vector<double> out;
      for (nb::handle item : value) out.push_back(toFloat(item));
      return out;
    }
    case ir::AttrType::kDType:
      return toDType(value);
    case ir::AttrType::kGraph:
      return toGraph(value);
  }
  return {};
}

const char* describe(ir::AttrType type) {
  switch (type) {
    case ir::AttrType::kInt:
      return "an integer";
    case ir::AttrType::kFloat:
      return "a number";
    case ir::AttrType::kBool:
      return "a bool";
    case ir::AttrType::kString:
      return "a string";
    case ir::AttrType::kInts:
      return "a sequence of integers";
    case ir::AttrType::kFloats:
      return "a sequence of numbers";
    case ir::AttrType::kDType:
      return "a dtype";
    case ir::AttrType::kGraph:
      return "a graph";
  }
  return "";
}

[[noreturn]] void failType(nb::handle value, const ir::AttrDef& def) {
  fail(ErrorKind::kType, "`{}` must be {}, not a value of type {}", def.name, describe(def.type),
       typeName(value));
}

}  // namespace

ir::Tensor* toTensor(nb::handle value) {
  if (value.is_none()) return nullptr;
  if (TensorHandle * direct; nb::try_cast(value, direct)) return direct->ptr;
  const nb::object inner = nb::getattr(value, "_pb_tensor", nb::none());
  if (TensorHandle * unwrapped; !inner.is_none() && nb::try_cast(inner, unwrapped)) return unwrapped->ptr;
  fail(ErrorKind::kType, "a tensor is expected, not a value of type {}; use popxl.constant to make one of it",
       typeName(value));
}

ir::Graph* toGraph(nb::handle value) {
  if (GraphHandle * direct; nb::try_cast(value, direct)) return direct->ptr;
  const nb::object inner = nb::getattr(value, "_pb_graph", nb::none());
  if (GraphHandle * unwrapped; !inner.is_none() && nb::try_cast(inner, unwrapped)) return unwrapped->ptr;
  fail(ErrorKind::kType, "a graph is expected, not a value of type {}", typeName(value));
}

DType toDType(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return dtypeFromName(nb::cast<std::string>(value));
  const nb::object name = nb::getattr(value, "name", nb::none());
  if (nb::isinstance<nb::str>(name)) return dtypeFromName(nb::cast<std::string>(name));
  fail(ErrorKind::kType, "a dtype is expected, not a value of type {}", typeName(value));
}

Shape toShape(nb::handle value) {
  Shape out;
  for (nb::handle item : value) out.push_back(toInt(item));
  return out;
}

nb::tuple fromShape(const Shape& shape) {
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(shape.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  }
  return nb::steal<nb::tuple>(out);
}

ir::Attr toAttr(nb::handle value, const ir::AttrDef& def) {
  if (value.is_none()) return {};
  try {
    return convert(value, def.type);
  } catch (nb::python_error& error) {
    if (error.matches(PyExc_OverflowError)) {
      fail(ErrorKind::kValue, "`{}` does not fit into {}", def.name, describe(def.type));
    }
    if (!error.matches(PyExc_TypeError)) throw;
  } catch (const nb::cast_error&) {
    failType(value, def);
  }
  failType(value, def);
}

nb::object fromAttr(const ir::Attr& attr) {
  return std::visit(
      [](const auto& value) -> nb::object {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, DType>) {
          return nb::cast(std::string(nameOf(value)));
        } else if constexpr (std::is_same_v<T, ir::Graph*>) {
          return orNone(value);
        } else {
          return nb::cast(value);
        }
      },
      attr);
}

std::shared_ptr<ir::HostData> shareBuffer(nb::handle buffer) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(buffer.ptr(), view.get(), PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  auto data = std::make_shared<ir::HostData>();
  data->bytes = static_cast<std::byte*>(view->buf);
  data->size = view->len;
  data->writable = view->readonly == 0;
  data->owner = std::shared_ptr<void>(view.release(), [](void* held) {
    // At the end of the process the interpreter may be gone; its memory goes with it.
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire gil;
    auto* buffer = static_cast<Py_buffer*>(held);
    PyBuffer_Release(buffer);
    delete buffer;
  });
  return data;
}

nb::object viewBytes(std::shared_ptr<ir::HostData> data) {
  const auto size = static_cast<size_t>(data->size);
  auto* bytes = reinterpret_cast<uint8_t*>(data->bytes);
  const bool writable = data->writable;
  auto* held = new std::shared_ptr<ir::HostData>(std::move(data));
  const nb::capsule owner(held,
                          [](void* p) noexcept { delete static_cast<std::shared_ptr<ir::HostData>*>(p); });
  if (writable) return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(bytes, {size}, owner));
  return nb::cast(nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(bytes, {size}, owner));
}

}  // namespace popxl::bindings
