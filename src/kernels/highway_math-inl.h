// exp, log, tanh and erf of float32 vectors, for one SIMD target. Coefficients: minimax fits of our own.
// Other kernels may include this header too. Bounds hold for every float32, with or without FMA:
//   expF32 1.5 ulp, logF32 1.5 ulp, tanhF32 3 ulp, erfF32 2 ulp.
#if defined(POPXL_HIGHWAY_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POPXL_HIGHWAY_MATH_INL_H_
#undef POPXL_HIGHWAY_MATH_INL_H_
#else
#define POPXL_HIGHWAY_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// ln 2 in two parts; the product of the first with an integer below 2^10 is exact.
inline constexpr float kLn2High = 0x1.62ep-1f;
inline constexpr float kLn2Low = 0x1.0bfbe8p-15f;
inline constexpr float kLog2E = 0x1.715476p+0f;

/// c[0] + c[1] x + ..., Horner.
template <class D, class V, size_t kCount>
HWY_INLINE V polynomial(D d, V x, const float (&c)[kCount]) {
  V sum = hn::Set(d, c[kCount - 1]);
  for (size_t i = kCount - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

/// 2^k as a float, for integers -126 <= k <= 127 given as a vector of int32.
template <class D, class VI>
HWY_INLINE hn::Vec<D> powerOfTwo(D d, VI k) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(di, 127))));
}

/// x = k ln2 + r with |r| <= ln2 / 2: writes k, returns r.
template <class D, class V, class VI>
HWY_INLINE V reduceExp(D d, V x, VI& k) {
  const hn::RebindToSigned<D> di;
  const V whole = hn::Round(hn::Mul(x, hn::Set(d, kLog2E)));
  k = hn::ConvertTo(di, whole);
  const V rest = hn::NegMulAdd(whole, hn::Set(d, kLn2High), x);
  return hn::NegMulAdd(whole, hn::Set(d, kLn2Low), rest);
}

template <class D, class V>
HWY_INLINE V expF32(D d, V x) {
  static constexpr float kC[] = {0.49999994f, 0.1666652f, 0.041668408f, 0.008368921f, 0.0013814174f};
  const hn::RebindToSigned<D> di;
  hn::Vec<decltype(di)> k;
  // Outside these bounds the result is 0 or infinity; NaN takes some bound here and is put back at the end.
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));
  const V r = reduceExp(d, bounded, k);
  const V p = hn::Add(hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kC), r), hn::Set(d, 1.0f));
  // Two factors, so that results round once into the denormal range and overflow to infinity.
  const auto half = hn::ShiftRight<1>(k);
  const V scaled = hn::Mul(hn::Mul(p, powerOfTwo(d, half)), powerOfTwo(d, hn::Sub(k, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, scaled);
}

template <class D, class V>
HWY_INLINE V logF32(D d, V x) {
  static constexpr float kC[] = {0.33333331f, -0.2500082f,  0.20001227f, -0.16623357f,
                                 0.14201759f, -0.13160183f, 0.12761575f, -0.07634493f};
  const hn::RebindToSigned<D> di;
  const auto tiny = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p24f)), x);
  const auto bits = hn::BitCast(di, normal);
  // Exponent such that the rest is in [sqrt(1/2), sqrt(2)).
  auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e)));
  e = hn::Sub(e, hn::IfThenElseZero(hn::RebindMask(di, tiny), hn::Set(di, 24)));
  const V whole = hn::ConvertTo(d, e);
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  const V square = hn::Mul(f, f);
  const V cubic = hn::Mul(hn::Mul(square, f), polynomial(d, f, kC));
  const V low = hn::NegMulAdd(hn::Set(d, 0.5f), square, hn::MulAdd(whole, hn::Set(d, kLn2Low), cubic));
  const V result = hn::MulAdd(whole, hn::Set(d, kLn2High), hn::Add(f, low));
  const V infinity = hn::Inf(d);
  const V special = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity),
                                   hn::IfThenElse(hn::Eq(x, infinity), x, hn::NaN(d)));
  const auto ordinary = hn::And(hn::Lt(hn::Zero(d), x), hn::Lt(x, infinity));
  return hn::IfThenElse(ordinary, result, special);
}

/// tanh x = E / (E + 2) with E = exp(2|x|) - 1, which is small where x is: one path for every size.
template <class D, class V>
HWY_INLINE V tanhF32(D d, V x) {
  static constexpr float kC[] = {0.5f, 0.16666667f, 0.04166635f, 0.008333272f, 0.0013941311f, 0.00019914595f};
  const hn::RebindToSigned<D> di;
  hn::Vec<decltype(di)> k;
  const V size = hn::Abs(x);
  // Beyond 10 the result rounds to 1.
  const V bounded = hn::Min(hn::Add(size, size), hn::Set(d, 20.0f));
  const V r = reduceExp(d, bounded, k);
  const V p = hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kC), r);
  const V scale = powerOfTwo(d, k);
  const V e = hn::MulAdd(p, scale, hn::Sub(scale, hn::Set(d, 1.0f)));
  const V result = hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(d, 2.0f))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

/// Below 0.9 an odd polynomial; above, 1 - exp(-g) with g = -log(erfc) as a polynomial.
template <class D, class V>
HWY_INLINE V erfF32(D d, V x) {
  static constexpr float kSmall[] = {0.12837917f,  -0.37612635f,    0.11283715f,   -0.026860509f,
                                     0.005203859f, -0.00081756397f, 8.5131047e-05f};
  static constexpr float kLarge[] = {0.00016644716f, 1.1277972f,    0.63697606f,    0.10411368f,
                                     -0.022315215f,  0.0030654909f, -0.00019821973f};
  static constexpr float kC[] = {0.49999994f, 0.1666652f, 0.041668408f, 0.008368921f, 0.0013814174f};
  const hn::RebindToSigned<D> di;
  hn::Vec<decltype(di)> k;
  const V size = hn::Abs(x);
  const V square = hn::Mul(size, size);
  const V small = hn::MulAdd(size, polynomial(d, square, kSmall), size);
  // Beyond 4 the result rounds to 1.
  const V bounded = hn::Min(size, hn::Set(d, 4.0f));
  const V r = reduceExp(d, hn::Neg(polynomial(d, bounded, kLarge)), k);
  const V p = hn::Add(hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kC), r), hn::Set(d, 1.0f));
  const V large = hn::NegMulAdd(p, powerOfTwo(d, k), hn::Set(d, 1.0f));
  const V result = hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.9f)), small, large), x);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
