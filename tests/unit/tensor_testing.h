#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/shape.h"

// Tensors of any dtype and strides in guarded memory.

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

}  // namespace popxl::kernels::testing
