// Arithmetic and functions of floats.
#include "kernels/jit_lowering.h"
#include "kernels/jit_math.h"
#include "kernels/jit_math_functions.h"

namespace popxl::kernels::jit {
namespace {

template <class Lane>
int32_t minMax(Builder& b, Op op, int32_t x, int32_t y) {
  const Vec<Lane> vx{&b, x}, vy{&b, y};
  return IfThenElse(IsNaN(vx), vx, binaryOf(op, vx, vy)).id;
}

template <class Lane>
int32_t signOf(Builder& b, int32_t x) {
  const Vec<Lane> v{&b, x};
  const Tag<Lane> d{&b};
  const Vec<Lane> one = CopySign(Set(d, 1), v);
  const Mask<Lane> isZero = Eq(v, Zero(d));
  return IfThenElse(IsNaN(v), v, IfThenElse(isZero, Zero(d), one)).id;
}

}  // namespace

int32_t Lowering::function(Prim prim, int32_t x) {
  switch (prim) {
    case Prim::kExp:
      return expF32(b_, x);
    case Prim::kLog:
      return logF32(b_, x);
    case Prim::kTanh:
      return tanhF32(b_, x);
    case Prim::kErf:
      return erfF32(b_, x);
    default:
      return kNone;
  }
}

/// One vector of a float primitive, or kNone where there is no vector code.
int32_t Lowering::floatPart(const Node& n, bool wide, int32_t x, int32_t y) {
  const auto binary = [&](Op op) { return b_.binary(op, wide, x, y); };
  const auto sign = [&] { return b_.constant(wide ? uint64_t{1} << 63 : uint64_t{1} << 31, wide); };
  switch (n.prim) {
    case Prim::kAdd:
      return binary(Op::kAdd);
    case Prim::kSub:
      return binary(Op::kSub);
    case Prim::kMul:
      return binary(Op::kMul);
    case Prim::kDiv:
      return binary(Op::kDiv);
    case Prim::kMin:
      return wide ? minMax<double>(b_, Op::kMin, x, y) : minMax<float>(b_, Op::kMin, x, y);
    case Prim::kMax:
      return wide ? minMax<double>(b_, Op::kMax, x, y) : minMax<float>(b_, Op::kMax, x, y);
    case Prim::kSign:
      return wide ? signOf<double>(b_, x) : signOf<float>(b_, x);
    case Prim::kNeg:
      return b_.binary(Op::kXor, wide, x, sign());
    case Prim::kAbs:
      return b_.binary(Op::kAndNot, wide, sign(), x);
    case Prim::kSqrt:
      return b_.unary(Op::kSqrt, wide, x);
    case Prim::kRoundEven:
      return b_.unary(Op::kRound, wide, x, 0);
    case Prim::kFloor:
      return b_.unary(Op::kRound, wide, x, 1);
    case Prim::kCeil:
      return b_.unary(Op::kRound, wide, x, 2);
    case Prim::kTrunc:
      return b_.unary(Op::kRound, wide, x, 3);
    default:
      return wide ? kNone : function(n.prim, x);
  }
}

bool Lowering::lowerFloat(int32_t id) {
  const Node& n = node(id);
  const bool wide = isWide(n.type);
  const bool two = arity(n.prim) == 2;
  for (int part = 0; part < parts(n.type); ++part) {
    const int32_t y = two ? number(n.b, part) : kNone;
    const int32_t result = floatPart(n, wide, number(n.a, part), y);
    if (result == kNone) return false;
    value(id).part[part] = result;
  }
  return true;
}

}  // namespace popxl::kernels::jit
