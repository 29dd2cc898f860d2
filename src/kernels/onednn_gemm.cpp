#include "kernels/onednn_gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "base/error.h"

namespace popxl::kernels::dense {
namespace {

/// The library's leading dimension of an operand with unit stride along rows or columns.
struct Leading {
  bool transposed;
  int64_t stride;
};

Leading leadingOf(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  if (col == 1 && (rows == 1 || row >= cols)) return {false, rows == 1 ? cols : row};
  if (row == 1 && (cols == 1 || col >= rows)) return {true, cols == 1 ? rows : col};
  if (rows == 1 && col >= 1) return {true, col};  // a column of the transposed matrix
  return {false, row};                            // cols == 1
}

}  // namespace

SingleThreaded::SingleThreaded() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SingleThreaded::~SingleThreaded() {
  if (before_ != 1) omp_set_num_threads(before_);
}

bool isGemmOperand(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  if (rows == 1) return col >= 1 || cols == 1;
  if (cols == 1) return row >= 1;
  return (col == 1 && row >= cols) || (row == 1 && col >= rows);
}

void gemm(int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c, int64_t cRow,
          bool accumulate) {
  const Leading left = leadingOf(m, k, a.row, a.col);
  const Leading right = leadingOf(k, n, b.row, b.col);
  if (m <= simd::kThinRows) {
    if (!right.transposed) {
      return simd::thinRows(m, n, k, a.data, a.row, a.col, b.data, right.stride, c, cRow, accumulate);
    }
    if (!left.transposed) {
      return simd::thinDots(m, n, k, a.data, left.stride, b.data, right.stride, c, cRow, 1, accumulate);
    }
  }
  if (n == 1 && (b.row == 1 || k == 1) && !left.transposed) {  // b's only column against the rows of A
    return simd::thinDots(1, m, k, b.data, k, a.data, left.stride, c, 1, cRow, accumulate);
  }
  if (n == 1 && left.transposed && cRow == 1) {
    return simd::thinRows(1, m, k, b.data, 0, b.row, a.data, left.stride, c, m, accumulate);
  }
  const SingleThreaded guard;
  const dnnl_status_t status =
      dnnl_sgemm(left.transposed ? 'T' : 'N', right.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data,
                 left.stride, b.data, right.stride, accumulate ? 1.0f : 0.0f, c, std::max(cRow, n));
  POPXL_ASSERT(status == dnnl_success, "sgemm {}x{}x{} lda {} ldb {}: {}", m, n, k, left.stride, right.stride,
               static_cast<int>(status));
}

}  // namespace popxl::kernels::dense
