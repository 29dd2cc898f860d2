#include "kernels/dense_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kVectorBytes = HWY_TARGET <= HWY_AVX3 ? 64 : HWY_TARGET <= HWY_AVX2 ? 32 : 16;

/// Integers by the compiler's vectors: Highway lacks some 64-bit products.
template <typename T>
struct Lanes {
  typedef T V __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
  static constexpr int64_t kCount = kVectorBytes / sizeof(T);
  static V load(const T* p) { return *reinterpret_cast<const V*>(p); }
  static void store(V v, T* p) { *reinterpret_cast<V*>(p) = v; }
  static V set(T x) { return V{} + x; }
  static V mulAdd(V a, V b, V c) { return a * b + c; }
};

template <typename T>
requires std::is_floating_point_v<T>
struct Lanes<T> {
  using D = hn::CappedTag<T, kVectorBytes / sizeof(T)>;
  using V = hn::Vec<D>;
  static constexpr int64_t kCount = kVectorBytes / sizeof(T);
  static V load(const T* p) { return hn::LoadU(D(), p); }
  static void store(V v, T* p) { hn::StoreU(v, D(), p); }
  static V set(T x) { return hn::Set(D(), x); }
  static V mulAdd(V a, V b, V c) { return hn::MulAdd(a, b, c); }
};

constexpr int64_t kDepth = 128;  // rows of a packed piece of B: with two vectors a row it stays in L1

/// kRows rows of C, two vectors wide, from a packed piece of B.
template <typename T, int kRows>
HWY_ATTR void microKernel(int64_t depth, const T* a, int64_t aRow, int64_t aCol, const T* packed, T* c,
                          int64_t cRow, bool first) {
  using L = Lanes<T>;
  typename L::V sum[kRows][2];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < 2; ++j) sum[i][j] = first ? L::set(T{0}) : L::load(c + i * cRow + j * L::kCount);
  }
  for (int64_t p = 0; p < depth; ++p) {
    const auto b0 = L::load(packed + p * 2 * L::kCount);
    const auto b1 = L::load(packed + p * 2 * L::kCount + L::kCount);
    for (int i = 0; i < kRows; ++i) {
      const auto x = L::set(a[i * aRow + p * aCol]);
      sum[i][0] = L::mulAdd(x, b0, sum[i][0]);
      sum[i][1] = L::mulAdd(x, b1, sum[i][1]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < 2; ++j) L::store(sum[i][j], c + i * cRow + j * L::kCount);
  }
}

template <typename T>
HWY_ATTR void packPiece(const T* b, int64_t bRow, int64_t bCol, int64_t depth, int64_t width, T* packed) {
  constexpr int64_t kWidth = 2 * Lanes<T>::kCount;
  for (int64_t p = 0; p < depth; ++p) {
    T* row = packed + p * kWidth;
    for (int64_t j = 0; j < width; ++j) row[j] = b[p * bRow + j * bCol];
    for (int64_t j = width; j < kWidth; ++j) row[j] = T{0};
  }
}

/// One row block against a packed piece; a narrow last column block goes through a buffer of full width.
template <typename T, int kRows>
HWY_ATTR void rowBlock(int64_t depth, int64_t width, const T* a, int64_t aRow, int64_t aCol, const T* packed,
                       T* c, int64_t cRow, bool first) {
  constexpr int64_t kWidth = 2 * Lanes<T>::kCount;
  if (width == kWidth) return microKernel<T, kRows>(depth, a, aRow, aCol, packed, c, cRow, first);
  T buffer[kRows * kWidth] = {};
  if (!first) {
    for (int i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < width; ++j) buffer[i * kWidth + j] = c[i * cRow + j];
    }
  }
  microKernel<T, kRows>(depth, a, aRow, aCol, packed, buffer, kWidth, first);
  for (int i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < width; ++j) c[i * cRow + j] = buffer[i * kWidth + j];
  }
}

template <typename T>
HWY_ATTR void gemmBlocks(int64_t m, int64_t n, int64_t k, const T* a, int64_t aRow, int64_t aCol, const T* b,
                         int64_t bRow, int64_t bCol, T* c, int64_t cRow, bool accumulate) {
  constexpr int64_t kWidth = 2 * Lanes<T>::kCount;
  alignas(64) T packed[kDepth * kWidth];
  for (int64_t j = 0; j < n; j += kWidth) {
    const int64_t width = n - j < kWidth ? n - j : kWidth;
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = k - p < kDepth ? k - p : kDepth;
      const bool first = p == 0 && !accumulate;
      packPiece(b + p * bRow + j * bCol, bRow, bCol, depth, width, packed);
      int64_t i = 0;
      for (; i + 4 <= m; i += 4) {
        rowBlock<T, 4>(depth, width, a + i * aRow + p * aCol, aRow, aCol, packed, c + i * cRow + j, cRow,
                       first);
      }
      for (; i < m; ++i) {
        rowBlock<T, 1>(depth, width, a + i * aRow + p * aCol, aRow, aCol, packed, c + i * cRow + j, cRow,
                       first);
      }
    }
  }
}

