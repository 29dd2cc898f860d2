#pragma once

#include <nanobind/nanobind.h>

namespace popxl::bindings {

/// An exception that asks the program to end, on its way through C++: nobody makes an Error of it.
struct EndOfProgram {
  nanobind::python_error raised;
};

/// What programs add to the op table.
void bindCustomOps(nanobind::module_& m);

}  // namespace popxl::bindings
