// Transcendental primitives. float32: vector code of our own (sin and cos 1 ulp; pow and mod through float64:
// 1 ulp); float64: libm.
#include "kernels/tile_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway_math.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include <algorithm>
#include <bit>
#include <cmath>

#include "hwy/foreach_target.h"
#include "kernels/highway_math-inl.h"
#include "kernels/highway_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {

#define POPXL_UNARY(name, function)     \
  struct name {                         \
    template <class D, class V>         \
    static HWY_INLINE V run(D d, V a) { \
      return function(d, a);            \
    }                                   \
  }
POPXL_UNARY(Exp, expF32);
POPXL_UNARY(Log, logF32);
POPXL_UNARY(Tanh, tanhF32);
POPXL_UNARY(Erf, erfF32);

#define POPXL_LIBM(name, arguments, expression)                 \
  struct name {                                                 \
    static HWY_INLINE auto run arguments { return expression; } \
  }
POPXL_LIBM(Exp64, (double a), std::exp(a));
POPXL_LIBM(Log64, (double a), std::log(a));
POPXL_LIBM(Tanh64, (double a), std::tanh(a));
POPXL_LIBM(Erf64, (double a), std::erf(a));
POPXL_LIBM(Sin64, (double a), std::sin(a));
POPXL_LIBM(Cos64, (double a), std::cos(a));
POPXL_LIBM(Mod64, (double a, double b), std::fmod(a, b));

bool sameBits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

/// Where neighbours are equal, as in a block that a scalar fills, the power is computed once: libm is slow.
void powTile64(const TileStep& s, const TileContext& tile) {
  const double* a = slot<double>(tile, s.a);
  const double* b = slot<double>(tile, s.b);
  double* out = slot<double>(tile, s.dst);
  for (int64_t i = 0; i < tile.n; i += kBlock, a += s.stepA, b += s.stepB) {
    double base = a[0], exponent = b[0], power = std::pow(base, exponent);
    for (int64_t j = 0; j < kBlock; ++j) {
      if (!sameBits(a[j], base) || !sameBits(b[j], exponent)) {
        base = a[j];
        exponent = b[j];
        power = std::pow(base, exponent);
      }
      out[i + j] = power;
    }
  }
}

using D64 = hn::CappedTag<double, 8>;
using D32 = hn::Rebind<float, D64>;
using V64 = hn::Vec<D64>;

template <size_t kCount>
HWY_INLINE V64 polynomial64(V64 x, const double (&c)[kCount]) {
  const D64 d;
  V64 sum = hn::Set(d, c[kCount - 1]);
  for (size_t i = kCount - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

/// sin(x) for quadrantOffset 0, cos(x) for 1, |x| <= kSineLimit: below 1 ulp of error, with or without FMA.
template <int kQuadrantOffset>
HWY_INLINE hn::Vec<hn::CappedTag<float, kBlock>> sineF32(hn::Vec<hn::CappedTag<float, kBlock>> x) {
  static constexpr float kSin[] = {-0.16666655f, 0.0083321566f, -0.00019514767f};
  static constexpr float kCos[] = {0.041666646f, -0.0013887312f, 2.4432570e-05f};
  const hn::CappedTag<float, kBlock> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto size = hn::Abs(x);
  const auto shifted = hn::MulAdd(size, hn::Set(d, 0x1.45f306p-1f), hn::Set(d, kRounder));
  const auto turns = hn::Sub(shifted, hn::Set(d, kRounder));
  // pi / 2 in four parts. The products of the first three with any such `turns` are exact, and so are the
  // first two differences; the last two go to r and what is left beyond its precision.
  const auto high =
      hn::NegMulAdd(turns, hn::Set(d, 0x1.fb4p-12f), hn::NegMulAdd(turns, hn::Set(d, 0x1.92p+0f), size));
  const auto middle = hn::NegMulAdd(turns, hn::Set(d, 0x1.444p-24f), high);
  const auto low = hn::NegMulAdd(turns, hn::Set(d, 0x1.68c234p-39f),
                                 hn::NegMulAdd(turns, hn::Set(d, 0x1.444p-24f), hn::Sub(high, middle)));
  const auto r = hn::Add(middle, low);
  const auto rest = hn::Add(hn::Sub(middle, r), low);
  const auto square = hn::Mul(r, r);
  const auto sine = hn::Add(r, hn::MulAdd(hn::Mul(r, square), polynomial(d, square, kSin), rest));
  const auto half = hn::Mul(square, hn::Set(d, 0.5f));
  const auto first = hn::Sub(hn::Set(d, 1.0f), half);
  const auto lost = hn::NegMulAdd(r, rest, hn::Sub(hn::Sub(hn::Set(d, 1.0f), first), half));
  const auto cosine = hn::Add(first, hn::MulAdd(hn::Mul(square, square), polynomial(d, square, kCos), lost));
  const auto quadrant = hn::Add(hn::BitCast(di, shifted), hn::Set(di, kQuadrantOffset));
  const auto odd = hn::TestBit(quadrant, hn::Set(di, 1));
  auto sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2))));
  if (kQuadrantOffset == 0) sign = hn::Xor(sign, hn::And(x, hn::SignBit(d)));
  return hn::Xor(hn::IfThenElse(hn::RebindMask(d, odd), cosine, sine), sign);
}

