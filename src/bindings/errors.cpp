#include <nanobind/nanobind.h>

#include <exception>

#include "base/error.h"
#include "bindings/custom_ops.h"
#include "bindings/module.h"

namespace nb = nanobind;

namespace popxl::bindings {
namespace {

struct Exceptions {
  PyObject *graph, *device, *numeric, *internal;
};
Exceptions exceptions;

/// Makes popart.NAME, also found as _core.NAME.
PyObject* make(nb::module_& m, const char* name, PyObject* base, const char* doc) {
  const std::string full = std::string("popart.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (made == nullptr) throw nb::python_error();
  m.attr(name) = nb::borrow(made);
  return made;
}

PyObject* classOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kValue:
      return PyExc_ValueError;
    case ErrorKind::kType:
      return PyExc_TypeError;
    case ErrorKind::kIndex:
      return PyExc_IndexError;
    case ErrorKind::kKey:
      return PyExc_KeyError;
    case ErrorKind::kRuntime:
      return PyExc_RuntimeError;
    case ErrorKind::kNotImplemented:
      return PyExc_NotImplementedError;
    case ErrorKind::kGraph:
      return exceptions.graph;
    case ErrorKind::kDevice:
      return exceptions.device;
    case ErrorKind::kNumeric:
      return exceptions.numeric;
  }
  return PyExc_RuntimeError;
}

/// The Python exception from which an error was made, if there was one.
nb::object causeOf(const Error& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (const Error& inner) {
    return causeOf(inner);
  } catch (const nb::python_error& raised) {
    return nb::borrow(raised.value());
  } catch (...) {
    return nb::object();  // no exception of Python's
  }
  return nb::object();
}

/// Raises an error; the exception of the user's own from which it was made is its cause.
void raise(const Error& error) {
  PyErr_SetString(classOf(error.kind()), error.what());
  const nb::object cause = causeOf(error);
  if (!cause.is_valid()) return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetCause(value, cause.inc_ref().ptr());
  PyErr_Restore(type, value, traceback);
}

}  // namespace

void bindErrors(nb::module_& m) {
  PyObject* popart =
      make(m, "popart_exception", PyExc_Exception,
           "A graph that can't be right: found by shape inference, the ambiguity check or a transform.");
  PyObject* poplar = make(m, "poplar_exception", PyExc_Exception, "A mistake found while a program runs.");
  PyObject* poplarRuntime = make(m, "poplar_runtime_error", poplar, "A mistake found while a program runs.");
  exceptions.graph = popart;
  exceptions.device =
      make(m, "popart_runtime_error", popart, "A session or device in a state that forbids the call.");
  exceptions.internal = make(m, "popart_internal_exception", popart, "A mistake of the library itself.");
  exceptions.numeric = make(m, "poplar_application_runtime_error", poplarRuntime,
                            "A value that an op can't take, found while it runs.");
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    } catch (const InternalError& error) {
      PyErr_SetString(exceptions.internal, error.what());
    } catch (EndOfProgram& end) {
      end.raised.restore();
    }
  });
}

}  // namespace popxl::bindings
