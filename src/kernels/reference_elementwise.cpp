#include <bit>
#include <cmath>
#include <vector>

#include "base/element.h"
#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/philox.h"
#include "kernels/tile_program.h"

namespace popxl::kernels {
namespace {

using Value = Element;

int widthOf(VType t) { return static_cast<int>(sizeOf(t)) * 8; }

/// Brings an integer into its type: 32-bit types keep 32 bits, sign-extended when signed.
uint64_t wrap(VType type, uint64_t v) {
  switch (type) {
    case VType::kI32:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(v)));
    case VType::kU32:
      return static_cast<uint32_t>(v);
    default:
      return v;
  }
}

int64_t asSigned(uint64_t v) { return static_cast<int64_t>(v); }

double floatBinary(Prim p, double a, double b) {
  switch (p) {
    case Prim::kAdd:
      return a + b;
    case Prim::kSub:
      return a - b;
    case Prim::kMul:
      return a * b;
    case Prim::kDiv:
      return a / b;
    case Prim::kMin:
      return std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b);
    case Prim::kMax:
      return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b);
    case Prim::kMod:
      return std::fmod(a, b);
    case Prim::kPow:
      return std::pow(a, b);
    default:
      break;
  }
  POPXL_ASSERT(false, "primitive {} on floats", static_cast<int>(p));
  return 0;
}

double floatUnary(Prim p, double a) {
  switch (p) {
    case Prim::kNeg:
      return -a;
    case Prim::kAbs:
      return std::fabs(a);
    case Prim::kSign:
      return std::isnan(a) ? a : static_cast<double>((a > 0) - (a < 0));
    case Prim::kSqrt:
      return std::sqrt(a);
    case Prim::kExp:
      return std::exp(a);
    case Prim::kLog:
      return std::log(a);
    case Prim::kTanh:
      return std::tanh(a);
    case Prim::kErf:
      return std::erf(a);
    case Prim::kSin:
      return std::sin(a);
    case Prim::kCos:
      return std::cos(a);
    case Prim::kFloor:
      return std::floor(a);
    case Prim::kCeil:
      return std::ceil(a);
    case Prim::kTrunc:
      return std::trunc(a);
    case Prim::kRoundEven:
      return std::nearbyint(a);
    default:
      break;
  }
  POPXL_ASSERT(false, "primitive {} on a float", static_cast<int>(p));
  return 0;
}

uint64_t integerPower(VType type, uint64_t base, uint64_t exponent) {
  if (!isUnsignedType(type) && asSigned(exponent) < 0) {
    if (asSigned(base) == 1) return 1;
    if (asSigned(base) == -1) return (exponent & 1) == 0 ? 1 : ~uint64_t{0};
    return 0;
  }
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base = wrap(type, base * base)) {
    if ((exponent & 1) != 0) result = wrap(type, result * base);
  }
  return result;
}

uint64_t quotient(VType type, uint64_t a, uint64_t b, bool remainder) {
  if (b == 0) return 0;
  if (isUnsignedType(type)) return remainder ? a % b : a / b;
  if (asSigned(b) == -1) return remainder ? 0 : uint64_t{0} - a;
  return static_cast<uint64_t>(remainder ? asSigned(a) % asSigned(b) : asSigned(a) / asSigned(b));
}

