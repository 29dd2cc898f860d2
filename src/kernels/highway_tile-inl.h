// Loops over tiles for one SIMD target; included by every highway_*.cpp once per target.
#if defined(POPXL_HIGHWAY_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POPXL_HIGHWAY_TILE_INL_H_
#undef POPXL_HIGHWAY_TILE_INL_H_
#else
#define POPXL_HIGHWAY_TILE_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE T* slot(const TileContext& tile, uint32_t index) {
  return reinterpret_cast<T*>(tile.slots[index]);
}

/// Op::run(d, a) gives a vector of R with as many lanes as T.
template <class T, class R, class Op>
void vectorUnary(const TileStep& s, const TileContext& tile) {
  const hn::CappedTag<T, kBlock> d;
  const hn::Rebind<R, decltype(d)> dr;
  const T* a = slot<T>(tile, s.a);
  R* out = slot<R>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA) {
    for (size_t j = 0; j < kBlock; j += hn::Lanes(d)) {
      hn::StoreU(Op::run(d, hn::LoadU(d, a + j)), dr, out + i + j);
    }
  }
}

template <class T, class R, class Op>
void vectorBinary(const TileStep& s, const TileContext& tile) {
  const hn::CappedTag<T, kBlock> d;
  const hn::Rebind<R, decltype(d)> dr;
  const T* a = slot<T>(tile, s.a);
  const T* b = slot<T>(tile, s.b);
  R* out = slot<R>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA, stepB = s.stepB;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA, b += stepB) {
    for (size_t j = 0; j < kBlock; j += hn::Lanes(d)) {
      hn::StoreU(Op::run(d, hn::LoadU(d, a + j), hn::LoadU(d, b + j)), dr, out + i + j);
    }
  }
}

/// Op::run(a) on one element; the compiler vectorises the inner loop where it can. An operand may be the same
/// memory as the result, element for element.
template <class T, class R, class Op>
void plainUnary(const TileStep& s, const TileContext& tile) {
  const T* a = slot<T>(tile, s.a);
  R* out = slot<R>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA) {
#pragma GCC ivdep
    for (int64_t j = 0; j < kBlock; ++j) out[i + j] = Op::run(a[j]);
  }
}

template <class T, class R, class Op>
void plainBinary(const TileStep& s, const TileContext& tile) {
  const T* a = slot<T>(tile, s.a);
  const T* b = slot<T>(tile, s.b);
  R* out = slot<R>(tile, s.dst);
  const int64_t n = tile.n, stepA = s.stepA, stepB = s.stepB;
  for (int64_t i = 0; i < n; i += kBlock, a += stepA, b += stepB) {
#pragma GCC ivdep
    for (int64_t j = 0; j < kBlock; ++j) out[i + j] = Op::run(a[j], b[j]);
  }
}

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
