#pragma once

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

// x has any dtype but complex and float8. Order is that of NumPy: NaN is above everything for ordering, and
// the first NaN is both the maximum and the minimum.

/// Operands: x, out. Index of the first largest (smallest) element on `axis`. out has x's shape with 1 on the
/// axis and an integer dtype of at least 32 bits.
KernelPtr makeArgMax(const Layout& x, const Layout& out, int64_t axis);
KernelPtr makeArgMin(const Layout& x, const Layout& out, int64_t axis);

/// Operands: x, values, indices. The k largest (smallest) of `axis`, best first, equal ones by index; k is
/// the size of values on the axis. indices has an integer dtype of at least 32 bits.
KernelPtr makeTopK(const Layout& x, const Layout& values, const Layout& indices, int64_t axis, bool largest);

/// Operands: x, values, indices. The lower median of `axis` (position (n - 1) / 2 of the stable ascending
/// order) and its index. values and indices have 1 on the axis.
KernelPtr makeMedian(Layout x, Layout values, const Layout& indices, int64_t axis);

}  // namespace popxl::kernels
