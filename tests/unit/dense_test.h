#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "base/half.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"

/// Tensors with memory, for tests of matmul, convolution and pooling against float64 loops.
namespace popxl::test {

struct Tensor {
  Layout layout;
  std::vector<std::byte> memory;

  std::byte* data() { return memory.data(); }
};

/// Strides of a permuted, gapped (and, for what is only read, perhaps broadcast) tensor, or the dense ones.
inline Layout randomLayout(std::mt19937& rng, DType dtype, const Shape& shape, bool isRead) {
  Layout layout(dtype, shape);
  if (rng() % 2 == 0) return layout;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), rng);
  int64_t step = rng() % 4 == 0 ? 2 : 1;
  for (size_t d : order) {
    layout.strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
    if (rng() % 4 == 0) step += 3;
    if (isRead && rng() % 8 == 0) layout.strides[d] = 0;
  }
  return layout;
}

inline int64_t spanOf(const Layout& l) {
  int64_t last = 0;
  for (size_t d = 0; d < l.shape.size(); ++d) last += std::max<int64_t>(l.shape[d] - 1, 0) * l.strides[d];
  return last + 1;
}

inline Tensor makeTensor(const Layout& layout, uint8_t fill = 0x55) {
  return {layout, std::vector<std::byte>(static_cast<size_t>(spanOf(layout) * sizeOf(layout.dtype)),
                                         std::byte{fill})};
}

inline int64_t offsetOf(const Layout& l, int64_t index) {
  int64_t offset = 0;
  for (size_t d = l.shape.size(); d-- > 0;) {
    offset += index % l.shape[d] * l.strides[d];
    index /= l.shape[d];
  }
  return offset;
}

template <typename T>
T readAs(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

/// Element `index` (row-major) as float64; integers through int64, exact where a float64 is.
inline double get(const Tensor& t, int64_t index) {
  const std::byte* p = t.memory.data() + offsetOf(t.layout, index) * sizeOf(t.layout.dtype);
  switch (t.layout.dtype) {
    case DType::kFloat8_143:
    case DType::kFloat8_152:
      return float8ToFloat(readAs<uint8_t>(p), t.layout.dtype);
    case DType::kFloat16:
      return halfToFloat(readAs<uint16_t>(p));
    case DType::kFloat32:
      return readAs<float>(p);
    default:
      return readAs<double>(p);
  }
}

/// Element `index` of an integer tensor, sign-extended to 64 bits.
inline uint64_t getInt(const Tensor& t, int64_t index) {
  const std::byte* p = t.memory.data() + offsetOf(t.layout, index) * sizeOf(t.layout.dtype);
  uint64_t bits = 0;
  const auto bytes = static_cast<size_t>(sizeOf(t.layout.dtype));
  std::memcpy(&bits, p, bytes);
  if (isSigned(t.layout.dtype) && bytes < 8 && (bits >> (8 * bytes - 1)) != 0)
    bits |= ~uint64_t{0} << (8 * bytes);
  return bits;
}

/// Truncates 64 wrapped bits to an integer dtype and extends them again, as getInt reads them.
inline uint64_t wrapTo(DType t, uint64_t bits) {
  const auto width = static_cast<unsigned>(8 * sizeOf(t));
  if (width == 64) return bits;
  bits &= (uint64_t{1} << width) - 1;
  if (isSigned(t) && (bits >> (width - 1)) != 0) bits |= ~uint64_t{0} << width;
  return bits;
}

/// Random values: floats in [-1, 1], integers of any bits.
inline void fillRandom(std::mt19937& rng, Tensor& t) {
  const int64_t size = sizeOf(t.layout.dtype);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < spanOf(t.layout); ++i) {
    std::byte* p = t.data() + i * size;
    if (isFloat8(t.layout.dtype)) {
      const uint8_t v = floatToFloat8(uniform(rng), t.layout.dtype, false);
      std::memcpy(p, &v, 1);
    } else if (t.layout.dtype == DType::kFloat16) {
      const uint16_t v = floatToHalf(uniform(rng));
      std::memcpy(p, &v, 2);
    } else if (t.layout.dtype == DType::kFloat32) {
      const float v = uniform(rng);
      std::memcpy(p, &v, 4);
    } else if (t.layout.dtype == DType::kFloat64) {
      const double v = uniform(rng);
      std::memcpy(p, &v, 8);
    } else {
      const uint64_t v = (uint64_t{rng()} << 32) | rng();
      std::memcpy(p, &v, static_cast<size_t>(size));
    }
  }
}

inline Tensor randomTensor(std::mt19937& rng, const Layout& layout) {
  Tensor t = makeTensor(layout);
  fillRandom(rng, t);
  return t;
}

/// Runs a kernel on tensors with fresh scratch full of NaN bits.
inline void runKernel(const kernels::Kernel& kernel, std::vector<std::byte*> operands) {
  const int64_t bytes = kernel.scratchBytes();
  std::vector<std::byte> memory(static_cast<size_t>(bytes) + 128, std::byte{0xff});
  if (bytes > 0) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    operands.push_back(memory.data() + (64 - address % 64) % 64);
  }
  kernel.run(operands);
  if (bytes > 0) {  // nothing is written past the end
    for (const std::byte* p = operands.back() + bytes; p < memory.data() + memory.size(); ++p) {
      ASSERT_EQ(*p, std::byte{0xff}) << kernel.describe();
    }
  }
}

/// Whether some element is read more than once: sums then have equal terms, whose rounding errors point one
/// way.
inline bool hasRepeats(const Layout& l) { return std::ranges::count(l.strides, 0) > 0; }

/// Tolerance of a sum of `terms` products that are at most 1, computed in `compute` and rounded to `out`.
inline double toleranceOf(const Layout& a, const Layout& b, DType out, int64_t terms, double value) {
  const double sum =
      4 + static_cast<double>(terms) * 0.2 + std::sqrt(static_cast<double>(terms)) * 2 + std::fabs(value) * 8;
  double bound = a.dtype == DType::kFloat64 ? sum * 1e-15 : sum * 3e-7;
  if (hasRepeats(a) || hasRepeats(b)) bound *= 20;
  if (out == DType::kFloat16) bound += std::fabs(value) * 4.9e-4 + 3e-8;
  return bound;
}

/// The same bytes with 1 and 2 threads, on a second run, and from two threads at once on different outputs.
inline void expectSameBits(const kernels::Kernel& kernel, const std::vector<std::byte*>& inputs,
                           const Tensor& expected) {
  const auto once = [&] {
    Tensor out = makeTensor(expected.layout);
    auto operands = inputs;
    operands.push_back(out.data());
    runKernel(kernel, operands);
    return out;
  };
  const int before = kernels::threadCount();
  for (int threads : {1, 2}) {
    kernels::setThreadCount(threads);
    ASSERT_EQ(once().memory, expected.memory) << kernel.describe() << " threads " << threads;
  }
  kernels::setThreadCount(before);
  Tensor other;
  std::thread second([&] { other = once(); });
  const Tensor mine = once();
  second.join();
  ASSERT_EQ(mine.memory, expected.memory) << kernel.describe();
  ASSERT_EQ(other.memory, expected.memory) << kernel.describe();
}

inline uint32_t testSeed() {
  const char* value = std::getenv("POPXL_TEST_SEED");
  const uint32_t seed = value != nullptr ? static_cast<uint32_t>(std::atoll(value)) : std::random_device{}();
  std::printf("seed %u (POPXL_TEST_SEED)\n", seed);
  return seed;
}

}  // namespace popxl::test
