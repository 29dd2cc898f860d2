#pragma once

#include <optional>

#include "kernels/dense_lanes.h"
#include "kernels/dense_pack.h"
#include "kernels/dense_simd.h"
#include "kernels/onednn_gemm.h"

// What the kernels of attention and its gradient share: matrices of heads wherever they lie.
namespace popxl::kernels::attention {

using dense::Matrix;
using dense::Operand;

/// One operand: a matrix for every head, at any strides.
struct HeadMatrix {
  DType dtype;
  int64_t rows, cols, row, col;
  Strides batch;  ///< over the leading dimensions of the result

  /// `layout` broadcasts to the leading dimensions `heads`.
  HeadMatrix(const Layout& layout, const Shape& heads);
  /// The matrix of one head, heads counted in row-major order.
  Matrix at(std::byte* base, const Shape& heads, int64_t head) const;
  int64_t size() const { return rows * cols; }
};

/// The operand with its last two dimensions broadcast to rows x cols.
HeadMatrix broadcastMatrix(const Layout& layout, const Shape& heads, int64_t rows, int64_t cols);

inline Matrix rowsOf(Matrix m, int64_t first, int64_t count) {
  m.data += first * m.rowStride * sizeOf(m.dtype);
  m.rows = count;
  return m;
}

template <typename C>
Operand<C> transposed(const Operand<C>& m) {
  return {m.data, m.col, m.row};
}

/// Whether products can read the matrix where it lies, packing it or not.
template <typename C>
bool readsInPlace(const HeadMatrix& m, bool packs) {
  if (!dense::isComputeType(m.dtype)) return false;
  if (m.row == 0 && m.col == 0) return false;  // these strides tell GemmOps::multiply of a packed operand
  return packs || dense::kComputeOf<C> != dense::Compute::kF32 ||
         dense::isGemmOperand(m.rows, m.cols, m.row, m.col);
}
/// Whether products can write it there.
template <typename C>
bool writesInPlace(const HeadMatrix& m) {
  return dense::isComputeType(m.dtype) && (m.col == 1 || m.cols == 1) && (m.row >= m.cols || m.rows == 1);
}

/// The matrix as an operand of a product: where it lies, or converted into `buffer` when there is one.
template <typename C>
Operand<C> read(const Matrix& m, C* buffer) {
  if (buffer == nullptr) return {reinterpret_cast<const C*>(m.data), m.rowStride, m.colStride};
  dense::load(m, buffer);
  return {buffer, m.cols, 1};
}

/// Where a product puts a matrix: its place in memory, or a buffer that `finish` converts from.
template <typename C>
struct Target {
  C* data;
  int64_t row;
};
template <typename C>
Target<C> target(const Matrix& m, C* buffer) {
  if (buffer == nullptr) return {reinterpret_cast<C*>(m.data), m.rowStride};
  return {buffer, m.cols};
}
template <typename C>
void finish(const Matrix& m, const C* buffer) {
  if (buffer != nullptr) dense::store(buffer, m.cols, C{1}, m);
}

/// The right operand of several products: packed once, or as it lies.
template <typename C>
struct Rhs {
  Operand<C> plain;
  const C* packed;
};
/// Packs B [k, n] into `buffer` when there is one.
template <typename C>
Rhs<C> packRhs(int64_t k, int64_t n, const Operand<C>& b, C* buffer) {
  if (buffer != nullptr) simd::gemmOps<C>().packRhs(k, n, b.data, b.row, b.col, buffer);
  return {b, buffer};
}

/// C [m, n] = or += A [m, k] x B [k, n]; sizes may be 0.
template <typename C>
void product(int64_t m, int64_t n, int64_t k, Operand<C> a, Rhs<C> b, Target<C> c, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k > 0 && b.packed != nullptr) {
    simd::gemmOps<C>().multiply(m, n, k, a.data, a.row, a.col, b.packed, c.data, c.row, accumulate);
  } else if (k > 0) {
    dense::gemm(m, n, k, a, b.plain, c.data, c.row, accumulate);
  } else if (!accumulate) {
    for (int64_t i = 0; i < m; ++i) std::fill_n(c.data + i * c.row, n, C{0});
  }
}

/// Memory of the carver, or null when nothing is needed.
template <typename C>
C* bufferOf(dense::Carver& carver, int64_t count) {
  return count == 0 ? nullptr : carver.take<C>(count);
}

/// row[j] = value where the row of bools is false.
template <typename C>
void fillMasked(const Matrix& keep, C value, C* row) {
  const auto* flags = reinterpret_cast<const uint8_t*>(keep.data);
  for (int64_t j = 0; j < keep.cols; ++j) {
    if (flags[j * keep.colStride] == 0) row[j] = value;
  }
}

/// Calls fn(C{}) with the type in which attention on this dtype computes.
template <typename Fn>
auto withFloatCompute(DType dtype, const Fn& fn) {
  return dtype == DType::kFloat64 ? fn(double{}) : fn(float{});
}

/// Rows of scores that are worked on at once, so that they and what they meet stay in the nearer caches.
int64_t blockRows(int64_t rows, int64_t columns, int64_t elementBytes);

}  // namespace popxl::kernels::attention
