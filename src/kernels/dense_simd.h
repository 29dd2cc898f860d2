#pragma once

#include <cstdint>

namespace popxl::kernels::simd {

/// C [m, n] = A [m, k] x B [k, n], or C += with `accumulate`, on one thread. Element (i, j) of A is at
/// a[i * aRow + j * aCol], of B likewise; rows of C are dense and cRow apart. The sum runs over k in order.
void gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol, const float* b,
          int64_t bRow, int64_t bCol, float* c, int64_t cRow, bool accumulate);
void gemm(int64_t m, int64_t n, int64_t k, const double* a, int64_t aRow, int64_t aCol, const double* b,
          int64_t bRow, int64_t bCol, double* c, int64_t cRow, bool accumulate);
void gemm(int64_t m, int64_t n, int64_t k, const uint32_t* a, int64_t aRow, int64_t aCol, const uint32_t* b,
          int64_t bRow, int64_t bCol, uint32_t* c, int64_t cRow, bool accumulate);
void gemm(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t aRow, int64_t aCol, const uint64_t* b,
          int64_t bRow, int64_t bCol, uint64_t* c, int64_t cRow, bool accumulate);

inline constexpr int64_t kThinRows = 4;

/// The same for m <= kThinRows, streaming B once without packing: rows of B dense.
void thinRows(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol, const float* b,
              int64_t bRow, float* c, int64_t cRow, bool accumulate);
/// For m <= kThinRows with the rows of A and the columns of B dense: n dot products a row. C strides are
/// free.
void thinDots(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, const float* b, int64_t bCol,
              float* c, int64_t cRow, int64_t cCol, bool accumulate);

/// n contiguous elements; floatToHalf rounds x * scale.
void halfToFloat(const uint16_t* from, float* to, int64_t n);
void floatToHalf(const float* from, float scale, uint16_t* to, int64_t n);

}  // namespace popxl::kernels::simd
