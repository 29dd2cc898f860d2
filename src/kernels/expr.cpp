#include "kernels/expr.h"

#include <bit>
#include <cmath>

#include "base/error.h"
#include "kernels/expr_fold.h"

namespace popxl::kernels {
namespace {

bool isComparison(Prim p) { return p == Prim::kLt || p == Prim::kLe || p == Prim::kEq || p == Prim::kNe; }
bool isFloatOnly(Prim p) {
  return p == Prim::kSqrt || p == Prim::kExp || p == Prim::kLog || p == Prim::kTanh || p == Prim::kErf ||
         p == Prim::kSin || p == Prim::kCos;
}
bool isBitwise(Prim p) { return p == Prim::kAnd || p == Prim::kOr || p == Prim::kXor || p == Prim::kNot; }
bool isShift(Prim p) { return p == Prim::kShl || p == Prim::kShr; }

uint64_t hashOf(const Node& n) {
  uint64_t h = 0;
  const auto mix = [&h](uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15u + (h >> 29); };
  mix(static_cast<uint64_t>(n.prim) | static_cast<uint64_t>(n.type) << 8 |
      static_cast<uint64_t>(n.dtype) << 16);
  mix(static_cast<uint64_t>(n.a) << 32 ^ static_cast<uint32_t>(n.b));
  mix(static_cast<uint64_t>(n.c) << 32 ^ static_cast<uint32_t>(n.index));
  mix(static_cast<uint64_t>(n.element));
  mix(std::bit_cast<uint64_t>(n.number));
  mix(static_cast<uint64_t>(n.integer));
  return h;
}

bool same(const Node& x, const Node& y) {
  return x.prim == y.prim && x.type == y.type && x.dtype == y.dtype && x.a == y.a && x.b == y.b &&
         x.c == y.c && x.index == y.index && x.element == y.element && x.integer == y.integer &&
         std::bit_cast<uint64_t>(x.number) == std::bit_cast<uint64_t>(y.number);
}

void checkTypes(const Expr& expr, const Node& n) {
  const auto typeOf = [&expr](int32_t id) { return expr.nodes()[static_cast<size_t>(id)].type; };
  const int operands = arity(n.prim);
  const int32_t ids[] = {n.a, n.b, n.c};
  for (int i = 0; i < operands; ++i) {
    POPXL_ASSERT(ids[i] >= 0 && ids[i] < static_cast<int32_t>(expr.nodes().size()),
                 "operand {} of primitive {} is {}", i, static_cast<int>(n.prim), ids[i]);
  }
  const auto check = [&n](bool ok) {
    POPXL_ASSERT(ok, "types of primitive {} with type {}", static_cast<int>(n.prim),
                 static_cast<int>(n.type));
  };
  if (operands == 0) return;
  const VType a = typeOf(n.a);
  switch (n.prim) {
    case Prim::kPhilox:
      return check(a == VType::kU32 && typeOf(n.b) == VType::kU32 && n.type == VType::kU32);
    case Prim::kSelect:
      return check(a == VType::kU32 && typeOf(n.b) == n.type && typeOf(n.c) == n.type);
    case Prim::kConvert:
      return;
    case Prim::kBitcast:
      return check(sizeOf(a) == sizeOf(n.type));
    case Prim::kRoundTo:
      return check(a == n.type && computeType(n.dtype) == n.type);
    case Prim::kIsNan:
    case Prim::kIsInf:
      return check(n.type == VType::kU32);
    default:
      break;
  }
  if (isComparison(n.prim)) return check(n.type == VType::kU32 && typeOf(n.b) == a);
  check(n.type == a && (operands == 1 || typeOf(n.b) == a));
  if (isFloatOnly(n.prim)) check(isFloatType(a));
  if (isBitwise(n.prim)) check(!isFloatType(a));
  if (isShift(n.prim)) check(isUnsignedType(a));
}

Val make(const Val& like, Node node) { return {like.expr, like.expr->add(node)}; }

Val compare(Prim p, Val a, Val b) {
  POPXL_ASSERT(a.expr == b.expr, "values of two expressions");
  return make(a, {.prim = p, .type = VType::kU32, .a = a.id, .b = b.id});
}

}  // namespace

VType computeType(DType t) {
  switch (t) {
    case DType::kFloat8_143:
    case DType::kFloat8_152:
    case DType::kFloat16:
    case DType::kFloat32:
      return VType::kF32;
    case DType::kFloat64:
      return VType::kF64;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
      return VType::kI32;
    case DType::kInt64:
      return VType::kI64;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kBool:
      return VType::kU32;
    case DType::kUInt64:
      return VType::kU64;
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  POPXL_ASSERT(false, "no compute type for {}", nameOf(t));
  return VType::kF32;
}

bool isFloatType(VType t) { return t == VType::kF32 || t == VType::kF64; }
bool isUnsignedType(VType t) { return t == VType::kU32 || t == VType::kU64; }
int64_t sizeOf(VType t) { return t == VType::kF64 || t == VType::kI64 || t == VType::kU64 ? 8 : 4; }

std::vector<bool> usedNodes(const Expr& expr) {
  std::vector<bool> used(expr.nodes().size(), false);
  for (const int32_t id : expr.outputs()) used[static_cast<size_t>(id)] = true;
  for (size_t i = used.size(); i-- > 0;) {
    const Node& n = expr.nodes()[i];
    const int32_t operands[] = {n.a, n.b, n.c};
    for (int k = 0; used[i] && k < arity(n.prim); ++k) used[static_cast<size_t>(operands[k])] = true;
  }
  return used;
}

int arity(Prim p) {
  switch (p) {
    case Prim::kInput:
    case Prim::kConst:
      return 0;
    case Prim::kSelect:
      return 3;
    case Prim::kPhilox:
    case Prim::kAdd:
    case Prim::kSub:
    case Prim::kMul:
    case Prim::kDiv:
    case Prim::kMin:
    case Prim::kMax:
    case Prim::kMod:
    case Prim::kPow:
    case Prim::kLt:
    case Prim::kLe:
    case Prim::kEq:
    case Prim::kNe:
    case Prim::kAnd:
    case Prim::kOr:
    case Prim::kXor:
    case Prim::kShl:
    case Prim::kShr:
      return 2;
    default:
      return 1;
  }
}

int32_t Expr::add(const Node& node) {
  checkTypes(*this, node);
  if (node.prim == Prim::kConst) return append(detail::normalizeConstant(node));
  if (const auto folded = detail::foldConstant(*this, node)) return append(*folded);
  if (const int32_t id = detail::simplify(*this, node); id >= 0) return id;
  return append(node);
}

int32_t Expr::append(const Node& node) {
  const uint64_t hash = hashOf(node);
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (same(nodes_[static_cast<size_t>(it->second)], node)) return it->second;
  }
  const auto id = static_cast<int32_t>(nodes_.size());
  nodes_.push_back(node);
  known_.emplace(hash, id);
  return id;
}

Val Val::constant(double number) const { return kernels::constant(*expr, type(), number); }
Val Val::convert(VType to) const { return make(*this, {.prim = Prim::kConvert, .type = to, .a = id}); }
Val Val::bitcast(VType to) const { return make(*this, {.prim = Prim::kBitcast, .type = to, .a = id}); }

Val input(Expr& e, int32_t operand, VType type, int64_t element) {
  return {&e, e.add({.prim = Prim::kInput, .type = type, .index = operand, .element = element})};
}

Val constant(Expr& e, VType type, double number) {
  Node node{.prim = Prim::kConst, .type = type};
  if (isFloatType(type)) {
    node.number = number;
  } else {
    POPXL_ASSERT(std::trunc(number) == number && std::fabs(number) < 0x1p64, "integer constant {}", number);
    node.integer =
        number >= 0x1p63 ? static_cast<int64_t>(static_cast<uint64_t>(number)) : static_cast<int64_t>(number);
  }
  return {&e, e.add(node)};
}

Val unary(Prim p, Val a) {
  const VType type = p == Prim::kIsNan || p == Prim::kIsInf ? VType::kU32 : a.type();
  return make(a, {.prim = p, .type = type, .a = a.id});
}

Val binary(Prim p, Val a, Val b) {
  if (isComparison(p)) return compare(p, a, b);
  POPXL_ASSERT(a.expr == b.expr, "values of two expressions");
  return make(a, {.prim = p, .type = a.type(), .a = a.id, .b = b.id});
}

Val select(Val condition, Val then, Val otherwise) {
  POPXL_ASSERT(condition.expr == then.expr && then.expr == otherwise.expr, "values of two expressions");
  return make(
      then, {.prim = Prim::kSelect, .type = then.type(), .a = condition.id, .b = then.id, .c = otherwise.id});
}

Val roundTo(Val a, DType storage) {
  return make(a, {.prim = Prim::kRoundTo, .type = a.type(), .dtype = storage, .a = a.id});
}

Val philox(Val seed0, Val seed1, int32_t stream) {
  POPXL_ASSERT(seed0.expr == seed1.expr, "values of two expressions");
  return make(seed0,
              {.prim = Prim::kPhilox, .type = VType::kU32, .a = seed0.id, .b = seed1.id, .index = stream});
}

Val operator+(Val a, Val b) { return binary(Prim::kAdd, a, b); }
Val operator-(Val a, Val b) { return binary(Prim::kSub, a, b); }
Val operator*(Val a, Val b) { return binary(Prim::kMul, a, b); }
Val operator/(Val a, Val b) { return binary(Prim::kDiv, a, b); }
Val operator-(Val a) { return unary(Prim::kNeg, a); }
Val operator<(Val a, Val b) { return compare(Prim::kLt, a, b); }
Val operator<=(Val a, Val b) { return compare(Prim::kLe, a, b); }
Val operator>(Val a, Val b) { return compare(Prim::kLt, b, a); }
Val operator>=(Val a, Val b) { return compare(Prim::kLe, b, a); }
Val eq(Val a, Val b) { return compare(Prim::kEq, a, b); }
Val operator+(Val a, double b) { return a + a.constant(b); }
Val operator-(Val a, double b) { return a - a.constant(b); }
Val operator*(Val a, double b) { return a * a.constant(b); }
Val operator/(Val a, double b) { return a / a.constant(b); }
Val operator+(double a, Val b) { return b.constant(a) + b; }
Val operator-(double a, Val b) { return b.constant(a) - b; }
Val operator*(double a, Val b) { return b.constant(a) * b; }
Val operator/(double a, Val b) { return b.constant(a) / b; }
Val operator<(Val a, double b) { return a < a.constant(b); }
Val operator>(Val a, double b) { return a > a.constant(b); }
Val operator>=(Val a, double b) { return a >= a.constant(b); }
Val operator<=(Val a, double b) { return a <= a.constant(b); }
Val min(Val a, Val b) { return binary(Prim::kMin, a, b); }
Val max(Val a, Val b) { return binary(Prim::kMax, a, b); }
Val exp(Val a) { return unary(Prim::kExp, a); }
Val log(Val a) { return unary(Prim::kLog, a); }
Val sqrt(Val a) { return unary(Prim::kSqrt, a); }
Val tanh(Val a) { return unary(Prim::kTanh, a); }
Val erf(Val a) { return unary(Prim::kErf, a); }
Val abs(Val a) { return unary(Prim::kAbs, a); }

}  // namespace popxl::kernels
