#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/shape.h"
#include "hwy/targets.h"
#include "kernels/elementwise.h"
#include "kernels/parallel.h"

// Shared by the tests of elementwise kernels and reductions.

namespace popxl::kernels::testing {

/// Memory of a layout, with a margin on both sides that must stay as it is.
class Buffer {
 public:
  explicit Buffer(Layout layout) : layout_(std::move(layout)) {
    int64_t extent = layout_.numElements() == 0 ? 0 : 1;
    for (size_t i = 0; i < layout_.shape.size() && extent > 0; ++i) {
      extent += (layout_.shape[i] - 1) * layout_.strides[i];
    }
    bytes_.assign(static_cast<size_t>(extent * popxl::sizeOf(layout_.dtype)) + 2 * kMargin, std::byte{0xA5});
  }

  const Layout& layout() const { return layout_; }
  std::byte* data() { return bytes_.data() + kMargin; }
  size_t size() const { return bytes_.size() - 2 * kMargin; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  bool marginsIntact() const {
    for (size_t i = 0; i < kMargin; ++i) {
      if (bytes_[i] != std::byte{0xA5} || bytes_[bytes_.size() - 1 - i] != std::byte{0xA5}) return false;
    }
    return true;
  }
  bool operator==(const Buffer& other) const { return bytes_ == other.bytes_; }

 private:
  static constexpr size_t kMargin = 128;
  Layout layout_;
  std::vector<std::byte> bytes_;
};

/// One element as a double or, for 64-bit integers, as exactly as a double can.
inline double readElement(DType t, const std::byte* at) {
  const auto get = [at](auto zero) {
    std::memcpy(&zero, at, sizeof(zero));
    return zero;
  };
  switch (t) {
    case DType::kFloat8_143:
    case DType::kFloat8_152:
      return float8ToFloat(get(uint8_t{}), t);
    case DType::kFloat16:
      return halfToFloat(get(uint16_t{}));
    case DType::kFloat32:
      return get(float{});
    case DType::kFloat64:
      return get(double{});
    case DType::kInt8:
      return get(int8_t{});
    case DType::kInt16:
      return get(int16_t{});
    case DType::kInt32:
      return get(int32_t{});
    case DType::kInt64:
      return static_cast<double>(get(int64_t{}));
    case DType::kUInt8:
      return get(uint8_t{});
    case DType::kUInt16:
      return get(uint16_t{});
    case DType::kUInt32:
      return get(uint32_t{});
    case DType::kUInt64:
      return static_cast<double>(get(uint64_t{}));
    default:
      return get(uint8_t{}) != 0 ? 1 : 0;
  }
}

/// Random bytes, made tame: bools are 0 or 1, floats moderate numbers with some special values.
template <class Rng>
void fillRandom(Buffer& buffer, Rng& rng, bool specials = false) {
  const DType t = buffer.layout().dtype;
  const auto size = static_cast<size_t>(popxl::sizeOf(t));
  static constexpr float kSpecials[] = {0.0f,
                                        -0.0f,
                                        std::numeric_limits<float>::infinity(),
                                        -std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<float>::quiet_NaN(),
                                        1e-40f,
                                        -1.0f};
  std::normal_distribution<float> normal(0.0f, 2.0f);
  for (size_t i = 0; i + size <= buffer.size(); i += size) {
    const uint64_t bits = rng();
    float number = normal(rng);
    if (specials && bits % 16 == 0) number = kSpecials[bits / 16 % std::size(kSpecials)];
    std::byte* at = buffer.data() + i;
    if (t == DType::kFloat32) {
      std::memcpy(at, &number, 4);
    } else if (t == DType::kFloat64) {
      const double wide = number;
      std::memcpy(at, &wide, 8);
    } else if (t == DType::kFloat16) {
      const uint16_t half = floatToHalf(number);
      std::memcpy(at, &half, 2);
    } else if (t == DType::kBool) {
      *at = std::byte{static_cast<uint8_t>(bits & 1)};
    } else {
      std::memcpy(at, &bits, size);
    }
  }
}

/// Runs `body` with every SIMD target that this machine has.
template <class F>
void forEachTarget(const F& body) {
  const int64_t all = hwy::SupportedTargets();
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

inline void runKernel(const Kernel& kernel, std::vector<std::byte*> operands) {
  std::vector<std::byte> scratch(static_cast<size_t>(kernel.scratchBytes()) + 64);
  if (kernel.scratchBytes() > 0) {
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    operands.push_back(scratch.data() + (64 - address % 64) % 64);
  }
  kernel.run(operands);
}

}  // namespace popxl::kernels::testing
