#pragma once

#include <cstdint>

namespace popxl::kernels::simd {

inline constexpr int64_t kThinRows = 4;
/// Columns of C that thinRows works on at a time, so that they stay in the first-level cache.
inline constexpr int64_t kThinColumns = 4096;

/// C [m, n] = A [m, k] x B [k, n], or C += with `accumulate`, on one thread, for m <= kThinRows; B is
/// streamed once without packing. Element (i, j) of A is at a[i * aRow + j * aCol]; rows of B and C are
/// dense. The sum runs over k in order.
void thinRows(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol, const float* b,
              int64_t bRow, float* c, int64_t cRow, bool accumulate);
/// The same with the rows of A and the columns of B dense: n dot products a row. C strides are free.
void thinDots(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, const float* b, int64_t bCol,
              float* c, int64_t cRow, int64_t cCol, bool accumulate);

/// n contiguous elements; floatToHalf rounds x * scale.
void halfToFloat(const uint16_t* from, float* to, int64_t n);
void floatToHalf(const float* from, float scale, uint16_t* to, int64_t n);

}  // namespace popxl::kernels::simd
