#pragma once

#include <vector>

#include "kernel_testing.h"

// What the tests of elementwise kernels share.

namespace popxl::kernels::testing {

inline DType storageOf(VType t) {
  static constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32,
                                     DType::kUInt32,  DType::kInt64,   DType::kUInt64};
  return kTypes[static_cast<size_t>(t)];
}

/// Spec of one primitive applied to contiguous vectors of n elements.
inline ElementwiseSpec specOf(Prim prim, VType type, int64_t n) {
  ElementwiseSpec spec;
  spec.space = {n};
  const int operands = arity(prim);
  std::vector<Val> values;
  for (int i = 0; i < operands; ++i) {
    const VType t = prim == Prim::kSelect && i == 0 ? VType::kU32 : type;
    spec.inputs.emplace_back(storageOf(t), Shape{n});
    values.push_back(input(spec.expr, i, t));
  }
  const Val result = operands == 1   ? unary(prim, values[0])
                     : operands == 2 ? binary(prim, values[0], values[1])
                                     : select(values[0], values[1], values[2]);
  spec.expr.outputs() = {result.id};
  spec.outputs = {Layout(storageOf(result.type()), {n})};
  return spec;
}

inline std::vector<std::byte*> pointers(std::vector<Buffer>& buffers) {
  std::vector<std::byte*> out;
  for (Buffer& b : buffers) out.push_back(b.data());
  return out;
}

inline std::vector<Buffer> buffersOf(const ElementwiseSpec& spec) {
  std::vector<Buffer> buffers;
  for (const Layout& l : spec.inputs) buffers.emplace_back(l);
  for (const Layout& l : spec.outputs) buffers.emplace_back(l);
  return buffers;
}

/// The kernel and the reference must agree in every bit.
inline void expectEqualBits(const ElementwiseSpec& spec, std::vector<Buffer>& buffers) {
  std::vector<std::byte*> operands = pointers(buffers);
  runKernel(*makeElementwise(spec), operands);
  for (size_t j = 0; j < spec.outputs.size(); ++j) {
    Buffer expected(spec.outputs[j]);
    std::vector<Buffer> others;
    std::vector<std::byte*> targets = operands;
    for (size_t k = 0; k < spec.outputs.size(); ++k) {
      others.emplace_back(spec.outputs[k]);
      targets[spec.inputs.size() + k] = others.back().data();
    }
    runElementwiseReference(spec, targets);
    ASSERT_TRUE(others[j] == buffers[spec.inputs.size() + j]) << "output " << j;
  }
}

/// Distance in units of the last place of float32 at `expected`; special values must agree.
inline double ulpDistance(float actual, double expected) {
  const auto rounded = static_cast<float>(expected);
  if (std::isnan(actual) || std::isnan(expected))
    return std::isnan(actual) && std::isnan(expected) ? 0 : 1e30;
  if (std::isinf(actual) || std::isinf(rounded)) {
    if (actual == rounded) return 0;
    // One side may round to the largest float.
    const float largest = std::numeric_limits<float>::max();
    return std::fabs(actual) >= largest && std::fabs(rounded) >= largest &&
                   std::signbit(actual) == std::signbit(rounded)
               ? 1
               : 1e30;
  }
  int exponent = 0;
  std::frexp(expected, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(actual) - expected) / unit;
}

}  // namespace popxl::kernels::testing
