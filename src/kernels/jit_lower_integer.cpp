// Comparisons, truth values and integers.
#include "kernels/jit_lowering.h"

namespace popxl::kernels::jit {

/// AVX2 compares signed integers only: flipping the sign bits orders unsigned ones.
int32_t Lowering::greater(bool isUnsigned, bool wide, int32_t x, int32_t y) {
  if (!isUnsigned) return b_.binary(Op::kIntGreater, wide, x, y);
  if (avx512_) return b_.binary(Op::kUintGreater, wide, x, y);
  const int32_t sign = b_.constant(wide ? uint64_t{1} << 63 : uint64_t{1} << 31, wide);
  return b_.binary(Op::kIntGreater, wide, b_.binary(Op::kXor, wide, x, sign),
                   b_.binary(Op::kXor, wide, y, sign));
}

/// The mask of a comparison of one vector.
int32_t Lowering::truthPart(const Node& n, VType type, int32_t x, int32_t y) {
  const bool wide = isWide(type);
  const auto compare = [&](Predicate p) { return b_.binary(Op::kCompare, wide, x, y, p); };
  if (isFloatType(type)) {
    switch (n.prim) {
      case Prim::kLt:
        return compare(kLessThan);
      case Prim::kLe:
        return compare(kLessEqual);
      case Prim::kEq:
        return compare(kEqualTo);
      case Prim::kNe:
        return compare(kNotEqualTo);
      case Prim::kIsNan:
        return b_.binary(Op::kCompare, wide, x, x, kUnordered);
      default: {
        const uint64_t sign = wide ? uint64_t{1} << 63 : uint64_t{1} << 31;
        const uint64_t infinity = wide ? uint64_t{0x7ff0000000000000} : uint64_t{0x7f800000};
        const int32_t size = b_.binary(Op::kAndNot, wide, b_.constant(sign, wide), x);
        return b_.binary(Op::kIntEqual, wide, size, b_.constant(infinity, wide));
      }
    }
  }
  switch (n.prim) {
    case Prim::kLt:
      return greater(isUnsignedType(type), wide, y, x);
    case Prim::kLe:
      return maskNot(greater(isUnsignedType(type), wide, x, y), wide);
    case Prim::kEq:
      return b_.binary(Op::kIntEqual, wide, x, y);
    case Prim::kNe:
      return maskNot(b_.binary(Op::kIntEqual, wide, x, y), wide);
    default:
      return kNone;
  }
}

void Lowering::lowerTruth(int32_t id) {
  const Node& n = node(id);
  const VType type = node(n.a).type;
  const bool two = arity(n.prim) == 2;
  if (!two && !isFloatType(type)) {  // no integer is NaN or infinite
    setParts(id, zero(false));
    return;
  }
  int32_t mask[2] = {kNone, kNone};
  for (int part = 0; part < parts(type); ++part) {
    mask[part] = truthPart(n, type, number(n.a, part), two ? number(n.b, part) : kNone);
  }
  setTruth(id, isWide(type) ? b_.binary(Op::kMaskJoin, true, mask[0], mask[1]) : mask[0]);
}

/// And, or, exclusive or of two truth values that are masks.
bool Lowering::lowerMaskLogic(int32_t id) {
  const Node& n = node(id);
  const Op op = n.prim == Prim::kAnd   ? Op::kMaskAnd
                : n.prim == Prim::kOr  ? Op::kMaskOr
                : n.prim == Prim::kXor ? Op::kMaskXor
                                       : Op::kConst;
  if (op == Op::kConst || !value(n.a).isTruth || !value(n.b).isTruth) return false;
  setTruth(id, b_.binary(op, false, value(n.a).mask, value(n.b).mask));
  return true;
}

int32_t Lowering::integerMinMax(const Node& n, bool wide, int32_t x, int32_t y) {
  const bool isSigned = !isUnsignedType(n.type);
  const bool max = n.prim == Prim::kMax;
  if (!wide || avx512_) {
    const Op op = isSigned ? (max ? Op::kIntMax : Op::kIntMin) : (max ? Op::kUintMax : Op::kUintMin);
    return b_.binary(op, wide, x, y);
  }
  const int32_t first = greater(!isSigned, wide, x, y);
  return max ? b_.ternary(Op::kBlend, wide, first, x, y) : b_.ternary(Op::kBlend, wide, first, y, x);
}

int32_t Lowering::integerSign(bool isSigned, bool wide, int32_t x) {
  const int32_t one = b_.constant(1, wide);
  if (!isSigned) {
    const int32_t isZero = b_.binary(Op::kIntEqual, wide, x, zero(wide));
    return b_.ternary(Op::kBlend, wide, isZero, zero(wide), one);
  }
  const int32_t positive = b_.binary(Op::kIntGreater, wide, x, zero(wide));
  const int32_t negative = b_.binary(Op::kIntGreater, wide, zero(wide), x);
  const int32_t rest = b_.ternary(Op::kBlend, wide, negative, ones(wide), zero(wide));
  return b_.ternary(Op::kBlend, wide, positive, one, rest);
}

int32_t Lowering::integerPart(const Node& n, bool wide, int32_t x, int32_t y) {
  const auto binary = [&](Op op) { return b_.binary(op, wide, x, y); };
  switch (n.prim) {
    case Prim::kAdd:
      return binary(Op::kIntAdd);
    case Prim::kSub:
      return binary(Op::kIntSub);
    case Prim::kMul:
      return wide && !avx512_ ? kNone : binary(Op::kIntMul);
    case Prim::kMin:
    case Prim::kMax:
      return integerMinMax(n, wide, x, y);
    case Prim::kAnd:
      return binary(Op::kAnd);
    case Prim::kOr:
      return binary(Op::kOr);
    case Prim::kXor:
      return binary(Op::kXor);
    case Prim::kNot:
      return b_.binary(Op::kXor, wide, x, ones(wide));
    case Prim::kShl:
      return binary(Op::kShiftLeftBy);
    case Prim::kShr:
      return binary(Op::kShiftRightBy);
    case Prim::kNeg:
      return b_.binary(Op::kIntSub, wide, zero(wide), x);
    case Prim::kAbs: {
      if (!wide || avx512_) return b_.unary(Op::kIntAbs, wide, x);
      const int32_t negative = b_.binary(Op::kIntGreater, wide, zero(wide), x);
      return b_.ternary(Op::kBlend, wide, negative, b_.binary(Op::kIntSub, wide, zero(wide), x), x);
    }
    case Prim::kSign:
      return integerSign(!isUnsignedType(n.type), wide, x);
    default:
      return kNone;
  }
}

bool Lowering::lowerInteger(int32_t id) {
  const Node& n = node(id);
  if (lowerMaskLogic(id)) return true;
  const bool wide = isWide(n.type);
  const bool two = arity(n.prim) == 2;
  for (int part = 0; part < parts(n.type); ++part) {
    const int32_t y = two ? number(n.b, part) : kNone;
    const int32_t result = integerPart(n, wide, number(n.a, part), y);
    if (result == kNone) return false;
    value(id).part[part] = result;
  }
  return true;
}

}  // namespace popxl::kernels::jit
