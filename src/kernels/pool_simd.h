#pragma once

#include <array>
#include <cstdint>

namespace popxl::kernels::simd {

enum class PoolPass : uint8_t { kMax, kAverage, kMaxGrad, kAverageGrad };

/// Sizes of a pooling over three spatial dimensions, outermost first; ones that a program does not have
/// are 1.
struct PoolSizes {
  std::array<int64_t, 3> in, out, kernel, stride, pad, dilation;
};

/// One channel of one sample, dense.
template <typename T>
struct PoolPlane {
  const T* x;       ///< input (kMax, kAverage, kMaxGrad)
  const T* y;       ///< output (kMaxGrad)
  const T* dy;      ///< its gradient (kMaxGrad, kAverageGrad)
  T* result;        ///< output, or input gradient
  T* row;           ///< scratch: one row of outputs
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
