// Primitives on integers, and select for every type: loops over blocks that the compiler vectorises per
// target.
#include "kernels/tile_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway_integer.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include "hwy/foreach_target.h"
#include "kernels/highway_tile-inl.h"
#include "kernels/scalar_ops.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {

#define POPXL_BINARY(name, result, expression) \
  struct name {                                \
    template <class T>                         \
    static HWY_INLINE result run(T a, T b) {   \
      return static_cast<result>(expression);  \
    }                                          \
  }
#define POPXL_UNARY(name, expression)    \
  struct name {                          \
    template <class T>                   \
    static HWY_INLINE T run(T a) {       \
      return static_cast<T>(expression); \
    }                                    \
  }

POPXL_BINARY(Add, T, scalar::wrapAdd(a, b));
POPXL_BINARY(Sub, T, scalar::wrapSub(a, b));
POPXL_BINARY(Mul, T, scalar::wrapMul(a, b));
POPXL_BINARY(Div, T, scalar::divide(a, b));
POPXL_BINARY(Mod, T, scalar::modulo(a, b));
POPXL_BINARY(Pow, T, scalar::power(a, b));
POPXL_BINARY(Min, T, a < b ? a : b);
POPXL_BINARY(Max, T, a < b ? b : a);
POPXL_BINARY(And, T, a& b);
POPXL_BINARY(Or, T, a | b);
POPXL_BINARY(Xor, T, a ^ b);
POPXL_BINARY(Shl, T, scalar::shiftLeft(a, b));
POPXL_BINARY(Shr, T, scalar::shiftRight(a, b));
POPXL_BINARY(Lt, uint32_t, a < b);
POPXL_BINARY(Le, uint32_t, a <= b);
POPXL_BINARY(Eq, uint32_t, a == b);
POPXL_BINARY(Ne, uint32_t, a != b);
POPXL_UNARY(Neg, scalar::wrapNeg(a));
POPXL_UNARY(Abs, a < 0 ? scalar::wrapNeg(a) : a);
POPXL_UNARY(Sign, (a > 0) - (a < 0));
POPXL_UNARY(Not, ~a);
struct No {
  template <class T>
  static HWY_INLINE uint32_t run(T) {
    return 0;
  }
};

template <class T>
TileStep::Fn findInteger(Prim prim) {
  switch (prim) {
    case Prim::kAdd:
      return plainBinary<T, T, Add>;
    case Prim::kSub:
      return plainBinary<T, T, Sub>;
    case Prim::kMul:
      return plainBinary<T, T, Mul>;
    case Prim::kDiv:
      return plainBinary<T, T, Div>;
    case Prim::kMod:
      return plainBinary<T, T, Mod>;
    case Prim::kPow:
      return plainBinary<T, T, Pow>;
    case Prim::kMin:
      return plainBinary<T, T, Min>;
    case Prim::kMax:
      return plainBinary<T, T, Max>;
    case Prim::kAnd:
      return plainBinary<T, T, And>;
    case Prim::kOr:
      return plainBinary<T, T, Or>;
    case Prim::kXor:
      return plainBinary<T, T, Xor>;
    case Prim::kLt:
      return plainBinary<T, uint32_t, Lt>;
    case Prim::kLe:
      return plainBinary<T, uint32_t, Le>;
    case Prim::kEq:
      return plainBinary<T, uint32_t, Eq>;
    case Prim::kNe:
      return plainBinary<T, uint32_t, Ne>;
    case Prim::kNeg:
      return plainUnary<T, T, Neg>;
    case Prim::kSign:
      return plainUnary<T, T, Sign>;
    case Prim::kNot:
      return plainUnary<T, T, Not>;
    case Prim::kIsNan:
    case Prim::kIsInf:
      return plainUnary<T, uint32_t, No>;
    default:
      break;
  }
  if constexpr (std::is_signed_v<T>) {
    return prim == Prim::kAbs ? plainUnary<T, T, Abs> : nullptr;
  } else {
    return prim == Prim::kShl   ? plainBinary<T, T, Shl>
           : prim == Prim::kShr ? plainBinary<T, T, Shr>
                                : nullptr;
  }
}

TileStep::Fn findAnyInteger(Prim prim, VType type) {
  switch (type) {
    case VType::kI32:
      return findInteger<int32_t>(prim);
    case VType::kU32:
      return findInteger<uint32_t>(prim);
    case VType::kI64:
      return findInteger<int64_t>(prim);
    case VType::kU64:
      return findInteger<uint64_t>(prim);
    default:
      return nullptr;
  }
}

/// Selection moves bits: one function a width.
template <class T>
void selectTile(const TileStep& s, const TileContext& tile) {
  const uint32_t* a = slot<uint32_t>(tile, s.a);
  const T* b = slot<T>(tile, s.b);
  const T* c = slot<T>(tile, s.c);
  T* out = slot<T>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA, stepB = s.stepB, stepC = s.stepC;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA, b += stepB, c += stepC) {
#pragma GCC ivdep
    for (int64_t j = 0; j < kBlock; ++j) {
      const T yes = b[j], no = c[j];
      out[i + j] = a[j] != 0 ? yes : no;
    }
  }
}

TileStep::Fn findSelect(bool wide) { return wide ? selectTile<uint64_t> : selectTile<uint32_t>; }

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels {
HWY_EXPORT(findAnyInteger);
HWY_EXPORT(findSelect);
TileStep::Fn integerFn(Prim prim, VType type) { return HWY_DYNAMIC_DISPATCH(findAnyInteger)(prim, type); }
TileStep::Fn selectFn(VType type) { return HWY_DYNAMIC_DISPATCH(findSelect)(sizeOf(type) == 8); }
}  // namespace popxl::kernels
#endif
