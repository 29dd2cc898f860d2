#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/half.h"
#include "base/shape.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"

// Tensors of any dtype and strides in guarded memory, and running a kernel on them with 1 and 2 threads.

namespace popxl::kernels::testing {

/// Calls fn with a null pointer of the C++ type that stores `dtype` (uint16_t stands for float16 as well).
template <typename Fn>
auto withType(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn(static_cast<float*>(nullptr));
    case DType::kFloat64:
      return fn(static_cast<double*>(nullptr));
    case DType::kInt8:
      return fn(static_cast<int8_t*>(nullptr));
    case DType::kInt16:
      return fn(static_cast<int16_t*>(nullptr));
    case DType::kInt32:
      return fn(static_cast<int32_t*>(nullptr));
    case DType::kInt64:
      return fn(static_cast<int64_t*>(nullptr));
    case DType::kUInt16:
    case DType::kFloat16:
      return fn(static_cast<uint16_t*>(nullptr));
    case DType::kUInt32:
      return fn(static_cast<uint32_t*>(nullptr));
    case DType::kUInt64:
      return fn(static_cast<uint64_t*>(nullptr));
    default:
      return fn(static_cast<uint8_t*>(nullptr));
  }
}

class TestTensor {
 public:
  TestTensor(Layout layout) : layout_(std::move(layout)) {  // NOLINT: implicit on purpose
    int64_t high = 0;
    for (size_t i = 0; i < layout_.shape.size(); ++i) {
      const int64_t reach = std::max<int64_t>(layout_.shape[i] - 1, 0) * layout_.strides[i];
      low_ = std::min(low_, low_ + reach);
      high = std::max(high, high + reach);
    }
    const int64_t size = (high - low_ + 1) * sizeOf(layout_.dtype);
    memory_.assign(static_cast<size_t>(size + 2 * kGuard), std::byte{0xcd});
  }

  const Layout& layout() const { return layout_; }
  int64_t size() const { return layout_.numElements(); }
  std::byte* data() { return memory_.data() + kGuard - low_ * sizeOf(layout_.dtype); }
  const std::byte* data() const { return memory_.data() + kGuard - low_ * sizeOf(layout_.dtype); }
  const std::vector<std::byte>& memory() const { return memory_; }

  /// Element offset of row-major position i.
  int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (size_t d = layout_.shape.size(); d-- > 0;) {
      at += i % layout_.shape[d] * layout_.strides[d];
      i /= layout_.shape[d];
    }
    return at;
  }
  double get(int64_t i) const {
    return withType(layout_.dtype, [&]<typename T>(T*) -> double {
      T value;
      std::memcpy(&value, data() + offset(i) * static_cast<int64_t>(sizeof(T)), sizeof(T));
      if constexpr (std::is_same_v<T, uint16_t>) {
        if (layout_.dtype == DType::kFloat16) return halfToFloat(value);
      }
      return static_cast<double>(value);
    });
  }
  void set(int64_t i, double number) {
    withType(layout_.dtype, [&]<typename T>(T*) {
      T value = std::is_integral_v<T> && !(std::fabs(number) < 1.8e19) ? T{} : static_cast<T>(number);
      if constexpr (std::is_same_v<T, uint16_t>) {
        if (layout_.dtype == DType::kFloat16) value = floatToHalf(static_cast<float>(number));
      }
      std::memcpy(data() + offset(i) * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    });
  }
  std::vector<double> values() const {
    std::vector<double> out(static_cast<size_t>(size()));
    for (int64_t i = 0; i < size(); ++i) out[static_cast<size_t>(i)] = get(i);
    return out;
  }
  void fill(const std::vector<double>& values) {
    for (int64_t i = 0; i < size(); ++i) set(i, values[static_cast<size_t>(i)]);
  }
  void fillUniform(std::mt19937& rng, double low, double high) {
    std::uniform_real_distribution<double> draw(low, high);
    for (int64_t i = 0; i < size(); ++i) set(i, draw(rng));
  }
  void fillIntegers(std::mt19937& rng, int64_t low, int64_t high) {
    std::uniform_int_distribution<int64_t> draw(low, high);
    for (int64_t i = 0; i < size(); ++i) set(i, static_cast<double>(draw(rng)));
  }
  /// The guard bytes around the memory are as they were made.
  bool guarded() const {
    const auto intact = [](std::byte b) { return b == std::byte{0xcd}; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, intact) &&
           std::all_of(memory_.end() - kGuard, memory_.end(), intact);
  }
  void restore(const std::vector<std::byte>& memory) { memory_ = memory; }

 private:
  static constexpr int64_t kGuard = 128;

  Layout layout_;
  int64_t low_ = 0;
  std::vector<std::byte> memory_;
};

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
