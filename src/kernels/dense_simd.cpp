#include "kernels/dense_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/half.h"
#include "kernels/gemm_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

/// Asks for what is read soon, into the second-level cache: the processor itself does not look beyond a page.
inline void prefetch(const float* p) { __builtin_prefetch(p, 0, 2); }

/// kRows rows of C by kDeep rows of B, which is read `ahead` elements before it is used: C is read and
/// written once for every kDeep rows that stream by.
template <int kRows, int kDeep>
HWY_ATTR void thinRowsStep(int64_t n, const float* a, int64_t aRow, int64_t aCol, const float* b,
                           int64_t bRow, int64_t ahead, float* c, int64_t cRow, bool first) {
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
      prefetch(b + p * bRow + j + ahead);
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
  constexpr int kDeep = 4;
  constexpr int64_t kColumns = kThinColumns;
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t width = n - j < kColumns ? n - j : kColumns;
    int64_t p = 0;
    for (; p + kDeep <= k; p += kDeep) {
      const int64_t ahead = p + 2 * kDeep <= k ? kDeep * bRow : 0;
      thinRowsStep<kRows, kDeep>(width, a + p * aCol, aRow, aCol, b + p * bRow + j, bRow, ahead, c + j, cRow,
                                 p == 0 && !accumulate);
    }
    for (; p < k; ++p) {
      thinRowsStep<kRows, 1>(width, a + p * aCol, aRow, aCol, b + p * bRow + j, bRow, 0, c + j, cRow,
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

/// kRows x kCols dot products of length k; B is read `ahead` elements before it is used.
template <int kRows, int kCols>
HWY_ATTR void dots(int64_t k, const float* a, int64_t aRow, const float* b, int64_t bCol, int64_t ahead,
                   float* c, int64_t cRow, int64_t cCol, bool accumulate) {
  using L = Lanes<float>;
  typename L::V sum[kRows][kCols];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) sum[i][j] = L::set(0);
  }
  int64_t p = 0;
  for (; p + L::kCount <= k; p += L::kCount) {
    typename L::V y[kCols];
    for (int j = 0; j < kCols; ++j) {
      prefetch(b + j * bCol + p + ahead);
      y[j] = L::load(b + j * bCol + p);
    }
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
  constexpr int kCols = kRows == 1 ? 2 : 4;  // two streams from memory are faster than four
  int64_t j = 0;
  for (; j + kCols <= n; j += kCols) {
    const int64_t ahead = j + 2 * kCols <= n ? kCols * bCol : 0;
    dots<kRows, kCols>(k, a, aRow, b + j * bCol, bCol, ahead, c + j * cCol, cRow, cCol, accumulate);
  }
  for (; j < n; ++j) dots<kRows, 1>(k, a, aRow, b + j * bCol, bCol, 0, c + j * cCol, cRow, cCol, accumulate);
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

HWY_EXPORT(thinRowsImpl);
HWY_EXPORT(thinDotsImpl);
HWY_EXPORT(halfToFloatImpl);
HWY_EXPORT(floatToHalfImpl);

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
