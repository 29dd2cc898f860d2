// Packing into panels for the matrix product; included once per instruction set.

#if defined(POPXL_GEMM_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef POPXL_GEMM_PANEL_INL_H
#undef POPXL_GEMM_PANEL_INL_H
#else
#define POPXL_GEMM_PANEL_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kVectorBytes = HWY_TARGET <= HWY_AVX3 ? 64 : HWY_TARGET <= HWY_AVX2 ? 32 : 16;
template <typename T>
constexpr size_t kLanes = HWY_TARGET == HWY_SCALAR ? 1 : kVectorBytes / sizeof(T);

/// Integers by the compiler's vectors: Highway lacks some 64-bit products.
template <typename T>
struct Lanes {
  static constexpr int64_t kCount = kLanes<T>;
  typedef T V __attribute__((vector_size(kCount * sizeof(T)), aligned(sizeof(T)), may_alias));
  static V load(const T* p) { return *reinterpret_cast<const V*>(p); }
  static void store(V v, T* p) { *reinterpret_cast<V*>(p) = v; }
  static V set(T x) { return V{} + x; }
  static V mulAdd(V a, V b, V c) { return a * b + c; }
};

template <typename T>
requires std::is_floating_point_v<T>
struct Lanes<T> {
  using D = hn::CappedTag<T, kLanes<T>>;
  using V = hn::Vec<D>;
  static constexpr int64_t kCount = kLanes<T>;
  static V load(const T* p) { return hn::LoadU(D(), p); }
  static void store(V v, T* p) { hn::StoreU(v, D(), p); }
  static V set(T x) { return hn::Set(D(), x); }
  static V mulAdd(V a, V b, V c) { return hn::MulAdd(a, b, c); }
};

#if HWY_TARGET != HWY_SCALAR

/// A vector whose block b (of four elements) is row[4 * b] at column k.
template <typename T>
HWY_INLINE auto loadBlocks(const T* const* row, int64_t k) {
  const hn::CappedTag<T, 4> block;
  if constexpr (kLanes<T> == 4) {
    return hn::LoadU(block, row[0] + k);
  } else {
    const hn::CappedTag<T, 8> two;
    const auto low = hn::Combine(two, hn::LoadU(block, row[4] + k), hn::LoadU(block, row[0] + k));
    if constexpr (kLanes<T> == 8) {
      return low;
    } else {
      const auto high = hn::Combine(two, hn::LoadU(block, row[12] + k), hn::LoadU(block, row[8] + k));
      return hn::Combine(hn::CappedTag<T, 16>(), high, low);
    }
  }
}

/// Four columns from k of as many rows as a vector has lanes, written as four vectors `step` apart.
template <typename T>
HWY_ATTR HWY_INLINE void transposeFour(const T* const* row, int64_t k, T* to, int64_t step) {
  const hn::CappedTag<T, kLanes<T>> d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<decltype(d)>> pairs;
  const auto a = loadBlocks(row, k), b = loadBlocks(row + 1, k), c = loadBlocks(row + 2, k),
             e = loadBlocks(row + 3, k);
  const auto ab0 = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             ab2 = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
             ce0 = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             ce2 = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab0, ce0)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab0, ce0)), d, to + step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab2, ce2)), d, to + 2 * step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab2, ce2)), d, to + 3 * step);
}

#endif

/// Packs `width` rows of `depth` dense elements each, `across` apart: element (i, k) to to[k * step + i].
/// Lanes beyond the width, up to whole vectors, repeat the last row.
template <typename T>
HWY_ATTR void packTransposed(int64_t width, int64_t depth, const T* from, int64_t across, T* to,
                             int64_t step) {
  constexpr int64_t kCount = Lanes<T>::kCount;
  for (int64_t i = 0; i < width; i += kCount) {
    const T* row[kCount];
    for (int64_t lane = 0; lane < kCount; ++lane) row[lane] = from + std::min(i + lane, width - 1) * across;
    int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) == 4) {
      for (; k + 4 <= depth; k += 4) transposeFour(row, k, to + k * step + i, step);
    }
#endif
    for (; k < depth; ++k) {
      for (int64_t lane = 0; lane < kCount; ++lane) to[k * step + i + lane] = row[lane][k];
    }
  }
}

/// `size` up to whole vectors: lanes that pad a panel hold zeros, as what lies in memory may be slow to add.
template <typename T>
constexpr int64_t padded(int64_t size) {
  return (size + Lanes<T>::kCount - 1) / Lanes<T>::kCount * Lanes<T>::kCount;
}

/// Copies whole vectors, kVectors a row.
template <typename T, int kVectors>
HWY_ATTR HWY_INLINE void copyRows(int64_t depth, const T* from, int64_t along, T* to, int64_t step) {
  using L = Lanes<T>;
  for (int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      L::store(L::load(from + k * along + v * L::kCount), to + k * step + v * L::kCount);
  }
}

/// Packs rows of a panel whose elements are dense, of `readable` elements that may be read.
template <typename T>
HWY_ATTR HWY_INLINE void packDense(int64_t width, int64_t readable, int64_t depth, const T* from,
                                   int64_t along, T* to, int64_t step) {
  using L = Lanes<T>;
  const int64_t whole = padded<T>(width);
  if (whole == 2 * L::kCount && whole <= readable) return copyRows<T, 2>(depth, from, along, to, step);
  if (whole == L::kCount && whole <= readable) return copyRows<T, 1>(depth, from, along, to, step);
  for (int64_t k = 0; k < depth; ++k) {
    int64_t i = 0;
    for (; i < width && i + L::kCount <= readable; i += L::kCount) {
      L::store(L::load(from + k * along + i), to + k * step + i);
    }
    for (; i < width; ++i) to[k * step + i] = from[k * along + i];
    for (; i < padded<T>(width); ++i) to[k * step + i] = T{0};
  }
}

template <typename T>
void packStrided(int64_t width, int64_t depth, const T* from, int64_t across, int64_t along, T* to,
                 int64_t step) {
  for (int64_t k = 0; k < depth; ++k) {
    int64_t i = 0;
    for (; i < width; ++i) to[k * step + i] = from[k * along + i * across];
    for (; i < padded<T>(width); ++i) to[k * step + i] = T{0};
  }
}

/// Packs a matrix of `size` lines, `across` apart, with `depth` elements `along` apart, into panels: panel p
/// takes the lines from begin(p) and lies at to + p * step * depth, its rows `stepOf(p)` apart.
template <typename T, typename Begin, typename Step>
HWY_ATTR void packPanels(int64_t size, int64_t depth, int64_t panels, const T* from, int64_t across,
                         int64_t along, T* to, int64_t step, const Begin& begin, const Step& stepOf) {
  if (across != 1) {
    for (int64_t p = 0; p < panels; ++p) {
      const T* lines = from + begin(p) * across;
      const int64_t width = begin(p + 1) - begin(p);
      T* panel = to + p * step * depth;
      if (along == 1) {
        packTransposed(width, depth, lines, across, panel, stepOf(p));
      } else {
        packStrided(width, depth, lines, across, along, panel, stepOf(p));
      }
    }
    return;
  }
  constexpr int64_t kRows = 8;  // of the source at a time: few streams, read along memory
  for (int64_t k = 0; k < depth; k += kRows) {
    const int64_t rows = std::min(kRows, depth - k);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t first = begin(p);
      packDense(begin(p + 1) - first, size - first, rows, from + k * along + first, along,
                to + p * step * depth + k * stepOf(p), stepOf(p));
    }
  }
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
