// Storage types to compute types and back, for one SIMD target.
#if defined(POPXL_HIGHWAY_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POPXL_HIGHWAY_CONVERT_INL_H_
#undef POPXL_HIGHWAY_CONVERT_INL_H_
#else
#define POPXL_HIGHWAY_CONVERT_INL_H_
#endif

#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include "base/half.h"
#include "hwy/highway.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
/// Without branches, so that loops vectorise where the CPU has no conversion instruction.
HWY_INLINE float fromHalf(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  // Moves the exponent by a multiplication, which is exact and treats denormals alike.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t value = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;
  return std::bit_cast<float>(value | sign);
}

HWY_INLINE uint16_t toHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t result = magnitude < 0x38800000u ? small : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? nan : result;
  return static_cast<uint16_t>(result | sign);
}

/// Mantissa bits and exponent bias of the two float8 formats.
template <DType kFormat>
struct Float8 {
  static constexpr int kMantissa = kFormat == DType::kFloat8_143 ? 3 : 2;
  static constexpr int kBias = kFormat == DType::kFloat8_143 ? 8 : 16;
  static constexpr float kLargest = kFormat == DType::kFloat8_143 ? 240.0f : 57344.0f;

  static const std::array<float, 256>& table() {
    static const std::array<float, 256> values = [] {
      std::array<float, 256> v{};
      for (int i = 0; i < 256; ++i)
        v[static_cast<size_t>(i)] = float8ToFloat(static_cast<uint8_t>(i), kFormat);
      return v;
    }();
    return values;
  }

  static HWY_INLINE uint8_t encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 24) & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    const float size = std::bit_cast<float>(magnitude);
    const float inRange = size < kLargest ? size : kLargest;
    // Adding 2^23 quanta rounds to the quantum: that of the value's binade, or the denormals' one.
    const uint32_t exponent = std::bit_cast<uint32_t>(inRange) >> 23;
    constexpr uint32_t kLowest = 127 + 1 - kBias;
    const uint32_t binade = exponent > kLowest ? exponent : kLowest;
    const float magic = std::bit_cast<float>((binade + 23 - kMantissa) << 23);
    const float rounded = (inRange + magic) - magic;
    const uint32_t denormal =
        std::bit_cast<uint32_t>(rounded * std::bit_cast<float>((127 - 1 + kBias + kMantissa) << 23) +
                                0x1p23f) &
        0x7fu;
    const uint32_t normal =
        (std::bit_cast<uint32_t>(rounded) >> (23 - kMantissa)) - ((127 - kBias) << kMantissa);
    uint32_t result = rounded < std::bit_cast<float>(kLowest << 23) ? denormal : normal;
    result = result == 0 ? 0u : result | sign;
    return static_cast<uint8_t>(magnitude >= 0x7f800000u ? 0x80u : result);
  }
};

/// How elements of a storage type are read and written one at a time.
template <DType kStorage>
struct Storage;
template <class Memory, class Compute>
struct PlainStorage {
  using M = Memory;
  using C = Compute;
  static HWY_INLINE C read(M v) { return static_cast<C>(v); }
  static HWY_INLINE M write(C v) { return static_cast<M>(v); }
};
#undef POPXL_PLAIN
#define POPXL_PLAIN(dtype, memory, compute) \
  template <>                               \
  struct Storage<DType::dtype> : PlainStorage<memory, compute> {}
POPXL_PLAIN(kFloat32, float, float);
POPXL_PLAIN(kFloat64, double, double);
POPXL_PLAIN(kInt8, int8_t, int32_t);
POPXL_PLAIN(kInt16, int16_t, int32_t);
POPXL_PLAIN(kInt32, int32_t, int32_t);
POPXL_PLAIN(kInt64, int64_t, int64_t);
POPXL_PLAIN(kUInt8, uint8_t, uint32_t);
POPXL_PLAIN(kUInt16, uint16_t, uint32_t);
POPXL_PLAIN(kUInt32, uint32_t, uint32_t);
POPXL_PLAIN(kUInt64, uint64_t, uint64_t);
template <>
struct Storage<DType::kBool> {
  using M = uint8_t;
  using C = uint32_t;
  static HWY_INLINE C read(M v) { return v != 0 ? 1 : 0; }
  static HWY_INLINE M write(C v) { return v != 0 ? 1 : 0; }
};
template <>
struct Storage<DType::kFloat16> {
  using M = uint16_t;
  using C = float;
  static HWY_INLINE C read(M v) { return fromHalf(v); }
  static HWY_INLINE M write(C v) { return toHalf(v); }
};
template <DType kFormat>
struct Storage8 {
  using M = uint8_t;
  using C = float;
  static HWY_INLINE C read(M v) { return Float8<kFormat>::table()[v]; }
  static HWY_INLINE M write(C v) { return Float8<kFormat>::encode(v); }
};
template <>
struct Storage<DType::kFloat8_143> : Storage8<DType::kFloat8_143> {};
template <>
struct Storage<DType::kFloat8_152> : Storage8<DType::kFloat8_152> {};

#undef POPXL_HALF_INSTRUCTIONS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define POPXL_HALF_INSTRUCTIONS 1
#else
#define POPXL_HALF_INSTRUCTIONS 0
#endif

#undef POPXL_TYPES
#define POPXL_TYPES(use)                                                                             \
  use(kFloat8_143) use(kFloat8_152) use(kFloat16) use(kFloat32) use(kFloat64) use(kInt8) use(kInt16) \
      use(kInt32) use(kInt64) use(kUInt8) use(kUInt16) use(kUInt32) use(kUInt64) use(kBool)

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