uint64_t integerOperation(const Node& n, uint64_t a, uint64_t b) {
  const bool less = isUnsignedType(n.type) ? a < b : asSigned(a) < asSigned(b);
  const bool negative = !isUnsignedType(n.type) && asSigned(a) < 0;
  switch (n.prim) {
    case Prim::kAdd:
      return a + b;
    case Prim::kSub:
      return a - b;
    case Prim::kMul:
      return a * b;
    case Prim::kDiv:
      return quotient(n.type, a, b, false);
    case Prim::kMod:
      return quotient(n.type, a, b, true);
    case Prim::kMin:
      return less ? a : b;
    case Prim::kMax:
      return less ? b : a;
    case Prim::kPow:
      return integerPower(n.type, a, b);
    case Prim::kNeg:
      return uint64_t{0} - a;
    case Prim::kAbs:
      return negative ? uint64_t{0} - a : a;
    case Prim::kSign:
      return negative ? ~uint64_t{0} : a != 0 ? 1 : 0;
    case Prim::kFloor:
    case Prim::kCeil:
    case Prim::kTrunc:
    case Prim::kRoundEven:
      return a;
    case Prim::kAnd:
      return a & b;
    case Prim::kOr:
      return a | b;
    case Prim::kXor:
      return a ^ b;
    case Prim::kNot:
      return ~a;
    case Prim::kShl:
      return b >= static_cast<uint64_t>(widthOf(n.type)) ? 0 : a << b;
    case Prim::kShr:
      return b >= static_cast<uint64_t>(widthOf(n.type)) ? 0 : a >> b;
    default:
      break;
  }
  POPXL_ASSERT(false, "primitive {} on integers", static_cast<int>(n.prim));
  return 0;
}

uint64_t compare(Prim p, VType type, const Value& a, const Value& b) {
  if (isFloatType(type)) {
    switch (p) {
      case Prim::kLt:
        return a.number < b.number;
      case Prim::kLe:
        return a.number <= b.number;
      case Prim::kEq:
        return a.number == b.number;
      default:
        return a.number != b.number;
    }
  }
  const bool less = isUnsignedType(type) ? a.integer < b.integer : asSigned(a.integer) < asSigned(b.integer);
  switch (p) {
    case Prim::kLt:
      return less;
    case Prim::kLe:
      return less || a.integer == b.integer;
    case Prim::kEq:
      return a.integer == b.integer;
    default:
      return a.integer != b.integer;
  }
}

double asNumber(VType type, const Value& v) {
  if (isFloatType(type)) return v.number;
  return isUnsignedType(type) ? static_cast<double>(v.integer) : static_cast<double>(asSigned(v.integer));
}

Value toInteger(VType to, double a) {
  const bool isUnsigned = isUnsignedType(to);
  const double low = isUnsigned ? 0.0 : -std::ldexp(1.0, widthOf(to) - 1);
  const double end = std::ldexp(1.0, isUnsigned ? widthOf(to) : widthOf(to) - 1);
  if (std::isnan(a)) return {};
  if (a >= end) return {.number = 0, .integer = ~uint64_t{0} >> (64 - widthOf(to) + (isUnsigned ? 0 : 1))};
  if (a <= low)
    return {.number = 0, .integer = isUnsigned ? 0 : static_cast<uint64_t>(static_cast<int64_t>(low))};
  return {.number = 0,
          .integer = isUnsigned ? static_cast<uint64_t>(a) : static_cast<uint64_t>(static_cast<int64_t>(a))};
}

Value convert(VType from, VType to, const Value& v, bool unrounded) {
  if (!isFloatType(to))
    return isFloatType(from) ? toInteger(to, v.number) : Value{.number = 0, .integer = wrap(to, v.integer)};
  if (to == VType::kF64 || unrounded) return {.number = asNumber(from, v), .integer = 0};
  if (isFloatType(from)) return {.number = static_cast<float>(v.number), .integer = 0};
  // One rounding from 64-bit integers.
  const float rounded =
      isUnsignedType(from) ? static_cast<float>(v.integer) : static_cast<float>(asSigned(v.integer));
  return {.number = rounded, .integer = 0};
}

Value bitcast(VType from, VType to, const Value& v) {
  uint64_t bits = v.integer;
  if (from == VType::kF32) bits = std::bit_cast<uint32_t>(static_cast<float>(v.number));
  if (from == VType::kF64) bits = std::bit_cast<uint64_t>(v.number);
  if (to == VType::kF32) return {.number = std::bit_cast<float>(static_cast<uint32_t>(bits)), .integer = 0};
  if (to == VType::kF64) return {.number = std::bit_cast<double>(bits), .integer = 0};
  return {.number = 0, .integer = wrap(to, bits)};
}

