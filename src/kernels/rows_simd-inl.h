// Included once per instruction set: tails, reductions and exp for rows_simd.cpp.

#if defined(POPXL_KERNELS_ROWS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POPXL_KERNELS_ROWS_SIMD_INL_H_
#undef POPXL_KERNELS_ROWS_SIMD_INL_H_
#else
#define POPXL_KERNELS_ROWS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whether masked loads and stores touch no memory behind a false mask element.
#undef POPXL_MASKED_MEMORY
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_SVE || HWY_TARGET == HWY_SVE2
#define POPXL_MASKED_MEMORY 1
#else
#define POPXL_MASKED_MEMORY 0
#endif

/// The first `left` elements at p (all lanes when left is not less), `pad` in the others; touches nothing
/// beyond.
template <class D, class V>
HWY_INLINE V loadTail(D d, const hn::TFromD<D>* p, int64_t left, V pad) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (left >= lanes) return hn::LoadU(d, p);
#if !POPXL_MASKED_MEMORY
  HWY_ALIGN hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(pad, d, buffer);
  for (int64_t i = 0; i < left; ++i) buffer[i] = p[i];
  return hn::Load(d, buffer);
#else
  const auto mask = hn::FirstN(d, static_cast<size_t>(left));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), pad);
#endif
}

template <class D, class V>
HWY_INLINE void storeTail(V v, D d, hn::TFromD<D>* p, int64_t left) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (left >= lanes) {
    hn::StoreU(v, d, p);
    return;
  }
#if !POPXL_MASKED_MEMORY
  HWY_ALIGN hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(v, d, buffer);
  for (int64_t i = 0; i < left; ++i) p[i] = buffer[i];
#else
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(left)), d, p);
#endif
}

/// v with lanes from `left` on zeroed.
template <class D, class V>
HWY_INLINE V keepFirst(D d, V v, int64_t left) {
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(left)), v);
}

/// out[i...] = fn(load) for all of [0, n); `load(p)` gives the lanes of p at the current position.
template <typename C, class Fn>
HWY_INLINE void map(int64_t n, C* out, const Fn& fn) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(fn([&](const C* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, out + i);
  }
  if (i < n) {
    const int64_t left = n - i;
    const auto zero = hn::Zero(d);
    storeTail(fn([&](const C* p) HWY_ATTR { return loadTail(d, p + i, left, zero); }), d, out + i, left);
  }
}

/// Sum over [0, n): four running vectors, each folded as acc = fn(load, acc). Lanes beyond n load `pad`, for
/// which fn must leave acc alone.
template <typename C, class Fn>
HWY_INLINE C reduceSumPadded(int64_t n, C pad, const Fn& fn) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = fn([&](const C* p) HWY_ATTR { return hn::LoadU(d, p + i); }, a);
    b = fn([&](const C* p) HWY_ATTR { return hn::LoadU(d, p + i + lanes); }, b);
    c = fn([&](const C* p) HWY_ATTR { return hn::LoadU(d, p + i + 2 * lanes); }, c);
    e = fn([&](const C* p) HWY_ATTR { return hn::LoadU(d, p + i + 3 * lanes); }, e);
  }
  const auto padding = hn::Set(d, pad);
  for (; i < n; i += lanes) {
    const int64_t left = n - i;
    a = fn([&](const C* p) HWY_ATTR { return loadTail(d, p + i, left, padding); }, a);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

template <typename C, class Fn>
HWY_INLINE C reduceSum(int64_t n, const Fn& fn) {
  return reduceSumPadded<C>(n, C{0}, fn);
}

/// 1 / 12! ... 1 / 2!
inline constexpr double kInverseFactorials[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                                1.0 / 40320,     1.0 / 5040,     1.0 / 720,     1.0 / 120,
                                                1.0 / 24,        1.0 / 6,        1.0 / 2};

/// exp(x) for x <= 0 (or NaN, which stays NaN) with at most 2 units in the last place of error; results below
/// the smallest normal number are 0. x = n ln2 + r with |r| <= ln2 / 2, exp(r) by a polynomial. Adding
/// 1.5 * 2^(mantissa bits) rounds to an integer and leaves it in the lowest bits, the exponent of 2^n with
/// the exponent's bias: cheaper than rounding and converting.
template <class D>
HWY_INLINE hn::Vec<D> expNonPositive(D d, hn::Vec<D> x) {
  using C = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  const auto k = [&](double v) HWY_ATTR { return hn::Set(d, static_cast<C>(v)); };
  constexpr bool kSingle = sizeof(C) == 4;
  constexpr int kMantissa = kSingle ? 23 : 52;
  const auto shift = k(kSingle ? 0x1.8p23 + 127 : 0x1.8p52 + 1023);
  const auto shifted = hn::MulAdd(x, k(1.44269504088896340736), shift);
  const auto n = hn::Sub(shifted, shift);
  const auto power = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(di, shifted)));
  if constexpr (kSingle) {
    const auto r = hn::NegMulAdd(n, k(-0.00021219444170128554), hn::NegMulAdd(n, k(0.693359375), x));
    auto p = hn::MulAdd(r, k(0.0013933733571320772), k(0.008363235741853714));
    p = hn::MulAdd(p, r, k(0.041666463017463684));
    p = hn::MulAdd(p, r, k(0.16666576266288757));
    p = hn::MulAdd(p, r, k(0.5));
    p = hn::MulAdd(p, hn::Mul(r, r), r);
    return hn::IfThenZeroElse(hn::Lt(x, k(-87.3365)), hn::MulAdd(p, power, power));
  } else {
    const auto r =
        hn::NegMulAdd(n, k(1.90821492927058770002e-10), hn::NegMulAdd(n, k(0.693147180369123816490), x));
    auto p = k(1.0 / 6227020800.0);
    for (const double c : kInverseFactorials) p = hn::MulAdd(p, r, k(c));
    p = hn::MulAdd(p, hn::Mul(r, r), r);
    return hn::IfThenZeroElse(hn::Lt(x, k(-708.39)), hn::MulAdd(p, power, power));
  }
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