HWY_ATTR void gemmF32(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol,
                      const float* b, int64_t bRow, int64_t bCol, float* c, int64_t cRow, bool accumulate) {
  gemmBlocks(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}
HWY_ATTR void gemmF64(int64_t m, int64_t n, int64_t k, const double* a, int64_t aRow, int64_t aCol,
                      const double* b, int64_t bRow, int64_t bCol, double* c, int64_t cRow, bool accumulate) {
  gemmBlocks(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}
HWY_ATTR void gemmU32(int64_t m, int64_t n, int64_t k, const uint32_t* a, int64_t aRow, int64_t aCol,
                      const uint32_t* b, int64_t bRow, int64_t bCol, uint32_t* c, int64_t cRow,
                      bool accumulate) {
  gemmBlocks(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}
HWY_ATTR void gemmU64(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t aRow, int64_t aCol,
                      const uint64_t* b, int64_t bRow, int64_t bCol, uint64_t* c, int64_t cRow,
                      bool accumulate) {
  gemmBlocks(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}

/// kRows rows of C by kDeep rows of B: C is read and written once for every kDeep rows that stream by.
template <int kRows, int kDeep>
HWY_ATTR void thinRowsStep(int64_t n, const float* a, int64_t aRow, int64_t aCol, const float* b,
                           int64_t bRow, float* c, int64_t cRow, bool first) {
  using L = Lanes<float>;
  float x[kDeep][kRows];
  for (int p = 0; p < kDeep; ++p) {
    for (int i = 0; i < kRows; ++i) x[p][i] = a[i * aRow + p * aCol];
  }
  int64_t j = 0;
  for (; j + L::kCount <= n; j += L::kCount) {
    typename L::V sum[kRows];
    for (int i = 0; i < kRows; ++i) sum[i] = first ? L::set(0) : L::load(c + i * cRow + j);
    for (int p = 0; p < kDeep; ++p) {
      const auto y = L::load(b + p * bRow + j);
      for (int i = 0; i < kRows; ++i) sum[i] = L::mulAdd(L::set(x[p][i]), y, sum[i]);
    }
    for (int i = 0; i < kRows; ++i) L::store(sum[i], c + i * cRow + j);
  }
  for (; j < n; ++j) {
    for (int i = 0; i < kRows; ++i) {
      float sum = first ? 0 : c[i * cRow + j];
      for (int p = 0; p < kDeep; ++p) sum += x[p][i] * b[p * bRow + j];
      c[i * cRow + j] = sum;
    }
  }
}

template <int kRows>
HWY_ATTR void thinRowsOf(int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol, const float* b,
                         int64_t bRow, float* c, int64_t cRow, bool accumulate) {
  constexpr int kDeep = 8;
  constexpr int64_t kColumns = 2048;  // of C, so that it stays in L1
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t width = n - j < kColumns ? n - j : kColumns;
    int64_t p = 0;
    for (; p + kDeep <= k; p += kDeep) {
      thinRowsStep<kRows, kDeep>(width, a + p * aCol, aRow, aCol, b + p * bRow + j, bRow, c + j, cRow,
                                 p == 0 && !accumulate);
    }
    for (; p < k; ++p) {
      thinRowsStep<kRows, 1>(width, a + p * aCol, aRow, aCol, b + p * bRow + j, bRow, c + j, cRow,
                             p == 0 && !accumulate);
    }
  }
}

HWY_ATTR void thinRowsImpl(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol,
                           const float* b, int64_t bRow, float* c, int64_t cRow, bool accumulate) {
  switch (m) {
    case 1:
      return thinRowsOf<1>(n, k, a, aRow, aCol, b, bRow, c, cRow, accumulate);
    case 2:
      return thinRowsOf<2>(n, k, a, aRow, aCol, b, bRow, c, cRow, accumulate);
    case 3:
      return thinRowsOf<3>(n, k, a, aRow, aCol, b, bRow, c, cRow, accumulate);
    default:
      return thinRowsOf<4>(n, k, a, aRow, aCol, b, bRow, c, cRow, accumulate);
  }
}

/// kRows x kCols dot products of length k.
template <int kRows, int kCols>
HWY_ATTR void dots(int64_t k, const float* a, int64_t aRow, const float* b, int64_t bCol, float* c,
                   int64_t cRow, int64_t cCol, bool accumulate) {
  using L = Lanes<float>;
  typename L::V sum[kRows][kCols];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) sum[i][j] = L::set(0);
  }
  int64_t p = 0;
  for (; p + L::kCount <= k; p += L::kCount) {
    typename L::V y[kCols];
    for (int j = 0; j < kCols; ++j) y[j] = L::load(b + j * bCol + p);
    for (int i = 0; i < kRows; ++i) {
      const auto x = L::load(a + i * aRow + p);
      for (int j = 0; j < kCols; ++j) sum[i][j] = L::mulAdd(x, y[j], sum[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) {
      float total = hn::GetLane(hn::SumOfLanes(typename L::D(), sum[i][j]));
      for (int64_t q = p; q < k; ++q) total += a[i * aRow + q] * b[j * bCol + q];
      float* out = c + i * cRow + j * cCol;
      *out = accumulate ? *out + total : total;
    }
  }
}

template <int kRows>
HWY_ATTR void thinDotsOf(int64_t n, int64_t k, const float* a, int64_t aRow, const float* b, int64_t bCol,
                         float* c, int64_t cRow, int64_t cCol, bool accumulate) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    dots<kRows, 4>(k, a, aRow, b + j * bCol, bCol, c + j * cCol, cRow, cCol, accumulate);
  for (; j < n; ++j) dots<kRows, 1>(k, a, aRow, b + j * bCol, bCol, c + j * cCol, cRow, cCol, accumulate);
}

HWY_ATTR void thinDotsImpl(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, const float* b,
                           int64_t bCol, float* c, int64_t cRow, int64_t cCol, bool accumulate) {
  switch (m) {
    case 1:
      return thinDotsOf<1>(n, k, a, aRow, b, bCol, c, cRow, cCol, accumulate);
    case 2:
      return thinDotsOf<2>(n, k, a, aRow, b, bCol, c, cRow, cCol, accumulate);
    case 3:
      return thinDotsOf<3>(n, k, a, aRow, b, bCol, c, cRow, cCol, accumulate);
    default:
      return thinDotsOf<4>(n, k, a, aRow, b, bCol, c, cRow, cCol, accumulate);
  }
}

HWY_ATTR void halfToFloatImpl(const uint16_t* from, float* to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < n; ++i) to[i] = popxl::halfToFloat(from[i]);
}

HWY_ATTR void floatToHalfImpl(const float* from, float scale, uint16_t* to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  const __m256 factor = _mm256_set1_ps(scale);
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_mul_ps(_mm256_loadu_ps(from + i), factor);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; ++i) to[i] = popxl::floatToHalf(from[i] * scale);
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(gemmF32);
HWY_EXPORT(gemmF64);
HWY_EXPORT(gemmU32);
HWY_EXPORT(gemmU64);
HWY_EXPORT(thinRowsImpl);
HWY_EXPORT(thinDotsImpl);
HWY_EXPORT(halfToFloatImpl);
HWY_EXPORT(floatToHalfImpl);

void gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol, const float* b,
          int64_t bRow, int64_t bCol, float* c, int64_t cRow, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(gemmF32)(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}
void gemm(int64_t m, int64_t n, int64_t k, const double* a, int64_t aRow, int64_t aCol, const double* b,
          int64_t bRow, int64_t bCol, double* c, int64_t cRow, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(gemmF64)(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}
void gemm(int64_t m, int64_t n, int64_t k, const uint32_t* a, int64_t aRow, int64_t aCol, const uint32_t* b,
          int64_t bRow, int64_t bCol, uint32_t* c, int64_t cRow, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(gemmU32)(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}
void gemm(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t aRow, int64_t aCol, const uint64_t* b,
          int64_t bRow, int64_t bCol, uint64_t* c, int64_t cRow, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(gemmU64)(m, n, k, a, aRow, aCol, b, bRow, bCol, c, cRow, accumulate);
}

void thinRows(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, int64_t aCol, const float* b,
              int64_t bRow, float* c, int64_t cRow, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(thinRowsImpl)(m, n, k, a, aRow, aCol, b, bRow, c, cRow, accumulate);
}
void thinDots(int64_t m, int64_t n, int64_t k, const float* a, int64_t aRow, const float* b, int64_t bCol,
              float* c, int64_t cRow, int64_t cCol, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(thinDotsImpl)(m, n, k, a, aRow, b, bCol, c, cRow, cCol, accumulate);
}

void halfToFloat(const uint16_t* from, float* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(halfToFloatImpl)(from, to, n);
}
void floatToHalf(const float* from, float scale, uint16_t* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(floatToHalfImpl)(from, scale, to, n);
}

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