/// What a store and a load of `t` make of a value.
Value roundTo(DType t, const Value& v) {
  std::byte memory[8];
  storeElement(t, v, memory);
  return loadElement(t, memory);
}

struct Evaluator {
  const ElementwiseSpec& spec;
  std::span<std::byte* const> operands;
  const std::vector<Strides>& strides;
  bool unrounded;

  Value input(const Node& n, const Shape& at) const {
    const auto operand = static_cast<size_t>(n.index);
    int64_t element = n.element;
    if (element < 0) {
      element = 0;
      for (size_t d = 0; d < at.size(); ++d) element += at[d] * strides[operand][d];
    }
    const DType dtype = spec.inputs[operand].dtype;
    return loadElement(dtype, operands[operand] + element * popxl::sizeOf(dtype));
  }

  Value node(const Node& n, const std::vector<Value>& values, const Shape& at, uint64_t position) const {
    const auto value = [&values](int32_t id) { return id < 0 ? Value{} : values[static_cast<size_t>(id)]; };
    const Value a = value(n.a), b = value(n.b), c = value(n.c);
    const VType type = n.a < 0 ? n.type : spec.expr.nodes()[static_cast<size_t>(n.a)].type;
    switch (n.prim) {
      case Prim::kInput:
        return input(n, at);
      case Prim::kConst:
        return {.number = n.number, .integer = wrap(n.type, static_cast<uint64_t>(n.integer))};
      case Prim::kPhilox:
        return {.number = 0,
                .integer = philox(static_cast<uint32_t>(a.integer), static_cast<uint32_t>(b.integer),
                                  position, static_cast<uint32_t>(n.index))};
      case Prim::kLt:
      case Prim::kLe:
      case Prim::kEq:
      case Prim::kNe:
        return {.number = 0, .integer = compare(n.prim, type, a, b)};
      case Prim::kIsNan:
        return {.number = 0, .integer = std::isnan(a.number) ? 1u : 0u};
      case Prim::kIsInf:
        return {.number = 0, .integer = std::isinf(a.number) ? 1u : 0u};
      case Prim::kSelect:
        return a.integer != 0 ? b : c;
      case Prim::kConvert:
        return convert(type, n.type, a, unrounded);
      case Prim::kBitcast:
        return bitcast(type, n.type, a);
      case Prim::kRoundTo:
        return unrounded && isFloatType(n.type) ? a : roundTo(n.dtype, a);
      default:
        break;
    }
    if (!isFloatType(n.type))
      return {.number = 0, .integer = wrap(n.type, integerOperation(n, a.integer, b.integer))};
    const double result =
        arity(n.prim) == 2 ? floatBinary(n.prim, a.number, b.number) : floatUnary(n.prim, a.number);
    return {.number = result, .integer = 0};
  }
};

}  // namespace

void runElementwiseReference(const ElementwiseSpec& spec, std::span<std::byte* const> operands,
                             bool unrounded) {
  std::vector<Strides> strides;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    strides.push_back(inputStrides(spec.expr, i, spec.inputs[i], spec.space));
  }
  const Evaluator evaluator{spec, operands, strides, unrounded};
  const auto& nodes = spec.expr.nodes();
  std::vector<Value> values(nodes.size());
  Shape at(spec.space.size(), 0);
  const auto positions = static_cast<uint64_t>(numElements(spec.space));
  for (uint64_t position = 0; position < positions; ++position) {
    for (size_t i = 0; i < nodes.size(); ++i) values[i] = evaluator.node(nodes[i], values, at, position);
    for (size_t j = 0; j < spec.outputs.size(); ++j) {
      int64_t element = 0;
      for (size_t d = 0; d < at.size(); ++d) element += at[d] * spec.outputs[j].strides[d];
      const DType dtype = spec.outputs[j].dtype;
      storeElement(dtype, values[static_cast<size_t>(spec.expr.outputs()[j])],
                   operands[spec.inputs.size() + j] + element * popxl::sizeOf(dtype));
    }
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < spec.space[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace popxl::kernels
