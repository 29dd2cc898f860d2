#pragma once

#include <cstdint>

namespace popxl::kernels::simd {

/// The matrix product on one thread, for elements of T (float, double, uint32_t, uint64_t), of the best
/// instruction set that the machine has. Element (i, j) of a matrix is at data[i * row + j * col], strides
/// are free; rows of C are dense and cRow apart. Every element of C is one chain of fused multiply-adds in
/// the order of k, starting from 0 or, with `accumulate`, from C: its bits depend neither on how the product
/// is cut along m, n and k nor on what is packed.
template <typename T>
struct GemmOps {
  int64_t rows;     ///< of C that registers hold at once: height of a packed panel of the left operand
  int64_t cols;     ///< likewise width of a packed panel of the right operand
  int64_t lanes;    ///< elements of a vector: sizes of packed panels are multiples of it
  int64_t lhsStep;  ///< elements between the columns of a packed left panel

  /// C [m, n] = A [m, k] x B [k, n].
  void (*gemm)(int64_t m, int64_t n, int64_t k, const T* a, int64_t aRow, int64_t aCol, const T* b,
               int64_t bRow, int64_t bCol, T* c, int64_t cRow, bool accumulate);
  /// Packs A [m, k]: panels of up to `rows` rows as equal in height as can be, column by column.
  /// Writes lhsElements(m, k) elements.
  void (*packLhs)(int64_t m, int64_t k, const T* a, int64_t aRow, int64_t aCol, T* packed);
  /// Packs B [k, n]: panels of `cols` columns, row by row, the last as wide as the rest needs in vectors.
  /// Writes rhsElements(k, n) elements.
  void (*packRhs)(int64_t k, int64_t n, const T* b, int64_t bRow, int64_t bCol, T* packed);
  /// gemm on a packed right operand and a left one that is packed too (aRow and aCol 0) or lies anyhow.
  void (*multiply)(int64_t m, int64_t n, int64_t k, const T* a, int64_t aRow, int64_t aCol, const T* b, T* c,
                   int64_t cRow, bool accumulate);

  int64_t lhsElements(int64_t m, int64_t k) const { return (m + rows - 1) / rows * lhsStep * k; }
  int64_t rhsElements(int64_t k, int64_t n) const { return (n + lanes - 1) / lanes * lanes * k; }
};

template <typename T>
const GemmOps<T>& gemmOps();
template <>
const GemmOps<float>& gemmOps<float>();
template <>
const GemmOps<double>& gemmOps<double>();
template <>
const GemmOps<uint32_t>& gemmOps<uint32_t>();
template <>
const GemmOps<uint64_t>& gemmOps<uint64_t>();

/// Depth of the blocks in which long sums are worked on: a left panel then stays in L1.
inline constexpr int64_t kGemmDepth = 256;

}  // namespace popxl::kernels::simd
