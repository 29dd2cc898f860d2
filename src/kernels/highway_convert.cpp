// Conversions between compute types, rounding to storage types, random bits; and the choice among all
// primitives.
#include "kernels/tile_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway_convert.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include "base/error.h"
#include "hwy/foreach_target.h"
#include "kernels/highway_convert-inl.h"
#include "kernels/highway_tile-inl.h"
#include "kernels/philox.h"
#include "kernels/scalar_ops.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {

template <class To>
struct Convert {
  template <class From>
  static HWY_INLINE To run(From a) {
    return scalar::convert<To>(a);
  }
};

template <class From>
TileStep::Fn findConvertFrom(VType to) {
  switch (to) {
    case VType::kF32:
      return plainUnary<From, float, Convert<float>>;
    case VType::kF64:
      return plainUnary<From, double, Convert<double>>;
    case VType::kI32:
      return plainUnary<From, int32_t, Convert<int32_t>>;
    case VType::kU32:
      return plainUnary<From, uint32_t, Convert<uint32_t>>;
    case VType::kI64:
      return plainUnary<From, int64_t, Convert<int64_t>>;
    case VType::kU64:
      break;
  }
  return plainUnary<From, uint64_t, Convert<uint64_t>>;
}

TileStep::Fn findConvert(VType from, VType to) {
  switch (from) {
    case VType::kF32:
      return findConvertFrom<float>(to);
    case VType::kF64:
      return findConvertFrom<double>(to);
    case VType::kI32:
      return findConvertFrom<int32_t>(to);
    case VType::kU32:
      return findConvertFrom<uint32_t>(to);
    case VType::kI64:
      return findConvertFrom<int64_t>(to);
    case VType::kU64:
      break;
  }
  return findConvertFrom<uint64_t>(to);
}

template <DType kStorage>
struct RoundTo {
  using S = Storage<kStorage>;
  static HWY_INLINE typename S::C run(typename S::C a) { return S::read(S::write(a)); }
};

#if POPXL_HALF_INSTRUCTIONS
struct RoundToHalf {
  template <class D, class V>
  static HWY_INLINE V run(D d, V a) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::DemoteTo(dh, a));
  }
};
#endif

TileStep::Fn findRound(DType storage) {
#if POPXL_HALF_INSTRUCTIONS
  if (storage == DType::kFloat16) return vectorUnary<float, float, RoundToHalf>;
#endif
  switch (storage) {
#define POPXL_CASE(type)                           \
  case DType::type: {                              \
    using C = Storage<DType::type>::C;             \
    return plainUnary<C, C, RoundTo<DType::type>>; \
  }
    POPXL_TYPES(POPXL_CASE)
#undef POPXL_CASE
    default:
      return nullptr;
  }
}

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels {
namespace {

void philoxTile(const TileStep& s, const TileContext& tile) {
  const auto* a = reinterpret_cast<const uint32_t*>(tile.slots[s.a]);
  const auto* b = reinterpret_cast<const uint32_t*>(tile.slots[s.b]);
  auto* out = reinterpret_cast<uint32_t*>(tile.slots[s.dst]);
  if (s.stepA == 0 && s.stepB == 0) return philoxFill(*a, *b, s.stream, tile.position, tile.n, out);
  for (int64_t i = 0; i < tile.n; i += kBlock, a += s.stepA, b += s.stepB) {
    for (int64_t j = 0; j < kBlock; ++j) {
      out[i + j] = philox(a[j], b[j], tile.position + static_cast<uint64_t>(i + j), s.stream);
    }
  }
}

}  // namespace

HWY_EXPORT(findConvert);
HWY_EXPORT(findRound);
TileStep::Fn convertFn(VType from, VType to) { return HWY_DYNAMIC_DISPATCH(findConvert)(from, to); }
TileStep::Fn roundFn(DType storage) { return HWY_DYNAMIC_DISPATCH(findRound)(storage); }
TileStep::Fn philoxFn() { return philoxTile; }

TileStep::Fn tileFn(const Node& node, VType operand) {
  TileStep::Fn fn = nullptr;
  switch (node.prim) {
    case Prim::kSelect:
      fn = selectFn(operand);
      break;
    case Prim::kConvert:
      fn = convertFn(operand, node.type);
      break;
    case Prim::kRoundTo:
      fn = roundFn(node.dtype);
      break;
    case Prim::kPhilox:
      fn = philoxFn();
      break;
    default:
      if (!isFloatType(operand)) {
        fn = integerFn(node.prim, operand);
      } else {
        fn = floatFn(node.prim, operand);
        if (fn == nullptr) fn = mathFn(node.prim, operand);
      }
  }
  POPXL_ASSERT(fn != nullptr, "primitive {} of type {} has no code", static_cast<int>(node.prim),
               static_cast<int>(operand));
  return fn;
}

}  // namespace popxl::kernels
#endif
