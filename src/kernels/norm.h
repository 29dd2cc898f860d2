#pragma once

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

/// Group normalisation of x: [N, C, ...] in `groups` groups of C / groups neighbouring channels; layer
/// normalisation is groups = 1 on [rows, C]. weight, bias: [C]. mean, invStd: N * groups elements, row by
/// row. x, y and their gradients have one dtype, the parameters one (float16, float32 or float64 each), mean
/// and invStd one. float16 computes in float32; the variance is the mean of squared distances from the mean
/// (two passes).
struct GroupNormSpec {
  Layout x;
  Layout weight;  ///< also the layout of bias
  Layout mean;    ///< also the layout of invStd
  int64_t groups = 1;
  double eps = 1e-5;
};

/// Operands: x, weight, bias, y, mean, invStd. y has x's shape and dtype. invStd = 1 / sqrt(variance + eps).
KernelPtr makeGroupNorm(GroupNormSpec spec, const Layout& y);
/// Operands: x, weight, mean, invStd, dy, dx, dweight, dbias.
KernelPtr makeGroupNormGrad(GroupNormSpec spec, const Layout& dy, const Layout& dx);

/// Operands: x, scale, bias, mean, var, y. x, y: [N, C, ...]; the others [C], of one dtype.
/// y = (x - mean) / sqrt(var + eps) * scale + bias.
KernelPtr makeBatchNormInference(Layout x, Layout parameter, Layout y, double eps);

}  // namespace popxl::kernels
