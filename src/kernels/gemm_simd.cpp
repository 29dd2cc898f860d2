#include "kernels/gemm_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <utility>

#include "kernels/gemm_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

/// Two vectors of every row, two of B and one of A fit 32 registers of AVX-512 and of Arm, or 16 of others.
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 14 : HWY_ARCH_X86 ? 6 : 12;

template <typename T>
constexpr int64_t kCols = 2 * Lanes<T>::kCount;

template <typename T>
constexpr int64_t kLhsStep = (kRows + Lanes<T>::kCount - 1) / Lanes<T>::kCount* Lanes<T>::kCount;

constexpr int64_t kAhead = 8;  // rows of B that are on their way to L1

/// Where panel p of `panels` begins, of m rows cut as evenly as can be.
HWY_INLINE int64_t panelBegin(int64_t m, int64_t panels, int64_t p) { return m * p / panels; }

/// A left operand whose element (i, k) is at data[i * row + k * col].
template <typename T>
struct Lhs {
  const T* data;
  int64_t row, col;
};

/// Heights of C from packed rows of B, kVectors wide and `bRow` apart.
template <typename T, int kHeight, int kVectors, bool kPacked>
HWY_ATTR void microKernel(int64_t depth, Lhs<T> a, const T* b, int64_t bRow, T* c, int64_t cRow, bool first) {
  using L = Lanes<T>;
  typename L::V sum[kHeight][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j)
      sum[i][j] = first ? L::set(T{0}) : L::load(c + i * cRow + j * L::kCount);
  }
  const int64_t aRow = kPacked ? 1 : a.row, aCol = kPacked ? kLhsStep<T> : a.col;
  for (int64_t p = 0; p < depth; ++p) {
    typename L::V y[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      y[j] = L::load(b + p * bRow + j * L::kCount);
      __builtin_prefetch(b + (p + kAhead) * bRow + j * L::kCount);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
      const auto x = L::set(a.data[i * aRow + p * aCol]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] = L::mulAdd(x, y[j], sum[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) L::store(sum[i][j], c + i * cRow + j * L::kCount);
  }
}

template <typename T>
using MicroKernel = void (*)(int64_t depth, Lhs<T> a, const T* b, int64_t bRow, T* c, int64_t cRow,
                             bool first);

template <typename T, int kVectors, bool kPacked, int... kHeights>
constexpr MicroKernel<T> pickHeight(int64_t height, std::integer_sequence<int, kHeights...>) {
  constexpr MicroKernel<T> kKernels[] = {microKernel<T, kHeights + 1, kVectors, kPacked>...};
  return kKernels[height - 1];
}

/// The kernel for a tile of C of this height, one or two vectors wide.
template <typename T, bool kPacked>
MicroKernel<T> kernelFor(int64_t height, int64_t width) {
  constexpr std::make_integer_sequence<int, kRows> kHeights;
  return width <= Lanes<T>::kCount ? pickHeight<T, 1, kPacked>(height, kHeights)
                                   : pickHeight<T, 2, kPacked>(height, kHeights);
}

/// One tile of C; a width that is no whole number of vectors goes through a buffer.
template <typename T, bool kPacked>
HWY_ATTR void tile(int64_t height, int64_t width, int64_t depth, Lhs<T> a, const T* b, int64_t bRow, T* c,
                   int64_t cRow, bool first) {
  const MicroKernel<T> kernel = kernelFor<T, kPacked>(height, width);
  if (width % Lanes<T>::kCount == 0) return kernel(depth, a, b, bRow, c, cRow, first);
  T buffer[kRows * kCols<T>] = {};
  if (!first) {
    for (int64_t i = 0; i < height; ++i) std::copy(c + i * cRow, c + i * cRow + width, buffer + i * kCols<T>);
  }
  kernel(depth, a, b, bRow, buffer, kCols<T>, first);
  for (int64_t i = 0; i < height; ++i) std::copy_n(buffer + i * kCols<T>, width, c + i * cRow);
}

/// The tile of C that comes next is on its way while this one is worked on.
template <typename T>
HWY_INLINE void prefetchTile(int64_t height, const T* c, int64_t cRow) {
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < kCols<T>; j += 64 / sizeof(T)) __builtin_prefetch(c + i * cRow + j, 1);
  }
}

/// A right operand whose rows are dense: as it lies, or packed with its panels one after the other.
template <typename T>
struct Rhs {
  const T* data;
  int64_t row;  ///< where it lies: between its rows
  bool packed;

  const T* at(int64_t k, int64_t j) const { return packed ? data + j * k : data + j; }
  int64_t step(int64_t width) const {
    return !packed ? row : width <= Lanes<T>::kCount ? Lanes<T>::kCount : kCols<T>;
  }
};

