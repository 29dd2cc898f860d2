// Exact primitives on float32 and float64: every one is a correctly rounded IEEE operation.
#include "kernels/tile_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway_float.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include <cmath>

#include "hwy/foreach_target.h"
#include "kernels/highway_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {

#define POPXL_UNARY(name, expression)   \
  struct name {                         \
    template <class D, class V>         \
    static HWY_INLINE V run(D d, V a) { \
      (void)d;                          \
      return expression;                \
    }                                   \
  }
#define POPXL_BINARY(name, expression)       \
  struct name {                              \
    template <class D, class V>              \
    static HWY_INLINE V run(D d, V a, V b) { \
      (void)d;                               \
      return expression;                     \
    }                                        \
  }

POPXL_BINARY(Add, hn::Add(a, b));
POPXL_BINARY(Sub, hn::Sub(a, b));
POPXL_BINARY(Mul, hn::Mul(a, b));
POPXL_BINARY(Div, hn::Div(a, b));
POPXL_BINARY(Min, hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Lt(a, b), a, b)));
POPXL_BINARY(Max, hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Lt(b, a), a, b)));
POPXL_UNARY(Neg, hn::Neg(a));
POPXL_UNARY(Abs, hn::Abs(a));
POPXL_UNARY(Sqrt, hn::Sqrt(a));
// The emulated target loses the sign of zero.
POPXL_UNARY(Floor, hn::CopySign(hn::Floor(a), a));
POPXL_UNARY(Ceil, hn::CopySign(hn::Ceil(a), a));
POPXL_UNARY(Trunc, hn::CopySign(hn::Trunc(a), a));
POPXL_UNARY(RoundEven, hn::CopySign(hn::Round(a), a));
// 1 with the sign of a where a compares unequal to 0; NaN keeps itself, zeros give +0.
POPXL_UNARY(Sign, hn::IfThenElse(hn::IsNaN(a), a,
                                 hn::IfThenElseZero(hn::Ne(a, hn::Zero(d)), hn::CopySign(hn::Set(d, 1), a))));

/// Comparisons of float32: 0 or 1 in lanes of the same width.
#define POPXL_COMPARE(name, mask)                                                \
  struct name##Vector {                                                          \
    template <class D, class V>                                                  \
    static HWY_INLINE auto run(D d, V a, V b) {                                  \
      (void)b;                                                                   \
      const hn::RebindToUnsigned<D> du;                                          \
      return hn::And(hn::BitCast(du, hn::VecFromMask(d, mask)), hn::Set(du, 1)); \
    }                                                                            \
    template <class D, class V>                                                  \
    static HWY_INLINE auto run(D d, V a) {                                       \
      return run(d, a, a);                                                       \
    }                                                                            \
  }
POPXL_COMPARE(Lt, hn::Lt(a, b));
POPXL_COMPARE(Le, hn::Le(a, b));
POPXL_COMPARE(Eq, hn::Eq(a, b));
POPXL_COMPARE(Ne, hn::Not(hn::Eq(a, b)));
POPXL_COMPARE(IsNan, hn::IsNaN(a));
POPXL_COMPARE(IsInf, hn::IsInf(a));

/// Comparisons of float64: the result is narrower than the operands.
#define POPXL_PLAIN(name, arguments, expression)                    \
  struct name {                                                     \
    static HWY_INLINE uint32_t run arguments { return expression; } \
  }
POPXL_PLAIN(LtPlain, (double a, double b), a < b);
POPXL_PLAIN(LePlain, (double a, double b), a <= b);
POPXL_PLAIN(EqPlain, (double a, double b), a == b);
POPXL_PLAIN(NePlain, (double a, double b), a != b);
POPXL_PLAIN(IsNanPlain, (double a), a != a);
POPXL_PLAIN(IsInfPlain, (double a), std::fabs(a) == HUGE_VAL);

template <class T>
TileStep::Fn findArithmetic(Prim prim) {
  switch (prim) {
    case Prim::kAdd:
      return vectorBinary<T, T, Add>;
    case Prim::kSub:
      return vectorBinary<T, T, Sub>;
    case Prim::kMul:
      return vectorBinary<T, T, Mul>;
    case Prim::kDiv:
      return vectorBinary<T, T, Div>;
    case Prim::kMin:
      return vectorBinary<T, T, Min>;
    case Prim::kMax:
      return vectorBinary<T, T, Max>;
    case Prim::kNeg:
      return vectorUnary<T, T, Neg>;
    case Prim::kAbs:
      return vectorUnary<T, T, Abs>;
    case Prim::kSqrt:
      return vectorUnary<T, T, Sqrt>;
    case Prim::kSign:
      return vectorUnary<T, T, Sign>;
    case Prim::kFloor:
      return vectorUnary<T, T, Floor>;
    case Prim::kCeil:
      return vectorUnary<T, T, Ceil>;
    case Prim::kTrunc:
      return vectorUnary<T, T, Trunc>;
    case Prim::kRoundEven:
      return vectorUnary<T, T, RoundEven>;
    default:
      return nullptr;
  }
}

TileStep::Fn findComparison32(Prim prim) {
  switch (prim) {
    case Prim::kLt:
      return vectorBinary<float, uint32_t, LtVector>;
    case Prim::kLe:
      return vectorBinary<float, uint32_t, LeVector>;
    case Prim::kEq:
      return vectorBinary<float, uint32_t, EqVector>;
    case Prim::kNe:
      return vectorBinary<float, uint32_t, NeVector>;
    case Prim::kIsNan:
      return vectorUnary<float, uint32_t, IsNanVector>;
    case Prim::kIsInf:
      return vectorUnary<float, uint32_t, IsInfVector>;
    default:
      return nullptr;
  }
}

TileStep::Fn findComparison64(Prim prim) {
  switch (prim) {
    case Prim::kLt:
      return plainBinary<double, uint32_t, LtPlain>;
    case Prim::kLe:
      return plainBinary<double, uint32_t, LePlain>;
    case Prim::kEq:
      return plainBinary<double, uint32_t, EqPlain>;
    case Prim::kNe:
      return plainBinary<double, uint32_t, NePlain>;
    case Prim::kIsNan:
      return plainUnary<double, uint32_t, IsNanPlain>;
    case Prim::kIsInf:
      return plainUnary<double, uint32_t, IsInfPlain>;
    default:
      return nullptr;
  }
}

TileStep::Fn findFloat(Prim prim, VType type) {
  const bool wide = type == VType::kF64;
  if (const TileStep::Fn fn = wide ? findArithmetic<double>(prim) : findArithmetic<float>(prim)) return fn;
  return wide ? findComparison64(prim) : findComparison32(prim);
}

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels {
HWY_EXPORT(findFloat);
TileStep::Fn floatFn(Prim prim, VType type) { return HWY_DYNAMIC_DISPATCH(findFloat)(prim, type); }
}  // namespace popxl::kernels
#endif