/// Arguments up to this go through vector code; larger ones, infinities and NaN through libm, which reduces
/// them exactly.
constexpr float kSineLimit = 6400;

template <int kQuadrantOffset>
void sineTile(const TileStep& s, const TileContext& tile) {
  const hn::CappedTag<float, kBlock> d;
  const float* a = slot<float>(tile, s.a);
  float* out = slot<float>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA) {
    bool all = true;
    for (size_t j = 0; j < kBlock; j += hn::Lanes(d)) {
      all = all && hn::AllTrue(d, hn::Le(hn::Abs(hn::LoadU(d, a + j)), hn::Set(d, kSineLimit)));
    }
    float values[kBlock];
    float* const to = all ? out + i : values;
    for (size_t j = 0; j < kBlock; j += hn::Lanes(d)) {
      hn::StoreU(sineF32<kQuadrantOffset>(hn::LoadU(d, a + j)), d, to + j);
    }
    if (all) continue;
    for (size_t j = 0; j < kBlock; ++j) {
      if (std::fabs(a[j]) <= kSineLimit) continue;
      values[j] = kQuadrantOffset == 0 ? std::sin(a[j]) : std::cos(a[j]);
    }
    std::copy(values, values + kBlock, out + i);
  }
}

/// log2 of a positive normal number, relative error below 2^-38.
HWY_INLINE V64 log2Positive(V64 x) {
  // log2(m) = s (c0 + c1 s^2 + ...), s = (m - 1) / (m + 1): the series of the inverse hyperbolic tangent.
  constexpr double kTwoLog2E = 0x1.71547652b82fep+1;
  static constexpr double kC[] = {kTwoLog2E,     kTwoLog2E / 3,  kTwoLog2E / 5,  kTwoLog2E / 7,
                                  kTwoLog2E / 9, kTwoLog2E / 11, kTwoLog2E / 13, kTwoLog2E / 15};
  const D64 d;
  const hn::RebindToSigned<D64> di;
  const hn::RebindToUnsigned<D64> du;
  const auto bits = hn::BitCast(di, x);
  // Doubles that come from floats are far from both ends of the exponent range: this stays positive, so that
  // the logical shift of unsigned numbers does.
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcd - 0x3ff0000000000000));
  const auto exponent = hn::ShiftRight<52>(hn::BitCast(du, shifted));
  const auto rest = hn::Sub(bits, hn::BitCast(di, hn::ShiftLeft<52>(hn::Sub(exponent, hn::Set(du, 1023)))));
  const V64 m = hn::BitCast(d, rest);
  // An integer below 2^52 to double: put it under the exponent of 2^52.
  const V64 magic = hn::BitCast(d, hn::Or(exponent, hn::Set(du, 0x4330000000000000)));
  const V64 whole = hn::Sub(magic, hn::Set(d, 0x1p52 + 1023));
  const V64 one = hn::Set(d, 1.0);
  const V64 quotient = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  return hn::MulAdd(quotient, polynomial64(hn::Mul(quotient, quotient), kC), whole);
}

