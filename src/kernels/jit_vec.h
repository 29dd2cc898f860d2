#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include "kernels/jit_code.h"

// The names of Highway that highway_math-inl.h uses, on values of the JIT: found by argument-dependent
// lookup, so that its functions are the one definition for both back ends.

namespace popxl::kernels::jit {

template <class Lane>
struct Tag {
  using T = Lane;
  template <class To>
  using Rebind = Tag<To>;
  Builder* builder = nullptr;
};

template <class Lane>
struct Vec {
  Builder* builder = nullptr;
  int32_t id = -1;
};

template <class Lane>
inline constexpr bool kWide = sizeof(Lane) == 8;
template <class Lane>
inline constexpr bool kIsFloat = std::floating_point<Lane>;

template <class Lane>
Vec<Lane> unaryOf(Op op, Vec<Lane> a, int imm = 0) {
  return {a.builder, a.builder->unary(op, kWide<Lane>, a.id, imm)};
}
template <class Lane>
Vec<Lane> binaryOf(Op op, Vec<Lane> a, Vec<Lane> b) {
  return {a.builder, a.builder->binary(op, kWide<Lane>, a.id, b.id)};
}
inline Tag<int32_t> signedTag(Tag<float> d) { return {d.builder}; }
template <class Lane, class Number>
Vec<Lane> Set(Tag<Lane> d, Number number) {
  using Bits = std::conditional_t<kWide<Lane>, uint64_t, uint32_t>;
  return {d.builder, d.builder->constant(std::bit_cast<Bits>(static_cast<Lane>(number)), kWide<Lane>)};
}
template <class Lane>
Vec<Lane> Zero(Tag<Lane> d) {
  return Set(d, Lane{0});
}
template <class Lane>
Vec<Lane> Inf(Tag<Lane> d) {
  return Set(d, std::numeric_limits<Lane>::infinity());
}
template <class Lane>
Vec<Lane> NaN(Tag<Lane> d) {
  if constexpr (kWide<Lane>) return {d.builder, d.builder->constant(0x7fffffffffffffffu, true)};
  return {d.builder, d.builder->constant(0x7fffffffu, false)};
}
template <class Lane>
Vec<Lane> SignBit(Tag<Lane> d) {
  return {d.builder, d.builder->constant(uint64_t{1} << (sizeof(Lane) * 8 - 1), kWide<Lane>)};
}
template <class To, class From>
Vec<To> BitCast(Tag<To>, Vec<From> a) {
  return {a.builder, a.id};
}

template <class Lane>
Vec<Lane> Add(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(kIsFloat<Lane> ? Op::kAdd : Op::kIntAdd, a, b);
}
template <class Lane>
Vec<Lane> Sub(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(kIsFloat<Lane> ? Op::kSub : Op::kIntSub, a, b);
}
template <class Lane>
Vec<Lane> Mul(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(kIsFloat<Lane> ? Op::kMul : Op::kIntMul, a, b);
}
template <class Lane>
Vec<Lane> Div(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(Op::kDiv, a, b);
}
template <class Lane>
Vec<Lane> Min(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(Op::kMin, a, b);
}
template <class Lane>
Vec<Lane> Max(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(Op::kMax, a, b);
}
template <class Lane>
Vec<Lane> MulAdd(Vec<Lane> a, Vec<Lane> b, Vec<Lane> c) {
  return {a.builder, a.builder->ternary(Op::kFma, kWide<Lane>, a.id, b.id, c.id)};
}
template <class Lane>
Vec<Lane> NegMulAdd(Vec<Lane> a, Vec<Lane> b, Vec<Lane> c) {
  return {a.builder, a.builder->ternary(Op::kFnma, kWide<Lane>, a.id, b.id, c.id)};
}
template <class Lane>
Vec<Lane> Round(Vec<Lane> a) {
  return unaryOf(Op::kRound, a, 0);
}
template <class Lane>
Vec<Lane> Floor(Vec<Lane> a) {
  return unaryOf(Op::kRound, a, 1);
}
template <class Lane>
Vec<Lane> And(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(Op::kAnd, a, b);
}
template <class Lane>
Vec<Lane> Or(Vec<Lane> a, Vec<Lane> b) {
  return binaryOf(Op::kOr, a, b);
}
template <class Lane>
Vec<Lane> Neg(Vec<Lane> a) {
  return binaryOf(Op::kXor, a, SignBit(Tag<Lane>{a.builder}));
}
template <class Lane>
Vec<Lane> Abs(Vec<Lane> a) {
  return binaryOf(Op::kAndNot, SignBit(Tag<Lane>{a.builder}), a);
}
template <class Lane>
Vec<Lane> CopySign(Vec<Lane> size, Vec<Lane> sign) {
  const Vec<Lane> bit = SignBit(Tag<Lane>{size.builder});
  return Or(binaryOf(Op::kAndNot, bit, size), And(bit, sign));
}
template <int kBits, class Lane>
Vec<Lane> ShiftLeft(Vec<Lane> a) {
  return unaryOf(Op::kShiftLeft, a, kBits);
}
template <int kBits, class Lane>
Vec<Lane> ShiftRight(Vec<Lane> a) {
  return unaryOf(std::is_signed_v<Lane> ? Op::kShiftRightSigned : Op::kShiftRight, a, kBits);
}
inline Vec<int32_t> ConvertTo(Tag<int32_t>, Vec<float> a) {
  return {a.builder, a.builder->unary(Op::kF32ToI32, false, a.id)};
}
inline Vec<float> ConvertTo(Tag<float>, Vec<int32_t> a) {
  return {a.builder, a.builder->unary(Op::kI32ToF32, false, a.id)};
}

}  // namespace popxl::kernels::jit
