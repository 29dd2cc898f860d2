#include "base/half.h"
#include "kernels/rows_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/move_simd.cpp"
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Where the conversion is an instruction it is IEEE's; the emulated one is left to base/half.h.
#undef POPXL_HALF_INSTRUCTIONS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define POPXL_HALF_INSTRUCTIONS 1
#else
#define POPXL_HALF_INSTRUCTIONS 0
#endif

void halfToFloats(const uint16_t* x, float* y, int64_t n) {
  int64_t i = 0;
#if POPXL_HALF_INSTRUCTIONS
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(du, x + i))), d, y + i);
  }
#endif
  for (; i < n; ++i) y[i] = halfToFloat(x[i]);
}

void floatsToHalf(const float* x, uint16_t* y, int64_t n) {
  int64_t i = 0;
#if POPXL_HALF_INSTRUCTIONS
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const hn::Rebind<uint16_t, decltype(d)> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::BitCast(du, hn::DemoteTo(dh, hn::LoadU(d, x + i))), du, y + i);
  }
#endif
  for (; i < n; ++i) y[i] = floatToHalf(x[i]);
}

void streamBytes(const std::byte* src, std::byte* dst, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto misaligned =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) % static_cast<uintptr_t>(lanes));
  const int64_t head = std::min(bytes, misaligned == 0 ? 0 : lanes - misaligned);
  std::memcpy(dst, src, static_cast<size_t>(head));
  const auto* in = reinterpret_cast<const uint8_t*>(src);
  auto* out = reinterpret_cast<uint8_t*>(dst);
  int64_t i = head;
  for (; i + lanes <= bytes; i += lanes) hn::Stream(hn::LoadU(d, in + i), d, out + i);
  std::memcpy(out + i, in + i, static_cast<size_t>(bytes - i));
}

/// One block of 16 bytes by as many rows: `log2(kSide)` perfect shuffles transpose it.
template <typename T>
HWY_INLINE void transposeBlock(const std::byte* src, int64_t srcStride, std::byte* dst, int64_t dstStride) {
  constexpr int kSide = 16 / sizeof(T);
#if HWY_TARGET == HWY_SCALAR
  for (int r = 0; r < kSide; ++r) {
    for (int c = 0; c < kSide; ++c) {
      reinterpret_cast<T*>(dst + c * dstStride)[r] = reinterpret_cast<const T*>(src + r * srcStride)[c];
    }
  }
#else
  const hn::Full128<T> d;
  hn::Vec<decltype(d)> a[kSide], b[kSide];
  for (int i = 0; i < kSide; ++i) a[i] = hn::LoadU(d, reinterpret_cast<const T*>(src + i * srcStride));
  for (int step = 1; step < kSide; step *= 2) {
    for (int i = 0; i < kSide / 2; ++i) {
      b[2 * i] = hn::InterleaveLower(d, a[i], a[i + kSide / 2]);
      b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + kSide / 2]);
    }
    for (int i = 0; i < kSide; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kSide; ++i) hn::StoreU(a[i], d, reinterpret_cast<T*>(dst + i * dstStride));
#endif
}

template <typename T>
HWY_INLINE void transposeScalar(const std::byte* src, int64_t srcStride, std::byte* dst, int64_t dstStride,
                                int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(dst + c * dstStride + r * static_cast<int64_t>(sizeof(T)),
                  src + r * srcStride + c * static_cast<int64_t>(sizeof(T)), sizeof(T));
    }
  }
}

template <typename T>
void transposeTyped(const std::byte* src, int64_t srcStride, std::byte* dst, int64_t dstStride, int64_t rows,
                    int64_t columns) {
  constexpr int64_t kSize = sizeof(T), kSide = 16 / kSize;
  // Squares of one cache line a row: strides of a power of two put all rows of a square into the same few
  // sets.
  constexpr int64_t kTile = 64 / kSize;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile), rBlocks = r0 + (r1 - r0) / kSide * kSide;
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile), cBlocks = c0 + (c1 - c0) / kSide * kSide;
      for (int64_t c = c0; c < cBlocks; c += kSide) {
        for (int64_t r = r0; r < rBlocks; r += kSide) {
          transposeBlock<T>(src + r * srcStride + c * kSize, srcStride, dst + c * dstStride + r * kSize,
                            dstStride);
        }
      }
      transposeScalar<T>(src + rBlocks * srcStride + c0 * kSize, srcStride,
                         dst + c0 * dstStride + rBlocks * kSize, dstStride, r1 - rBlocks, c1 - c0);
      transposeScalar<T>(src + r0 * srcStride + cBlocks * kSize, srcStride,
                         dst + cBlocks * dstStride + r0 * kSize, dstStride, rBlocks - r0, c1 - cBlocks);
    }
  }
}

void transpose(const std::byte* src, int64_t srcStride, std::byte* dst, int64_t dstStride, int64_t rows,
               int64_t columns, int64_t elementBytes) {
  switch (elementBytes) {
    case 1:
      return transposeTyped<uint8_t>(src, srcStride, dst, dstStride, rows, columns);
    case 2:
      return transposeTyped<uint16_t>(src, srcStride, dst, dstStride, rows, columns);
    case 4:
      return transposeTyped<uint32_t>(src, srcStride, dst, dstStride, rows, columns);
    default:
      return transposeTyped<uint64_t>(src, srcStride, dst, dstStride, rows, columns);
  }
}

const MoveOps* moveTable() {
  static constexpr MoveOps kTable = {halfToFloats, floatsToHalf, streamBytes, transpose};
  return &kTable;
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(moveTable);

const MoveOps& moveOps() {
  static const MoveOps* const table = HWY_DYNAMIC_DISPATCH(moveTable)();
  return *table;
}

void flushStream() { hwy::FlushStream(); }

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