/// 2^x for |x| <= 300, relative error below 2^-36.
HWY_INLINE V64 exp2Bounded(V64 x) {
  constexpr double kL = 0x1.62e42fefa39efp-1;
  static constexpr double kC[] = {1.0,
                                  kL,
                                  kL * kL / 2,
                                  kL * kL * kL / 6,
                                  kL * kL * kL * kL / 24,
                                  kL * kL * kL * kL * kL / 120,
                                  kL * kL * kL * kL * kL * kL / 720,
                                  kL * kL * kL * kL * kL * kL * kL / 5040,
                                  kL * kL * kL * kL * kL * kL * kL * kL / 40320,
                                  kL * kL * kL * kL * kL * kL * kL * kL * kL / 362880};
  const D64 d;
  const hn::RebindToUnsigned<D64> du;
  const V64 whole = hn::Round(x);
  const V64 p = polynomial64(hn::Sub(x, whole), kC);
  const auto biased = hn::BitCast(du, hn::Add(whole, hn::Set(d, 0x1p52 + 1023)));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<52>(biased)));
}

HWY_INLINE V64 powVector(V64 x, V64 y) {
  const D64 d;
  const V64 zero = hn::Zero(d), one = hn::Set(d, 1.0), infinity = hn::Inf(d);
  const V64 size = hn::Abs(x);
  const auto integer = hn::Eq(hn::Round(y), y);
  const V64 halfY = hn::Mul(y, hn::Set(d, 0.5));
  const auto odd =
      hn::And(integer, hn::And(hn::Not(hn::Eq(hn::Round(halfY), halfY)), hn::Lt(hn::Abs(y), infinity)));
  const auto ordinary = hn::And(hn::Lt(zero, size), hn::Lt(size, infinity));
  const V64 product = hn::Mul(y, log2Positive(hn::IfThenElse(ordinary, size, one)));
  // Rounding to float makes 0 or infinity of anything outside these bounds.
  const V64 exponent = hn::Min(hn::Max(product, hn::Set(d, -300.0)), hn::Set(d, 300.0));
  const V64 magnitude = exp2Bounded(exponent);
  // |x| is 0 or infinity: 0 or infinity by the sign of y.
  const auto grows = hn::Xor(hn::VecFromMask(d, hn::Lt(y, zero)), hn::VecFromMask(d, hn::Eq(size, infinity)));
  const V64 edge = hn::And(grows, infinity);
  V64 result = hn::IfThenElse(ordinary, magnitude, edge);
  result = hn::IfThenElse(odd, hn::CopySign(result, x), result);
  const auto undefined = hn::And(hn::And(hn::Lt(x, zero), ordinary), hn::Not(integer));
  result = hn::IfThenElse(undefined, hn::NaN(d), result);
  result = hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::Add(x, y), result);
  // 1 to any power, anything to the power 0, and -1 to an infinite power are 1.
  const auto infiniteY = hn::Eq(hn::Abs(y), infinity);
  const auto isOne = hn::Or(hn::Eq(x, one), hn::Or(hn::Eq(y, zero), hn::And(hn::Eq(size, one), infiniteY)));
  return hn::IfThenElse(isOne, one, result);
}

void powTile(const TileStep& s, const TileContext& tile) {
  const D64 d;
  const D32 d32;
  const float* a = slot<float>(tile, s.a);
  const float* b = slot<float>(tile, s.b);
  float* out = slot<float>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA, stepB = s.stepB;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA, b += stepB) {
    double wide[kBlock];
    for (size_t j = 0; j < kBlock; j += hn::Lanes(d)) {
      const V64 x = hn::PromoteTo(d, hn::LoadU(d32, a + j));
      const V64 y = hn::PromoteTo(d, hn::LoadU(d32, b + j));
      hn::StoreU(powVector(x, y), d, wide + j);
    }
    // Not DemoteTo, which saturates on some targets.
    for (int64_t j = 0; j < kBlock; ++j) out[i + j] = static_cast<float>(wide[j]);
  }
}

