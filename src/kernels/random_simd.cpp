#include "kernels/random_simd.h"

#include "kernels/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/random_simd.cpp"
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
void words(uint32_t seed0, uint32_t seed1, uint32_t stream, uint64_t block, int64_t n, uint32_t* out) {
  for (int64_t i = 0; i < n; i += 4) {
    const auto four = philoxElements(seed0, seed1, block + static_cast<uint64_t>(i / 4), stream);
    for (int64_t w = 0; w < 4; ++w) out[i + w] = four[static_cast<size_t>(w)];
  }
}
#else
/// Low and high halves of the 64-bit products of 32-bit lanes.
template <class D, class V>
HWY_INLINE void multiply(D d, V a, V b, V& low, V& high) {
  const hn::RepartitionToWide<D> dw;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(dw, a))), b);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

void words(uint32_t seed0, uint32_t seed1, uint32_t stream, uint64_t block, int64_t n, uint32_t* out) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  const auto step0 = hn::Set(d, 0x9E3779B9u), step1 = hn::Set(d, 0xBB67AE85u);
  for (int64_t i = 0; i < n; i += 4 * lanes) {
    auto c0 =
        hn::Add(hn::Set(d, static_cast<uint32_t>(block + static_cast<uint64_t>(i / 4))), hn::Iota(d, 0u));
    auto c1 = hn::Set(d, static_cast<uint32_t>(block >> 32)), c2 = hn::Set(d, stream);
    auto c3 = hn::Set(d, static_cast<uint32_t>(PhiloxUse::kElements));
    auto k0 = hn::Set(d, seed0), k1 = hn::Set(d, seed1);
    for (int round = 0; round < 10; ++round) {
      auto low0 = c0, high0 = c0, low1 = c0, high1 = c0;
      multiply(d, c0, m0, low0, high0);
      multiply(d, c2, m1, low1, high1);
      c0 = hn::Xor(hn::Xor(high1, c1), k0);
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), k1);
      c3 = low0;
      k0 = hn::Add(k0, step0);
      k1 = hn::Add(k1, step1);
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, out + i);
  }
}
#endif

/// Words as numbers in [0, 1), or in (0, 1] when `above` is 1: 24 of a word's bits, 53 of two words'.
template <class D, class VU>
HWY_INLINE hn::Vec<D> unit(D d, VU bits, int above) {
  using C = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  constexpr int kDrop = sizeof(C) == 4 ? 8 : 11;
  const auto scale = hn::Set(d, static_cast<C>(sizeof(C) == 4 ? 0x1p-24 : 0x1p-53));
  const auto number = hn::Add(hn::BitCast(di, hn::ShiftRight<kDrop>(bits)), hn::Set(di, above));
  return hn::Mul(hn::ConvertTo(d, number), scale);
}

template <typename C, typename U>
HWY_INLINE void uniformLoop(const U* words, C low, C range, C most, C* out, int64_t n) {
  const hn::ScalableTag<C> d;
  const hn::ScalableTag<U> du;
  const auto vl = hn::Set(d, low), vr = hn::Set(d, range), vm = hn::Set(d, most);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto u = unit(d, hn::Load(du, words + i), 0);
    hn::Store(hn::Min(hn::MulAdd(u, vr, vl), vm), d, out + i);
  }
}

template <typename C, typename U>
HWY_INLINE void normalLoop(const U* words, C mean, C std, C* out, int64_t n) {
  const hn::ScalableTag<C> d;
  const hn::ScalableTag<U> du;
  const auto vm = hn::Set(d, mean), vs = hn::Set(d, std);
  const auto minusTwo = hn::Set(d, C{-2}), turn = hn::Set(d, static_cast<C>(6.283185307179586));
  for (int64_t i = 0; i < n; i += 2 * static_cast<int64_t>(hn::Lanes(d))) {
    auto first = hn::Zero(du), second = first;
    hn::LoadInterleaved2(du, words + i, first, second);
    // A radius from all 32 bits: its logarithm decides how far out the tail reaches.
    auto u = unit(d, first, 1);
    if constexpr (sizeof(C) == 4) {
      const hn::RebindToSigned<decltype(d)> di;
      const auto high = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(first)));
      const auto low = hn::ConvertTo(d, hn::BitCast(di, hn::And(first, hn::Set(du, U{255}))));
      u = hn::MulAdd(high, hn::Set(d, C{0x1p-24f}),
                     hn::Mul(hn::Add(low, hn::Set(d, C{1})), hn::Set(d, C{0x1p-32f})));
    }
    const auto radius = hn::Mul(vs, hn::Sqrt(hn::Max(hn::Mul(minusTwo, hn::Log(d, u)), hn::Zero(d))));
    const auto angle = hn::Mul(turn, unit(d, second, 0));
    hn::StoreInterleaved2(hn::MulAdd(radius, hn::Cos(d, angle), vm),
                          hn::MulAdd(radius, hn::Sin(d, angle), vm), d, out + i);
  }
}

void uniformFloat(const uint32_t* words, float low, float range, float most, float* out, int64_t n) {
  uniformLoop(words, low, range, most, out, n);
}
void uniformDouble(const uint32_t* words, double low, double range, double most, double* out, int64_t n) {
  uniformLoop(reinterpret_cast<const uint64_t*>(words), low, range, most, out, n);
}
void normalFloat(const uint32_t* words, float mean, float std, float* out, int64_t n) {
  normalLoop(words, mean, std, out, n);
}
void normalDouble(const uint32_t* words, double mean, double std, double* out, int64_t n) {
  normalLoop(reinterpret_cast<const uint64_t*>(words), mean, std, out, n);
}

const RandomOps* randomTable() {
  static constexpr RandomOps kTable = {words, uniformFloat, uniformDouble, normalFloat, normalDouble};
  return &kTable;
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(randomTable);

const RandomOps& randomOps() {
  static const RandomOps* const table = HWY_DYNAMIC_DISPATCH(randomTable)();
  return *table;
}

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
