#pragma once

#include <cstdint>

#include "kernels/gemm_simd.h"
#include "kernels/matmul_choice.h"

namespace popxl::kernels::dense {

/// While one lives, OpenMP parallel regions that this thread opens have one thread: oneDNN (an OpenMP build)
/// then runs in the caller and libgomp starts nothing. The caller's setting comes back afterwards.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

/// A matrix operand: element (i, j) at data[i * row + j * col].
template <typename T>
struct Operand {
  const T* data;
  int64_t row, col;
};

/// Whether the library reads a rows x cols operand with these strides.
bool isGemmOperand(int64_t rows, int64_t cols, int64_t row, int64_t col);

/// Whether one of a product's operands is so thin that the other is best read once, as it lies.
bool canStream(int64_t m, int64_t n, int64_t k, int64_t aRow, int64_t aCol, int64_t bRow, int64_t bCol,
               int64_t cRow);

/// C [m, n] = A [m, k] x B [k, n], or C += with `accumulate`, on the calling thread; rows of C are dense,
/// cRow apart. m, n and k are at least 1. `path` is kStreamed, kLibrary (both float only, where canStream and
/// isGemmOperand allow) or kDirect.
void gemm(MatmulPath path, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c,
          int64_t cRow, bool accumulate);

/// The same, by the path that choosePath gives.
void gemm(int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c, int64_t cRow,
          bool accumulate);

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t cRow, bool accumulate) {
  simd::gemmOps<T>().gemm(m, n, k, a.data, a.row, a.col, b.data, b.row, b.col, c, cRow, accumulate);
}

}  // namespace popxl::kernels::dense
