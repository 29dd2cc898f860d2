#include "kernels/onednn_gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/dense_simd.h"

namespace popxl::kernels::dense {
namespace {

/// The leading dimension of an operand with unit stride along rows or columns.
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

bool canStream(int64_t m, int64_t n, int64_t k, int64_t aRow, int64_t aCol, int64_t bRow, int64_t bCol,
               int64_t cRow) {
  if (!isGemmOperand(m, k, aRow, aCol) || !isGemmOperand(k, n, bRow, bCol)) return false;
  const bool left = leadingOf(m, k, aRow, aCol).transposed, right = leadingOf(k, n, bRow, bCol).transposed;
  if (m <= simd::kThinRows && (!left || !right)) return true;
  return n == 1 && (left ? cRow == 1 : bRow == 1 || k == 1);
}

namespace {

/// A product for which canStream holds, or some of the rows of one.
void stream(int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c, int64_t cRow,
            bool accumulate) {
  const Leading left = leadingOf(m, k, a.row, a.col), right = leadingOf(k, n, b.row, b.col);
  if (m <= simd::kThinRows && !right.transposed) {
    simd::thinRows(m, n, k, a.data, a.row, a.col, b.data, right.stride, c, cRow, accumulate);
  } else if (m <= simd::kThinRows && !left.transposed) {
    simd::thinDots(m, n, k, a.data, left.stride, b.data, right.stride, c, cRow, 1, accumulate);
  } else if (left.transposed) {
    simd::thinRows(1, m, k, b.data, 0, b.row, a.data, left.stride, c, m, accumulate);
  } else {  // b's only column against the rows of A
    simd::thinDots(1, m, k, b.data, k, a.data, left.stride, c, 1, cRow, accumulate);
  }
}

void library(int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c, int64_t cRow,
             bool accumulate) {
  const Leading left = leadingOf(m, k, a.row, a.col), right = leadingOf(k, n, b.row, b.col);
  const SingleThreaded guard;
  const dnnl_status_t status =
      dnnl_sgemm(left.transposed ? 'T' : 'N', right.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data,
                 left.stride, b.data, right.stride, accumulate ? 1.0f : 0.0f, c, std::max(cRow, n));
  POPXL_ASSERT(status == dnnl_success, "sgemm {}x{}x{} lda {} ldb {}: {}", m, n, k, left.stride, right.stride,
               static_cast<int>(status));
}

}  // namespace

void gemm(MatmulPath path, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c,
          int64_t cRow, bool accumulate) {
  switch (path) {
    case MatmulPath::kStreamed:
      return stream(m, n, k, a, b, c, cRow, accumulate);
    case MatmulPath::kLibrary:
      return library(m, n, k, a, b, c, cRow, accumulate);
    default:
      return simd::gemmOps<float>().gemm(m, n, k, a.data, a.row, a.col, b.data, b.row, b.col, c, cRow,
                                         accumulate);
  }
}

void gemm(int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c, int64_t cRow,
          bool accumulate) {
  const bool known = isGemmOperand(m, k, a.row, a.col) && isGemmOperand(k, n, b.row, b.col);
  const Product product{
      m,     n,    k, b.row, a.col == 1, b.row == 1, canStream(m, n, k, a.row, a.col, b.row, b.col, cRow),
      known, false};
  gemm(choosePath(product), m, n, k, a, b, c, cRow, accumulate);
}

}  // namespace popxl::kernels::dense
