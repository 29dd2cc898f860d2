#pragma once

#include <cstdint>

#include "kernels/dense_simd.h"

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

/// Whether gemm below reads a rows x cols operand with these strides fast.
bool isGemmOperand(int64_t rows, int64_t cols, int64_t row, int64_t col);

/// C [m, n] = A [m, k] x B [k, n], or C += with `accumulate`, on the calling thread; rows of C are dense,
/// cRow apart. The way it is computed follows from the sizes and strides alone. m, n and k are at least 1;
/// operands as isGemmOperand says (for types other than float any strides).
void gemm(int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c, int64_t cRow,
          bool accumulate);

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t cRow, bool accumulate) {
  simd::gemm(m, n, k, a.data, a.row, a.col, b.data, b.row, b.col, c, cRow, accumulate);
}

}  // namespace popxl::kernels::dense
