#pragma once

#include "ir/reference.h"

namespace popxl::ops {

/// The softmax of one line of x, in float64; `out` may be x.
void softmaxOfLine(const ir::Array& x, const ir::Line& line, ir::Array& out);

}  // namespace popxl::ops
