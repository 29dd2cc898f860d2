#pragma once

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

// Over one axis of float16, float32 or float64 tensors. float16 computes in float32 and rounds once. An
// output may be the memory of an input of equal layout. A row of -inf only gives NaN, as exp(-inf + inf)
// says.

/// Operands: x, y. y = exp(x - max) / sum(exp(x - max)).
KernelPtr makeSoftmax(Layout x, Layout y, int64_t axis);
/// Operands: x, y. y = x - max - log(sum(exp(x - max))).
KernelPtr makeLogSoftmax(Layout x, Layout y, int64_t axis);
/// Operands: y (the softmax), dy, dx. dx = y * (dy - sum(y * dy)).
KernelPtr makeSoftmaxGrad(Layout y, Layout dy, Layout dx, int64_t axis);
/// Operands: y (the log-softmax), dy, dx. dx = dy - exp(y) * sum(dy).
KernelPtr makeLogSoftmaxGrad(Layout y, Layout dy, Layout dx, int64_t axis);
/// Operands: x, out. out has x's shape with 1 on `axis`. log(sum(exp(x))), computed around the maximum; a row
/// of -inf gives -inf, a row with +inf gives +inf.
KernelPtr makeLogSumExp(Layout x, Layout out, int64_t axis);

}  // namespace popxl::kernels
