#include "kernels/expr_fold.h"

#include <bit>
#include <cmath>

#include "kernels/scalar_ops.h"

namespace popxl::kernels::detail {
namespace {

const Node& nodeAt(const Expr& expr, int32_t id) { return expr.nodes()[static_cast<size_t>(id)]; }

template <class T>
T valueOf(const Node& n) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(n.number);
  } else {
    return static_cast<T>(n.integer);
  }
}

template <class T>
Node constantNode(VType type, T value) {
  Node node{.prim = Prim::kConst, .type = type};
  if constexpr (std::is_floating_point_v<T>) {
    node.number = static_cast<double>(value);
  } else {
    node.integer = static_cast<int64_t>(value);
  }
  return node;
}

template <class F>
auto withType(VType type, const F& f) {
  switch (type) {
    case VType::kF32:
      return f(float{});
    case VType::kF64:
      return f(double{});
    case VType::kI32:
      return f(int32_t{});
    case VType::kU32:
      return f(uint32_t{});
    case VType::kI64:
      return f(int64_t{});
    case VType::kU64:
      break;
  }
  return f(uint64_t{});
}

template <class T>
std::optional<Node> foldFloat(const Node& n, T a, T b) {
  switch (n.prim) {
    case Prim::kAdd:
      return constantNode<T>(n.type, a + b);
    case Prim::kSub:
      return constantNode<T>(n.type, a - b);
    case Prim::kMul:
      return constantNode<T>(n.type, a * b);
    case Prim::kDiv:
      return constantNode<T>(n.type, a / b);
    case Prim::kNeg:
      return constantNode<T>(n.type, -a);
    case Prim::kAbs:
      return constantNode<T>(n.type, std::fabs(a));
    case Prim::kSqrt:
      return constantNode<T>(n.type, std::sqrt(a));
    case Prim::kFloor:
      return constantNode<T>(n.type, std::floor(a));
    case Prim::kCeil:
      return constantNode<T>(n.type, std::ceil(a));
    case Prim::kTrunc:
      return constantNode<T>(n.type, std::trunc(a));
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<Node> foldInteger(const Node& n, T a, T b) {
  switch (n.prim) {
    case Prim::kAdd:
      return constantNode<T>(n.type, scalar::wrapAdd(a, b));
    case Prim::kSub:
      return constantNode<T>(n.type, scalar::wrapSub(a, b));
    case Prim::kMul:
      return constantNode<T>(n.type, scalar::wrapMul(a, b));
    case Prim::kDiv:
      return constantNode<T>(n.type, scalar::divide(a, b));
    case Prim::kMod:
      return constantNode<T>(n.type, scalar::modulo(a, b));
    case Prim::kMin:
      return constantNode<T>(n.type, a < b ? a : b);
    case Prim::kMax:
      return constantNode<T>(n.type, a < b ? b : a);
    case Prim::kNeg:
      return constantNode<T>(n.type, scalar::wrapNeg(a));
    case Prim::kAnd:
      return constantNode<T>(n.type, static_cast<T>(a & b));
    case Prim::kOr:
      return constantNode<T>(n.type, static_cast<T>(a | b));
    case Prim::kXor:
      return constantNode<T>(n.type, static_cast<T>(a ^ b));
    case Prim::kNot:
      return constantNode<T>(n.type, static_cast<T>(~a));
    case Prim::kShl:
      if constexpr (std::is_unsigned_v<T>) return constantNode<T>(n.type, scalar::shiftLeft(a, b));
      break;
    case Prim::kShr:
      if constexpr (std::is_unsigned_v<T>) return constantNode<T>(n.type, scalar::shiftRight(a, b));
      break;
    default:
      break;
  }
  return std::nullopt;
}

template <class T>
std::optional<Node> foldPredicate(const Node& n, T a, T b) {
  switch (n.prim) {
    case Prim::kLt:
      return constantNode<uint32_t>(VType::kU32, a < b);
    case Prim::kLe:
      return constantNode<uint32_t>(VType::kU32, a <= b);
    case Prim::kEq:
      return constantNode<uint32_t>(VType::kU32, a == b);
    case Prim::kNe:
      return constantNode<uint32_t>(VType::kU32, a != b);
    case Prim::kIsNan:
      return constantNode<uint32_t>(VType::kU32, scalar::isNan(a));
    case Prim::kIsInf:
      return constantNode<uint32_t>(VType::kU32,
                                    std::is_floating_point_v<T> && a - a != 0 && !scalar::isNan(a));
    default:
      return std::nullopt;
  }
}

std::optional<Node> foldConvert(const Node& n, const Node& from) {
  return withType(from.type, [&](auto source) {
    const auto value = valueOf<decltype(source)>(from);
    return withType(n.type, [&](auto target) {
      using To = decltype(target);
      return std::optional<Node>(constantNode<To>(n.type, scalar::convert<To>(value)));
    });
  });
}

bool isConst(const Node& n, double number) {
  if (n.prim != Prim::kConst) return false;
  return isFloatType(n.type) ? std::bit_cast<uint64_t>(n.number) == std::bit_cast<uint64_t>(number)
                             : static_cast<double>(n.integer) == number;
}

/// a op b where b is a neutral element in every bit.
int32_t simplifyBinary(const Node& n, const Node& a, const Node& b) {
  const bool isFloat = isFloatType(n.type);
  switch (n.prim) {
    case Prim::kAdd:
      if (isConst(b, isFloat ? -0.0 : 0.0)) return n.a;
      if (isConst(a, isFloat ? -0.0 : 0.0)) return n.b;
      return -1;
    case Prim::kSub:
      return isConst(b, 0.0) ? n.a : -1;
    case Prim::kMul:
      return isConst(b, 1.0) ? n.a : isConst(a, 1.0) ? n.b : -1;
    case Prim::kDiv:
    case Prim::kPow:
      return isConst(b, 1.0) ? n.a : -1;
    case Prim::kAnd:
    case Prim::kOr:
    case Prim::kMin:
    case Prim::kMax:
      return n.a == n.b ? n.a : -1;
    case Prim::kShl:
    case Prim::kShr:
      return isConst(b, 0.0) ? n.a : -1;
    default:
      return -1;
  }
}

}  // namespace

std::optional<Node> foldConstant(const Expr& expr, const Node& n) {
  const int operands = arity(n.prim);
  if (operands == 0 || n.prim == Prim::kPhilox || n.prim == Prim::kBitcast || n.prim == Prim::kRoundTo)
    return {};
  const Node& a = nodeAt(expr, n.a);
  if (a.prim != Prim::kConst) return {};
  if (n.prim == Prim::kSelect) return {};
  if (n.prim == Prim::kConvert) return foldConvert(n, a);
  const Node& b = operands == 2 ? nodeAt(expr, n.b) : a;
  if (b.prim != Prim::kConst) return {};
  return withType(a.type, [&](auto zero) -> std::optional<Node> {
    using T = decltype(zero);
    const T x = valueOf<T>(a), y = valueOf<T>(b);
    if (auto predicate = foldPredicate(n, x, y)) return predicate;
    if constexpr (std::is_floating_point_v<T>) {
      return foldFloat(n, x, y);
    } else {
      return foldInteger(n, x, y);
    }
  });
}

int32_t simplify(const Expr& expr, const Node& n) {
  const int operands = arity(n.prim);
  if (operands == 0) return -1;
  const Node& a = nodeAt(expr, n.a);
  switch (n.prim) {
    case Prim::kSelect:
      if (n.b == n.c) return n.b;
      return a.prim == Prim::kConst ? (a.integer != 0 ? n.b : n.c) : -1;
    case Prim::kConvert:
    case Prim::kBitcast:
      return a.type == n.type ? n.a : -1;
    case Prim::kRoundTo:
      if (n.dtype == DType::kFloat32 || n.dtype == DType::kFloat64 ||
          (!isFloatType(n.type) && n.dtype != DType::kBool && sizeOf(n.dtype) == sizeOf(n.type))) {
        return n.a;
      }
      return a.prim == Prim::kRoundTo && a.dtype == n.dtype ? n.a : -1;
    case Prim::kNeg:
    case Prim::kNot:
      return a.prim == n.prim ? a.a : -1;
    case Prim::kAbs:
      return a.prim == Prim::kAbs || isUnsignedType(n.type) ? n.a : -1;
    case Prim::kFloor:
    case Prim::kCeil:
    case Prim::kTrunc:
    case Prim::kRoundEven:
      return isFloatType(n.type) ? -1 : n.a;
    default:
      break;
  }
  return operands == 2 ? simplifyBinary(n, a, nodeAt(expr, n.b)) : -1;
}

Node normalizeConstant(Node node) {
  switch (node.type) {
    case VType::kF32:
      node.number = static_cast<float>(node.number);
      break;
    case VType::kI32:
      node.integer = static_cast<int32_t>(node.integer);
      break;
    case VType::kU32:
      node.integer = static_cast<uint32_t>(node.integer);
      break;
    default:
      break;
  }
  return node;
}

}  // namespace popxl::kernels::detail