/// C from a left operand that is packed or not.
template <typename T, bool kPacked>
HWY_ATTR void multiplyPanels(int64_t m, int64_t n, int64_t k, Lhs<T> a, Rhs<T> b, T* c, int64_t cRow,
                             bool accumulate) {
  const int64_t panels = (m + kRows - 1) / kRows;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t i = panelBegin(m, panels, p), height = panelBegin(m, panels, p + 1) - i;
    const Lhs<T> left{a.data + (kPacked ? p * kLhsStep<T> * k : i * a.row), a.row, a.col};
    for (int64_t j = 0; j < n; j += kCols<T>) {
      const int64_t width = std::min(kCols<T>, n - j);
      if (j + 2 * kCols<T> <= n) prefetchTile(height, c + i * cRow + j + kCols<T>, cRow);
      tile<T, kPacked>(height, width, k, left, b.at(k, j), b.step(width), c + i * cRow + j, cRow,
                       !accumulate);
    }
  }
}

template <typename T>
HWY_ATTR void multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t aRow, int64_t aCol, const T* b,
                       T* c, int64_t cRow, bool accumulate) {
  if (aRow == 0 && aCol == 0)
    return multiplyPanels<T, true>(m, n, k, {a, 0, 0}, {b, 0, true}, c, cRow, accumulate);
  multiplyPanels<T, false>(m, n, k, {a, aRow, aCol}, {b, 0, true}, c, cRow, accumulate);
}

template <typename T>
void packLhs(int64_t m, int64_t k, const T* a, int64_t aRow, int64_t aCol, T* packed) {
  const int64_t panels = (m + kRows - 1) / kRows;
  packPanels(
      m, k, panels, a, aRow, aCol, packed, kLhsStep<T>, [=](int64_t p) { return panelBegin(m, panels, p); },
      [](int64_t) { return kLhsStep<T>; });
}

template <typename T>
void packRhs(int64_t k, int64_t n, const T* b, int64_t bRow, int64_t bCol, T* packed) {
  const int64_t panels = (n + kCols<T> - 1) / kCols<T>;
  const bool narrow = n - (panels - 1) * kCols<T> <= Lanes<T>::kCount;
  packPanels(
      n, k, panels, b, bCol, bRow, packed, kCols<T>, [=](int64_t p) { return std::min(n, p * kCols<T>); },
      [=](int64_t p) { return narrow && p + 1 == panels ? Lanes<T>::kCount : kCols<T>; });
}

/// Whether packing B pays: it is read once for every kRows rows of C, from L1 where it is small.
template <typename T>
constexpr bool packsRhs(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kInCache = 64 * 1024 / sizeof(T);
  return m > 5 * kRows && k * n > kInCache;
}

template <typename T>
HWY_ATTR void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t aRow, int64_t aCol, const T* b,
                   int64_t bRow, int64_t bCol, T* c, int64_t cRow, bool accumulate) {
  constexpr int64_t kWidth = 4 * kCols<T>;
  alignas(64) T packed[kGemmDepth * kWidth];
  const bool packs = bCol != 1 || packsRhs<T>(m, n, k);
  for (int64_t p = 0; p < k; p += kGemmDepth) {
    const int64_t depth = std::min(kGemmDepth, k - p);
    for (int64_t j = 0; j < n; j += kWidth) {
      const int64_t width = std::min(kWidth, n - j);
      Rhs<T> rhs{b + p * bRow + j, bRow, false};
      // A vector at the end of a row may not reach into memory behind the matrix.
      if (packs || width % Lanes<T>::kCount != 0) {
        packRhs(depth, width, b + p * bRow + j * bCol, bRow, bCol, packed);
        rhs = {packed, 0, true};
      }
      multiplyPanels<T, false>(m, width, depth, {a + p * aCol, aRow, aCol}, rhs, c + j, cRow,
                               accumulate || p > 0);
    }
  }
}

template <typename T>
const GemmOps<T>* makeTable() {
  static constexpr GemmOps<T> kTable = {kRows,   kCols<T>,   Lanes<T>::kCount, kLhsStep<T>,
                                        gemm<T>, packLhs<T>, packRhs<T>,       multiply<T>};
  return &kTable;
}

const GemmOps<float>* gemmFloat() { return makeTable<float>(); }
const GemmOps<double>* gemmDouble() { return makeTable<double>(); }
const GemmOps<uint32_t>* gemmUint32() { return makeTable<uint32_t>(); }
const GemmOps<uint64_t>* gemmUint64() { return makeTable<uint64_t>(); }

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(gemmFloat);
HWY_EXPORT(gemmDouble);
HWY_EXPORT(gemmUint32);
HWY_EXPORT(gemmUint64);

template <>
const GemmOps<float>& gemmOps<float>() {
  static const auto* const table = HWY_DYNAMIC_DISPATCH(gemmFloat)();
  return *table;
}
template <>
const GemmOps<double>& gemmOps<double>() {
  static const auto* const table = HWY_DYNAMIC_DISPATCH(gemmDouble)();
  return *table;
}
template <>
const GemmOps<uint32_t>& gemmOps<uint32_t>() {
  static const auto* const table = HWY_DYNAMIC_DISPATCH(gemmUint32)();
  return *table;
}
template <>
const GemmOps<uint64_t>& gemmOps<uint64_t>() {
  static const auto* const table = HWY_DYNAMIC_DISPATCH(gemmUint64)();
  return *table;
}

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
