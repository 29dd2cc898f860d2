#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "ir/ir.h"

namespace popxl::bindings {

namespace nb = nanobind;

/// What Python holds of a part of an Ir: the part and a share in the Ir, so that it never dangles.
template <typename T>
struct Handle {
  std::shared_ptr<ir::Ir> ir;
  T* ptr = nullptr;

  T* operator->() const { return ptr; }
  T& operator*() const { return *ptr; }
  bool operator==(const Handle& other) const { return ptr == other.ptr; }
};
using TensorHandle = Handle<ir::Tensor>;
using GraphHandle = Handle<ir::Graph>;
using OpHandle = Handle<ir::Op>;

inline GraphHandle handle(ir::Graph& g) { return {g.ir().shared_from_this(), &g}; }
inline TensorHandle handle(ir::Tensor& t) { return {t.graph().ir().shared_from_this(), &t}; }
inline OpHandle handle(ir::Op& op) { return {op.graph().ir().shared_from_this(), &op}; }

/// Python object for a pointer that may be null (None).
template <typename T>
nb::object orNone(T* part) {
  return part == nullptr ? nb::none() : nb::cast(handle(*part));
}

template <typename T>
nb::list toList(const std::vector<T*>& parts) {
  nb::list out;
  for (T* part : parts) out.append(orNone(part));
  return out;
}

/// Equality and hash by identity of the part.
template <typename T>
void bindIdentity(nb::class_<Handle<T>>& cls) {
  cls.def("__eq__", [](const Handle<T>& a, nb::handle b) {
    return nb::isinstance<Handle<T>>(b) && a.ptr == nb::cast<const Handle<T>&>(b).ptr;
  });
  cls.def("__hash__", [](const Handle<T>& a) {
    return static_cast<nb::ssize_t>(reinterpret_cast<uintptr_t>(a.ptr) >> 4);
  });
}

}  // namespace popxl::bindings
