// exp, log, tanh and erf of float32 vectors, for one SIMD target. Coefficients: minimax fits of our own.
// Other kernels may include this header too. Bounds hold for every float32, with or without FMA:
//   expF32 1.5 ulp, logF32 1.5 ulp, tanhF32 3 ulp, erfF32 2 ulp.
// Operations are called without a namespace, so that the JIT's vectors (jit_math.h) may take the place of
// Highway's.
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
// Where vectors are built-in types, their operations are not found by the arguments.
using namespace hwy::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

template <class D>
HWY_INLINE hn::RebindToSigned<D> signedTag(D) {
  return {};
}

/// ln 2 in two parts; the product of the first with an integer below 2^10 is exact.
inline constexpr float kLn2High = 0x1.62ep-1f;
inline constexpr float kLn2Low = 0x1.0bfbe8p-15f;
inline constexpr float kLog2E = 0x1.715476p+0f;

/// Added to a float whose size is below 2^22 it rounds that to an integer, which the lowest bits then hold.
inline constexpr float kRounder = 0x1.8p23f;

/// c[0] + c[1] x + ..., Horner.
template <class D, class V, size_t kCount>
HWY_INLINE V polynomial(D d, V x, const float (&c)[kCount]) {
  V sum = Set(d, c[kCount - 1]);
  for (size_t i = kCount - 1; i-- > 0;) sum = MulAdd(sum, x, Set(d, c[i]));
  return sum;
}

/// 2^k as a float, for integers -126 <= k <= 127 given by the lowest 9 bits of a vector of int32.
template <class D, class VI>
HWY_INLINE hn::Vec<D> powerOfTwo(D d, VI k) {
  const auto di = signedTag(d);
  return BitCast(d, ShiftLeft<23>(Add(k, Set(di, 127))));
}

/// x = k ln2 + r with |r| <= ln2 / 2, give or take rounding: writes k + the bits of kRounder, returns r.
template <class D, class V, class VI>
HWY_INLINE V reduceExp(D d, V x, VI& k) {
  const V shifted = MulAdd(x, Set(d, kLog2E), Set(d, kRounder));
  k = BitCast(signedTag(d), shifted);
  const V whole = Sub(shifted, Set(d, kRounder));
  const V rest = NegMulAdd(whole, Set(d, kLn2High), x);
  return NegMulAdd(whole, Set(d, kLn2Low), rest);
}

template <class D, class V>
HWY_INLINE V expF32(D d, V x) {
  static constexpr float kC[] = {0.49999994f, 0.1666652f, 0.041668408f, 0.008368921f, 0.0013814174f};
  const auto di = signedTag(d);
  hn::Vec<decltype(di)> k;
  // Outside these bounds the result is 0 or infinity; NaN takes some bound here and is put back at the end.
  const V bounded = Min(Max(x, Set(d, -104.0f)), Set(d, 89.0f));
  const V r = reduceExp(d, bounded, k);
  const V p = Add(MulAdd(Mul(r, r), polynomial(d, r, kC), r), Set(d, 1.0f));
  // Two factors, so that results round once into the denormal range and overflow to infinity.
  k = Sub(k, BitCast(di, Set(d, kRounder)));
  const auto half = ShiftRight<1>(k);
  const V scaled = Mul(Mul(p, powerOfTwo(d, half)), powerOfTwo(d, Sub(k, half)));
  return IfThenElse(IsNaN(x), x, scaled);
}

template <class D, class V>
HWY_INLINE V logF32(D d, V x) {
  static constexpr float kC[] = {0.33333331f, -0.2500082f,  0.20001227f, -0.16623357f,
                                 0.14201759f, -0.13160183f, 0.12761575f, -0.07634493f};
  const auto di = signedTag(d);
  const auto tiny = Lt(x, Set(d, 0x1p-126f));
  const V normal = IfThenElse(tiny, Mul(x, Set(d, 0x1p24f)), x);
  const auto bits = BitCast(di, normal);
  // Exponent such that the rest is in [sqrt(1/2), sqrt(2)).
  auto e = ShiftRight<23>(Sub(bits, Set(di, 0x3f3504f3)));
  const V m = BitCast(d, Sub(bits, ShiftLeft<23>(e)));
  e = Sub(e, IfThenElseZero(RebindMask(di, tiny), Set(di, 24)));
  const V whole = ConvertTo(d, e);
  const V f = Sub(m, Set(d, 1.0f));
  const V square = Mul(f, f);
  const V cubic = Mul(Mul(square, f), polynomial(d, f, kC));
  const V low = NegMulAdd(Set(d, 0.5f), square, MulAdd(whole, Set(d, kLn2Low), cubic));
  const V result = MulAdd(whole, Set(d, kLn2High), Add(f, low));
  const V infinity = Inf(d);
  const V special = IfThenElse(Eq(x, Zero(d)), Neg(infinity), IfThenElse(Eq(x, infinity), x, NaN(d)));
  const auto ordinary = And(Lt(Zero(d), x), Lt(x, infinity));
  return IfThenElse(ordinary, result, special);
}

/// tanh x = E / (E + 2) with E = exp(2|x|) - 1, which is small where x is: one path for every size.
template <class D, class V>
HWY_INLINE V tanhF32(D d, V x) {
  static constexpr float kC[] = {0.5f, 0.16666667f, 0.04166635f, 0.008333272f, 0.0013941311f, 0.00019914595f};
  const auto di = signedTag(d);
  hn::Vec<decltype(di)> k;
  const V size = Abs(x);
  // Beyond 10 the result rounds to 1.
  const V bounded = Min(Add(size, size), Set(d, 20.0f));
  const V r = reduceExp(d, bounded, k);
  const V p = MulAdd(Mul(r, r), polynomial(d, r, kC), r);
  const V scale = powerOfTwo(d, k);
  const V e = MulAdd(p, scale, Sub(scale, Set(d, 1.0f)));
  const V result = CopySign(Div(e, Add(e, Set(d, 2.0f))), x);
  return IfThenElse(IsNaN(x), x, result);
}

/// Below 0.9 an odd polynomial; above, 1 - 2^g with g = log2(erfc) as a polynomial.
template <class D, class V>
HWY_INLINE V erfF32(D d, V x) {
  static constexpr float kSmall[] = {0.12837915f,   -0.37612525f,  0.11282141f,
                                     -0.026778908f, 0.0050119627f, -0.00060903601f};
  static constexpr float kLarge[] = {-0.00024013249f, -1.6270674f,    -0.91896224f,  -0.1502043f,
                                     0.032194052f,    -0.0044225687f, 0.00028597063f};
  static constexpr float kPower[] = {0.693147f, 0.24022242f, 0.055507336f, 0.009671513f, 0.0013264727f};
  const auto di = signedTag(d);
  const V size = Abs(x), one = Set(d, 1.0f);
  const V square = Mul(size, size);
  const V small = MulAdd(size, polynomial(d, square, kSmall), size);
  // Beyond 4 the result rounds to 1.
  const V g = polynomial(d, Min(size, Set(d, 4.0f)), kLarge);
  const V shifted = Add(g, Set(d, kRounder));
  const V r = Sub(g, Sub(shifted, Set(d, kRounder)));
  const auto p = BitCast(di, MulAdd(r, polynomial(d, r, kPower), one));
  // From the exponent's place upwards: 2^g is a normal number.
  const V large = Sub(one, BitCast(d, Add(p, ShiftLeft<23>(BitCast(di, shifted)))));
  // NaN takes the polynomial, which keeps it.
  const V result = IfThenElse(Le(Set(d, 0.9f), size), large, small);
  return Or(result, And(SignBit(d), x));
}

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
