#pragma once

#include "kernels/kernel.h"

namespace popxl::kernels {

/// Pooling over 1 to 3 spatial dimensions: input [N, C, D...], output [N, C, E...]. Ceil mode is already in
/// the output's shape: window positions outside the input count as padding. float16, float32, float64; max
/// also integers. Any strides.
struct PoolSpec {
  Layout input;
  Layout output;
  std::vector<int64_t> kernel;  ///< one per spatial dimension, as all that follow
  std::vector<int64_t> strides;
  std::vector<int64_t> padsBegin;
  std::vector<int64_t> padsEnd;
  std::vector<int64_t> dilations;
  bool average = false;  ///< mean over the positions inside the input (padding is not counted), else maximum
};

/// Operands: input, output. NaN wins a maximum; a window without any position inside the input gives the
/// lowest value of the type (max) or 0 (average).
KernelPtr makePool(const PoolSpec& spec);
/// Operands: x, y, dy, dx. The first position in row-major order of the window that equals y receives dy; dx
/// is the sum over windows. x and dx lie as `input`, y and dy as `output`.
KernelPtr makeMaxPoolGrad(const PoolSpec& spec);
/// The same where dy and dx lie otherwise than y and x.
KernelPtr makeMaxPoolGrad(const PoolSpec& spec, const Layout& dy, const Layout& dx);
/// Operands: x, y, from, out, all dense. out is what of `from`, which lies as x, is at the first position
/// that equals y; 0 where none does.
KernelPtr makeMaxPoolPick(const PoolSpec& spec);
/// Operands: dy, dx. Each position of a window receives dy / (number of positions inside the input).
KernelPtr makeAveragePoolGrad(const PoolSpec& spec);

}  // namespace popxl::kernels
