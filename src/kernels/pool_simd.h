#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace popxl::kernels::simd {

enum class PoolPass : uint8_t { kMax, kAverage, kMaxGrad, kAverageGrad };

/// Columns [low, high) of the output for which one position of the window along the last dimension lies
/// inside the input: at input column i * stride + shift.
struct PoolSpan {
  int64_t low, high, shift;
};

/// Sizes of a pooling over three spatial dimensions, outermost first; ones that a program does not have
/// are 1.
struct PoolSizes {
  std::array<int64_t, 3> in, out, kernel, stride, pad, dilation;
  std::vector<PoolSpan> spans;  ///< one per window position along the last dimension
  bool tiles;  ///< along the last dimension every window lies in its own stride of the input, none left over
};

/// Sizes with the last two members filled in.
PoolSizes poolSizes(std::array<int64_t, 3> in, std::array<int64_t, 3> out, std::array<int64_t, 3> kernel,
                    std::array<int64_t, 3> stride, std::array<int64_t, 3> pad,
                    std::array<int64_t, 3> dilation);
/// Elements of PoolPlane::rows.
int64_t poolScratch(PoolPass pass, const PoolSizes& sizes);

/// One channel of one sample, dense.
template <typename T>
struct PoolPlane {
  const T* x;       ///< input (kMax, kAverage, kMaxGrad)
  const T* y;       ///< output (kMaxGrad)
  const T* dy;      ///< its gradient (kMaxGrad, kAverageGrad)
  T* result;        ///< output, or input gradient
  T* rows;          ///< scratch
  const T* counts;  ///< averages: positions of the window inside the input, along the last dimension
};

void pool(PoolPass pass, const PoolSizes& sizes, const PoolPlane<float>& plane);
void pool(PoolPass pass, const PoolSizes& sizes, const PoolPlane<double>& plane);
/// Integers: kMax only.
void pool(PoolPass pass, const PoolSizes& sizes, const PoolPlane<int32_t>& plane);
void pool(PoolPass pass, const PoolSizes& sizes, const PoolPlane<uint32_t>& plane);
void pool(PoolPass pass, const PoolSizes& sizes, const PoolPlane<int64_t>& plane);
void pool(PoolPass pass, const PoolSizes& sizes, const PoolPlane<uint64_t>& plane);

}  // namespace popxl::kernels::simd
