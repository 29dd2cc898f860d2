#pragma once

#include <vector>

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

/// Operands: x, y. Cumulative sum along `axis` in order; float16 is added up in float32. With `exclusive` an
/// element is not part of its own sum; with `reverse` sums run from the end. Floats (but float8) and
/// integers. y may be x's memory.
KernelPtr makeCumSum(Layout x, Layout y, int64_t axis, bool exclusive = false, bool reverse = false);

/// Operands: x, counts. counts[i] = number of elements in [levels[i], levels[i + 1]), the last interval
/// closed; x is made absolute first on request. NaN falls nowhere. counts: levels.size() - 1 elements of
/// int32, uint32, int64 or float32.
KernelPtr makeHistogram(Layout x, Layout counts, std::vector<double> levels, bool absolute);

}  // namespace popxl::kernels
