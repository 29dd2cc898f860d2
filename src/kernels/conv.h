#pragma once

#include "kernels/kernel.h"

namespace popxl::kernels {

/// Convolution (cross-correlation) with 1 to 3 spatial dimensions: input [N, C, D...], weights [O, C /
/// groups, K...], output [N, O, E...]. The window of output position e starts at input position e * stride -
/// padBegin. Layouts name the three tensors in every direction, so for a gradient `input` is dx or x and
/// `output` is dy. Any strides; what is written has distinct elements.
///
/// The two tensors read have one dtype: float16, float32, float64, an integer, or any pair of the two float8
/// types; the one written has the same, for float8 float16. float16 and float8 accumulate in float32 and
/// round once; integers wrap.
struct ConvSpec {
  Layout input;
  Layout weights;
  Layout output;
  std::vector<int64_t> strides;    ///< one per spatial dimension, as the next three
  std::vector<int64_t> padsBegin;  ///< may be negative: cropping
  std::vector<int64_t> padsEnd;
  std::vector<int64_t> dilations;
  int64_t groups = 1;
  bool scaled =
      false;  ///< float8: the result is multiplied by 2^s, s an int32 scalar operand before the result
};

/// Operands: input, weights, [log2 of the scale], output.
KernelPtr makeConv(const ConvSpec& spec);
/// Operands: output gradient, weights, [log2 of the scale], input gradient. Also a transposed convolution.
KernelPtr makeConvGradInput(const ConvSpec& spec);
/// Operands: input, output gradient, weights gradient.
KernelPtr makeConvGradWeight(const ConvSpec& spec);

}  // namespace popxl::kernels
