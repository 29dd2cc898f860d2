#include "kernels/argreduce_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/argreduce_simd.cpp"
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <limits>

#include "kernels/rows_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

/// Of [begin, end), the first element of which `matches` is true; one of them must be.
template <typename C, class Matches>
HWY_INLINE int64_t findFirst(const C* x, int64_t begin, int64_t end, const Matches& matches) {
  const hn::ScalableTag<C> d;
  for (int64_t i = begin; i < end; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto found = matches(loadTail(d, x + i, end - i, hn::Zero(d)));
    if (const int64_t lane = hn::FindFirstTrue(d, found); lane >= 0) return i + lane;
  }
  return end - 1;
}

/// Blocks are searched for their extreme alone; only the one that has the best, and one with NaN, for where
/// it is.
template <typename C, bool kLargest>
int64_t firstExtremeOf(const C* x, int64_t n) {
  constexpr int64_t kBlock = 1024;
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr C kWorst = (kLargest ? -1 : 1) * std::numeric_limits<C>::infinity();
  const auto worst = hn::Set(d, kWorst);
  C best = kWorst;
  int64_t bestBlock = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    auto extreme = worst;
    auto isNan = hn::IsNaN(worst);
    for (int64_t i = begin; i < end; i += lanes) {
      const auto v = loadTail(d, x + i, end - i, worst);
      extreme = kLargest ? hn::Max(v, extreme) : hn::Min(v, extreme);
      isNan = hn::Or(isNan, hn::IsNaN(v));
    }
    if (!hn::AllFalse(d, isNan)) {
      return findFirst(x, begin, end, [](auto v) HWY_ATTR { return hn::IsNaN(v); });
    }
    const C found = hn::GetLane(kLargest ? hn::MaxOfLanes(d, extreme) : hn::MinOfLanes(d, extreme));
    if (kLargest ? found > best : found < best) {
      best = found;
      bestBlock = begin;
    }
  }
  const auto wanted = hn::Set(d, best);
  return findFirst(x, bestBlock, std::min(n, bestBlock + kBlock),
                   [&](auto v) HWY_ATTR { return hn::Eq(v, wanted); });
}

int64_t floatExtreme(const float* x, int64_t n, bool largest) {
  return largest ? firstExtremeOf<float, true>(x, n) : firstExtremeOf<float, false>(x, n);
}
int64_t doubleExtreme(const double* x, int64_t n, bool largest) {
  return largest ? firstExtremeOf<double, true>(x, n) : firstExtremeOf<double, false>(x, n);
}

int64_t countBelow(const int32_t* x, int64_t n, int32_t limit) {
  const hn::ScalableTag<int32_t> d;
  const auto wanted = hn::Set(d, limit), most = hn::Set(d, std::numeric_limits<int32_t>::max());
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t count = 0;
  for (int64_t begin = 0; begin < n; begin += lanes << 16) {
    auto below = hn::Zero(d);
    const int64_t end = std::min(n, begin + (lanes << 16));
    for (int64_t i = begin; i < end; i += lanes) {
      below = hn::Sub(below, hn::VecFromMask(d, hn::Lt(loadTail(d, x + i, end - i, most), wanted)));
    }
    count += hn::GetLane(hn::SumOfLanes(d, below));
  }
  return count;
}

/// Bit by bit, from the highest: with it the number is still not above the k-th.
int64_t nthOf(const int32_t* x, int64_t n, int64_t k) {
  uint32_t number = 0x80000000;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if (countBelow(x, n, static_cast<int32_t>(number + bit)) <= k) number += bit;
  }
  const auto wanted = static_cast<int32_t>(number);
  int64_t equal = k - countBelow(x, n, wanted);
  int64_t i = 0;
  while (x[i] != wanted || equal-- > 0) ++i;
  return i;
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(floatExtreme);
HWY_EXPORT(doubleExtreme);
HWY_EXPORT(nthOf);

template <>
int64_t firstExtreme<float>(const float* x, int64_t n, bool largest) {
  return HWY_DYNAMIC_DISPATCH(floatExtreme)(x, n, largest);
}
template <>
int64_t firstExtreme<double>(const double* x, int64_t n, bool largest) {
  return HWY_DYNAMIC_DISPATCH(doubleExtreme)(x, n, largest);
}

int64_t nthSmallest(const int32_t* x, int64_t n, int64_t k) { return HWY_DYNAMIC_DISPATCH(nthOf)(x, n, k); }

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
