#pragma once

#include "kernels/jit_vec.h"

// The names of Highway that highway_math-inl.h uses, on values of the JIT: found by argument-dependent
// lookup, so that its functions are the one definition for both back ends.

namespace popxl::kernels::jit {

template <class Lane>
struct Mask {
  Builder* builder = nullptr;
  int32_t id = -1;
};

template <class Lane>
Mask<Lane> compareOf(Vec<Lane> a, Vec<Lane> b, Predicate p) {
  static_assert(kIsFloat<Lane>);
  return {a.builder, a.builder->binary(Op::kCompare, kWide<Lane>, a.id, b.id, p)};
}
template <class Lane>
Mask<Lane> maskOf(Op op, Mask<Lane> a, Mask<Lane> b) {
  return {a.builder, a.builder->binary(op, kWide<Lane>, a.id, b.id)};
}

template <class Lane>
Mask<Lane> Lt(Vec<Lane> a, Vec<Lane> b) {
  return compareOf(a, b, kLessThan);
}
template <class Lane>
Mask<Lane> Le(Vec<Lane> a, Vec<Lane> b) {
  return compareOf(a, b, kLessEqual);
}
template <class Lane>
Mask<Lane> Eq(Vec<Lane> a, Vec<Lane> b) {
  return compareOf(a, b, kEqualTo);
}
template <class Lane>
Mask<Lane> IsNaN(Vec<Lane> a) {
  return compareOf(a, a, kUnordered);
}
template <class Lane>
Mask<Lane> And(Mask<Lane> a, Mask<Lane> b) {
  return maskOf(Op::kMaskAnd, a, b);
}
template <class Lane>
Mask<Lane> Or(Mask<Lane> a, Mask<Lane> b) {
  return maskOf(Op::kMaskOr, a, b);
}
template <class Lane>
Mask<Lane> Not(Mask<Lane> a) {
  return {a.builder, a.builder->unary(Op::kMaskNot, kWide<Lane>, a.id)};
}
template <class To, class From>
Mask<To> RebindMask(Tag<To>, Mask<From> a) {
  static_assert(sizeof(To) == sizeof(From));
  return {a.builder, a.id};
}
template <class Lane>
Vec<Lane> IfThenElse(Mask<Lane> condition, Vec<Lane> yes, Vec<Lane> no) {
  return {yes.builder, yes.builder->ternary(Op::kBlend, kWide<Lane>, condition.id, yes.id, no.id)};
}
template <class Lane>
Vec<Lane> IfThenElseZero(Mask<Lane> condition, Vec<Lane> yes) {
  return IfThenElse(condition, yes, Zero(Tag<Lane>{yes.builder}));
}

}  // namespace popxl::kernels::jit
