// Reading and writing tensors of every storage type.
#include "kernels/tile_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway_memory.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include <cstring>

#include "hwy/foreach_target.h"
#include "kernels/highway_convert-inl.h"
#include "kernels/highway_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {

/// The dense part of a half tensor that whole vectors cover; returns how many elements were done.
HWY_INLINE int64_t loadHalf(const uint16_t* from, int64_t n, float* to) {
  int64_t i = 0;
#if POPXL_HALF_INSTRUCTIONS
  const hn::CappedTag<float, kBlock> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from) + i)), d, to + i);
  }
#else
  (void)from, (void)n, (void)to;
#endif
  return i;
}

HWY_INLINE int64_t storeHalf(const float* from, int64_t n, uint16_t* to) {
  int64_t i = 0;
#if POPXL_HALF_INSTRUCTIONS
  const hn::CappedTag<float, kBlock> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, from + i)), dh, reinterpret_cast<hwy::float16_t*>(to) + i);
  }
#else
  (void)from, (void)n, (void)to;
#endif
  return i;
}

template <DType kStorage>
void load(const std::byte* source, int64_t stride, int64_t n, std::byte* out) {
  using S = Storage<kStorage>;
  using M = typename S::M;
  using C = typename S::C;
  const M* HWY_RESTRICT from = reinterpret_cast<const M*>(source);
  C* HWY_RESTRICT to = reinterpret_cast<C*>(out);
  if (stride == 1) {
    if constexpr (std::is_same_v<M, C>) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(C));
    } else {
      for (int64_t i = kStorage == DType::kFloat16 ? loadHalf(reinterpret_cast<const uint16_t*>(source), n,
                                                              reinterpret_cast<float*>(out))
                                                   : 0;
           i < n; ++i) {
        to[i] = S::read(from[i]);
      }
    }
  } else if (stride == 0) {
    const C value = S::read(*from);
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = S::read(from[i * stride]);
  }
}

template <DType kStorage>
void store(const std::byte* values, int64_t n, std::byte* out, int64_t stride) {
  using S = Storage<kStorage>;
  using M = typename S::M;
  using C = typename S::C;
  const C* HWY_RESTRICT from = reinterpret_cast<const C*>(values);
  M* HWY_RESTRICT to = reinterpret_cast<M*>(out);
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) to[i * stride] = S::write(from[i]);
  } else if constexpr (std::is_same_v<M, C>) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(C));
  } else {
    for (int64_t i = kStorage == DType::kFloat16 ? storeHalf(reinterpret_cast<const float*>(values), n,
                                                             reinterpret_cast<uint16_t*>(out))
                                                 : 0;
         i < n; ++i) {
      to[i] = S::write(from[i]);
    }
  }
}

LoadFn findLoad(DType storage) {
  switch (storage) {
#define POPXL_CASE(type) \
  case DType::type:      \
    return load<DType::type>;
    POPXL_TYPES(POPXL_CASE)
#undef POPXL_CASE
    default:
      return nullptr;
  }
}

StoreFn findStore(DType storage) {
  switch (storage) {
#define POPXL_CASE(type) \
  case DType::type:      \
    return store<DType::type>;
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
HWY_EXPORT(findLoad);
HWY_EXPORT(findStore);
LoadFn loadFn(DType storage) { return HWY_DYNAMIC_DISPATCH(findLoad)(storage); }
StoreFn storeFn(DType storage) { return HWY_DYNAMIC_DISPATCH(findStore)(storage); }

bool isComputeStorage(DType t) {
  return t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kInt32 || t == DType::kUInt32 ||
         t == DType::kInt64 || t == DType::kUInt64;
}
}  // namespace popxl::kernels
#endif
