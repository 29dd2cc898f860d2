// Selection, conversions between types and rounding to storage types.
#include "kernels/jit_lowering.h"

namespace popxl::kernels::jit {

void Lowering::lowerSelect(int32_t id) {
  const Node& n = node(id);
  const bool wide = isWide(n.type);
  const int32_t mask = truth(n.a);
  for (int part = 0; part < parts(n.type); ++part) {
    const int32_t own = wide ? maskPart(mask, part) : mask;
    value(id).part[part] = b_.ternary(Op::kBlend, wide, own, number(n.b, part), number(n.c, part));
  }
}

/// float32 to int32 as C converts, saturating; NaN gives 0.
int32_t Lowering::saturate(int32_t x) {
  const int32_t converted = b_.unary(Op::kF32ToI32, false, x);
  const int32_t fits = b_.binary(Op::kCompare, false, x, f32(0x1p31f), kLessThan);  // not NaN either
  const int32_t isNan = b_.binary(Op::kCompare, false, x, x, kUnordered);
  const int32_t edge = b_.ternary(Op::kBlend, false, isNan, zero(false), b_.constant(0x7fffffff, false));
  return b_.ternary(Op::kBlend, false, fits, converted, edge);
}

/// Between 32 and 64 bits. What is missing here is left to the tile code.
bool Lowering::convertWidth(int32_t id, VType from, VType to) {
  const Node& n = node(id);
  if (isWide(from)) {
    const int32_t low = number(n.a, 0), high = number(n.a, 1);
    if (from == VType::kF64 && to == VType::kF32) {
      setParts(id, b_.binary(Op::kJoin, false, b_.unary(Op::kF64ToF32, true, low),
                             b_.unary(Op::kF64ToF32, true, high)));
      return true;
    }
    if (isFloatType(from) || isFloatType(to)) return false;
    setParts(id, b_.binary(Op::kNarrow64, true, low, high));
    return true;
  }
  Op op = Op::kConst;
  if (to == VType::kF64) {
    op = from == VType::kF32 ? Op::kF32ToF64 : from == VType::kI32 ? Op::kI32ToF64 : Op::kConst;
  } else if (!isFloatType(from)) {
    op = isUnsignedType(from) ? Op::kU32ToU64 : Op::kI32ToI64;
  }
  if (op == Op::kConst) return false;
  const int32_t x = number(n.a);
  setParts(id, b_.unary(op, true, x), b_.unary(op, true, b_.unary(Op::kHigh, false, x)));
  return true;
}

bool Lowering::lowerConvert(int32_t id) {
  const Node& n = node(id);
  const VType from = node(n.a).type, to = n.type;
  if (isWide(from) != isWide(to)) return convertWidth(id, from, to);
  if (!isFloatType(from) && !isFloatType(to)) {
    value(id) = value(n.a);
    return true;
  }
  if (isWide(from)) return false;
  if (to == VType::kF32) {
    if (value(n.a).isTruth) {
      setParts(id, b_.ternary(Op::kBlend, false, truth(n.a), f32(1), zero(false)));
      return true;
    }
    if (from == VType::kU32 && !avx512_) return false;
    setParts(id, b_.unary(from == VType::kI32 ? Op::kI32ToF32 : Op::kU32ToF32, false, number(n.a)));
    return true;
  }
  const int32_t x = number(n.a);
  if (to == VType::kI32) {
    setParts(id, saturate(x));
    return true;
  }
  if (!avx512_) return false;
  // NaN and negative numbers give the second operand, 0; numbers too large give the largest.
  setParts(id, b_.unary(Op::kF32ToU32, false, b_.binary(Op::kMax, false, x, zero(false))));
  return true;
}

bool Lowering::lowerRound(int32_t id) {
  const Node& n = node(id);
  const auto shifted = [&](int bits) {
    const int32_t left = b_.unary(Op::kShiftLeft, false, number(n.a), bits);
    setParts(id, b_.unary(Op::kShiftRightSigned, false, left, bits));
    return true;
  };
  switch (n.dtype) {
    case DType::kFloat16:
      setParts(id, b_.unary(Op::kHalfToF32, false, b_.unary(Op::kF32ToHalf, false, number(n.a))));
      return true;
    case DType::kInt8:
      return shifted(24);
    case DType::kInt16:
      return shifted(16);
    case DType::kUInt8:
      setParts(id, b_.binary(Op::kAnd, false, number(n.a), b_.constant(0xff, false)));
      return true;
    case DType::kUInt16:
      setParts(id, b_.binary(Op::kAnd, false, number(n.a), b_.constant(0xffff, false)));
      return true;
    case DType::kBool:
      setTruth(id, truth(n.a));
      return true;
    case DType::kFloat8_143:
    case DType::kFloat8_152:
      return false;
    default:  // the compute type itself
      value(id) = value(n.a);
      return true;
  }
}

}  // namespace popxl::kernels::jit
