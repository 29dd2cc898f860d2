#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "tensor_testing.h"

// Running a kernel with 1 and 2 threads on guarded tensors and comparing the results.

namespace popxl::kernels::testing {

/// Runs the kernel once on scratch full of rubbish.
inline void runOnce(const Kernel& kernel, const std::vector<TestTensor*>& tensors) {
  const int64_t bytes = kernel.scratchBytes();
  std::vector<std::byte> scratch(static_cast<size_t>(bytes + 192), std::byte{0xfe});
  std::byte* const aligned = scratch.data() + (128 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  std::vector<std::byte*> operands;
  for (TestTensor* tensor : tensors) operands.push_back(tensor->data());
  if (bytes > 0) operands.push_back(aligned);
  kernel.run(operands);
  for (const TestTensor* tensor : tensors) EXPECT_TRUE(tensor->guarded()) << kernel.describe();
  EXPECT_TRUE(std::all_of(aligned + bytes, scratch.data() + scratch.size(),
                          [](std::byte b) { return b == std::byte{0xfe}; }))
      << kernel.describe() << " wrote beyond its scratch memory";
  EXPECT_TRUE(std::all_of(scratch.data(), aligned, [](std::byte b) { return b == std::byte{0xfe}; }));
}

/// Runs with 2 threads and with 1 from the same start; every byte of every tensor must come out the same.
inline void run(const KernelPtr& kernel, const std::vector<TestTensor*>& tensors) {
  std::vector<std::vector<std::byte>> before, after;
  for (const TestTensor* tensor : tensors) before.push_back(tensor->memory());
  const int threads = threadCount();
  for (const int n : {2, 1}) {
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i]->restore(before[i]);
    setThreadCount(n);
    runOnce(*kernel, tensors);
    if (after.empty()) {
      for (const TestTensor* tensor : tensors) after.push_back(tensor->memory());
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(tensors[i]->memory() == after[i])
          << kernel->describe() << ", operand " << i << ", threads " << n;
    }
  }
  setThreadCount(threads);
}

/// Row-major, or (kind 1) dimensions in another order in memory, or (kind 2) with gaps, or (kind 3) some
/// reversed.
inline Layout makeLayout(DType dtype, Shape shape, int kind, std::mt19937& rng) {
  Layout layout(dtype, shape);
  if (kind == 0) return layout;
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), rng);
  int64_t step = kind == 2 ? 2 : 1;
  for (const size_t d : order) {
    layout.strides[d] = kind == 3 && rng() % 2 == 0 ? -step : step;
    step *= std::max<int64_t>(shape[d], 1) + (kind == 2 ? 1 : 0);
  }
  return layout;
}

/// |got - want| <= tolerance * max(1, |want|), NaN and infinities alike.
inline void expectNear(const TestTensor& got, const std::vector<double>& want, double tolerance,
                       const char* what) {
  ASSERT_EQ(got.size(), static_cast<int64_t>(want.size())) << what;
  int64_t bad = 0;
  for (int64_t i = 0; i < got.size() && bad < 5; ++i) {
    const double g = got.get(i), w = want[static_cast<size_t>(i)];
    if (std::isnan(w) ? std::isnan(g) : g == w || std::fabs(g - w) <= tolerance * std::max(1.0, std::fabs(w)))
      continue;
    ++bad;
    ADD_FAILURE() << what << "[" << i << "]: got " << g << ", want " << w << " ("
                  << nameOf(got.layout().dtype) << " " << toString(got.layout().shape) << ")";
  }
}

inline double toleranceOf(DType dtype) {
  return dtype == DType::kFloat16 ? 1.5e-3 : dtype == DType::kFloat32 ? 4e-6 : 1e-12;
}

inline constexpr std::array kFloats = {DType::kFloat16, DType::kFloat32, DType::kFloat64};

/// A generator whose seed a failing test shows.
struct Random {
  explicit Random(uint32_t s) : seed(s), rng(s), trace(__FILE__, __LINE__, "seed " + std::to_string(s)) {}
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  }
  Shape shape(int64_t minRank, int64_t maxRank, int64_t most) {
    Shape out(static_cast<size_t>(integer(minRank, maxRank)));
    for (int64_t& d : out) d = integer(1, most);
    return out;
  }
  uint32_t seed;
  std::mt19937 rng;
  ::testing::ScopedTrace trace;
};

/// Index arithmetic of the references: a shape around `axis`.
struct AxisView {
  AxisView(const Shape& shape, int64_t axis) {
    for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
      (d < axis ? outer : d == axis ? n : inner) *= shape[static_cast<size_t>(d)];
    }
  }
  int64_t at(int64_t o, int64_t i, int64_t k) const { return (o * n + i) * inner + k; }
  int64_t outer = 1, n = 1, inner = 1;
};

}  // namespace popxl::kernels::testing