/// Quotients below this are exact in float64 times any float, so that what is left is exact too; larger ones,
/// and what has no quotient, go through libm.
constexpr double kQuotientLimit = 0x1p29;

/// What is left of x after so many whole y as fit; `fits` says where that is right.
HWY_INLINE V64 modVector(V64 x, V64 y, hn::Mask<D64>& fits) {
  const D64 d;
  const V64 divisor = hn::Abs(y);
  const V64 quotient = hn::Div(hn::Abs(x), divisor);
  fits = hn::And(hn::Lt(quotient, hn::Set(d, kQuotientLimit)), hn::Lt(divisor, hn::Inf(d)));
  const V64 rest = hn::NegMulAdd(hn::Trunc(quotient), divisor, hn::Abs(x));
  // A quotient just below a whole number may have been rounded to it.
  const V64 positive = hn::IfThenElse(hn::Lt(rest, hn::Zero(d)), hn::Add(rest, divisor), rest);
  return hn::CopySign(positive, x);
}

void modTile(const TileStep& s, const TileContext& tile) {
  const D64 d;
  const D32 d32;
  const float* a = slot<float>(tile, s.a);
  const float* b = slot<float>(tile, s.b);
  float* out = slot<float>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA, stepB = s.stepB;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA, b += stepB) {
    float rest[kBlock];
    bool all = true;
    for (size_t j = 0; j < kBlock; j += hn::Lanes(d)) {
      const V64 x = hn::PromoteTo(d, hn::LoadU(d32, a + j)), y = hn::PromoteTo(d, hn::LoadU(d32, b + j));
      hn::Mask<D64> fits;
      hn::StoreU(hn::DemoteTo(d32, modVector(x, y, fits)), d32, rest + j);
      all = all && hn::AllTrue(d, fits);
    }
    if (!all) {
      for (size_t j = 0; j < kBlock; ++j) rest[j] = std::fmod(a[j], b[j]);
    }
    std::copy(rest, rest + kBlock, out + i);
  }
}

TileStep::Fn findMath32(Prim prim) {
  switch (prim) {
    case Prim::kExp:
      return vectorUnary<float, float, Exp>;
    case Prim::kLog:
      return vectorUnary<float, float, Log>;
    case Prim::kTanh:
      return vectorUnary<float, float, Tanh>;
    case Prim::kErf:
      return vectorUnary<float, float, Erf>;
    case Prim::kSin:
      return sineTile<0>;
    case Prim::kCos:
      return sineTile<1>;
    case Prim::kPow:
      return powTile;
    case Prim::kMod:
      return modTile;
    default:
      return nullptr;
  }
}

TileStep::Fn findMath64(Prim prim) {
  switch (prim) {
    case Prim::kExp:
      return plainUnary<double, double, Exp64>;
    case Prim::kLog:
      return plainUnary<double, double, Log64>;
    case Prim::kTanh:
      return plainUnary<double, double, Tanh64>;
    case Prim::kErf:
      return plainUnary<double, double, Erf64>;
    case Prim::kSin:
      return plainUnary<double, double, Sin64>;
    case Prim::kCos:
      return plainUnary<double, double, Cos64>;
    case Prim::kPow:
      return powTile64;
    case Prim::kMod:
      return plainBinary<double, double, Mod64>;
    default:
      return nullptr;
  }
}

TileStep::Fn findMath(Prim prim, bool wide) { return wide ? findMath64(prim) : findMath32(prim); }

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels {
HWY_EXPORT(findMath);
TileStep::Fn mathFn(Prim prim, VType type) {
  return HWY_DYNAMIC_DISPATCH(findMath)(prim, type == VType::kF64);
}
}  // namespace popxl::kernels
#endif
