#pragma once

#include <cstddef>
#include <cstdint>

namespace popxl::kernels::simd {

/// Loops over contiguous elements of type C (float or double), of the best instruction set that the machine
/// has. Outputs may be inputs. Sums run in an order that depends on n and the instruction set alone.
template <typename C>
struct RowOps {
  /// Largest element, NaN ignored; -inf when n is 0.
  C (*max)(const C* x, int64_t n);
  C (*sum)(const C* x, int64_t n);
  C (*sumSquares)(const C* x, C mean, int64_t n);  ///< sum((x - mean)^2)
  C (*dot)(const C* a, const C* b, int64_t n);
  C (*expSum)(const C* x, C shift, int64_t n);  ///< sum(exp(x - shift)), x <= shift
  void (*softmax)(const C* x, C* y, int64_t n);
  void (*softmaxGrad)(const C* y, const C* dy, C dot, C* dx, int64_t n);     ///< y * (dy - dot)
  void (*logSoftmaxGrad)(const C* y, const C* dy, C sum, C* dx, int64_t n);  ///< dy - exp(y) * sum, y <= 0
  void (*add)(const C* x, C c, C* y, int64_t n);                             ///< x + c
  void (*scale)(const C* x, C factor, C* y, int64_t n);                      ///< x * factor
  void (*axpy)(C factor, const C* x, C* y, int64_t n);                       ///< y += factor * x
  void (*affine)(const C* x, C mean, C a, C b, C* y, int64_t n);             ///< (x - mean) * a + b
  /// (x - mean[i]) * a[i] + b[i]
  void (*affineVector)(const C* x, const C* mean, const C* a, const C* b, C* y, int64_t n);
  /// (x - mean) * inv * w[i] + b[i]
  void (*normalise)(const C* x, C mean, C inv, const C* w, const C* b, C* y, int64_t n);
  /// With h = (x - mean) * inv: dw[i] += dy * h, db[i] += dy; sums = {sum(dy * w), sum(dy * w * h)}.
  void (*normGradSums)(const C* x, const C* dy, const C* w, C mean, C inv, C* dw, C* db, C* sums, int64_t n);
  /// inv * (dy * w[i] - c1 - h * c2)
  void (*normGradInput)(const C* x, const C* dy, const C* w, C mean, C inv, C c1, C c2, C* dx, int64_t n);
  /// sums = {sum(dy), sum(dy * h)}
  void (*normGradChannel)(const C* x, const C* dy, C mean, C inv, C* sums, int64_t n);
  /// inv * (dy * w - c1 - h * c2)
  void (*normGradChannelInput)(const C* x, const C* dy, C w, C mean, C inv, C c1, C c2, C* dx, int64_t n);
};

template <typename C>
const RowOps<C>& rowOps();
template <>
const RowOps<float>& rowOps<float>();
template <>
const RowOps<double>& rowOps<double>();

/// Movement and conversion.
struct MoveOps {
  void (*halfToFloat)(const uint16_t* x, float* y, int64_t n);
  void (*floatToHalf)(const float* x, uint16_t* y, int64_t n);  ///< round to nearest even
  /// memcpy past the caches, for data that is not read again soon; other threads may read it after
  /// flushStream.
  void (*stream)(const std::byte* src, std::byte* dst, int64_t bytes);
  /// dst[c * dstStride + r] = src[r * srcStride + c] for r < rows, c < columns; strides in bytes, elements of
  /// `elementBytes` (1, 2, 4 or 8).
  void (*transpose)(const std::byte* src, int64_t srcStride, std::byte* dst, int64_t dstStride, int64_t rows,
                    int64_t columns, int64_t elementBytes);
};
const MoveOps& moveOps();
/// Ends what this thread has streamed. It waits for the memory, so once for many small pieces.
void flushStream();

}  // namespace popxl::kernels::simd
