// Building expressions: sharing, folding and identities that change no bit; wrong types.
#include "kernels/expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace popxl::kernels {
namespace {

const Node& nodeOf(Val v) { return v.expr->nodes()[static_cast<size_t>(v.id)]; }

TEST(Expr, EqualNodesAreShared) {
  Expr e;
  const Val a = input(e, 0, VType::kF32), b = input(e, 1, VType::kF32);
  EXPECT_EQ((a + b).id, (a + b).id);
  EXPECT_NE((a + b).id, (b + a).id);
  EXPECT_EQ(input(e, 0, VType::kF32).id, a.id);
  EXPECT_NE(input(e, 0, VType::kF32, 2).id, a.id);
  EXPECT_EQ((a * 0.1).id, (a * static_cast<double>(0.1f)).id) << "constants are rounded to their type";
  EXPECT_NE((a * 0.0).id, (a * -0.0).id);
  EXPECT_NE(roundTo(a, DType::kFloat16).id, roundTo(a, DType::kFloat8_143).id);
}

TEST(Expr, ConstantsFoldToTheSameBits) {
  Expr e;
  const auto f32 = [&](double v) { return constant(e, VType::kF32, v); };
  EXPECT_EQ(nodeOf(f32(0.1) + f32(0.2)).number, static_cast<double>(0.1f + 0.2f));
  EXPECT_EQ(nodeOf(f32(1.0) / f32(3.0)).number, static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(nodeOf(sqrt(f32(2.0))).number, static_cast<double>(std::sqrt(2.0f)));
  EXPECT_EQ(nodeOf(f32(1.0) < f32(2.0)).integer, 1);
  EXPECT_EQ(nodeOf(constant(e, VType::kI32, 7) / constant(e, VType::kI32, -2)).integer, -3);
  EXPECT_EQ(nodeOf(constant(e, VType::kI32, 7) / constant(e, VType::kI32, 0)).integer, 0);
  EXPECT_EQ(nodeOf(constant(e, VType::kI32, 0x7fffffff) + constant(e, VType::kI32, 1)).integer,
            -0x80000000ll);
  EXPECT_EQ(nodeOf(constant(e, VType::kF32, 3e9).convert(VType::kI32)).integer, 0x7fffffff);
  EXPECT_EQ(nodeOf(constant(e, VType::kF64, std::nan("")).convert(VType::kU32)).integer, 0);
  EXPECT_EQ(nodeOf(exp(f32(1.0))).prim, Prim::kExp) << "approximated primitives are not folded";
}

TEST(Expr, IdentitiesThatHoldForEveryBitPattern) {
  Expr e;
  const Val x = input(e, 0, VType::kF32), i = input(e, 1, VType::kI32);
  EXPECT_EQ((x * 1.0).id, x.id);
  EXPECT_EQ((x / 1.0).id, x.id);
  EXPECT_EQ((x - 0.0).id, x.id);
  EXPECT_EQ((x + -0.0).id, x.id);
  EXPECT_EQ((-(-x)).id, x.id);
  EXPECT_EQ(x.convert(VType::kF32).id, x.id);
  EXPECT_EQ(roundTo(x, DType::kFloat32).id, x.id);
  EXPECT_EQ((i + 0.0).id, i.id);
  EXPECT_EQ(unary(Prim::kFloor, i).id, i.id);
  EXPECT_EQ(select(x < 1.0, i, i).id, i.id);
  EXPECT_EQ(select(constant(e, VType::kU32, 0), x, x * 2.0).id, (x * 2.0).id);
}

TEST(Expr, NoIdentityThatLosesASignOrNaN) {
  Expr e;
  const Val x = input(e, 0, VType::kF32);
  EXPECT_NE((x + 0.0).id, x.id) << "-0 + 0 is 0";
  EXPECT_NE((x - -0.0).id, x.id);
  EXPECT_EQ(nodeOf(x * 0.0).prim, Prim::kMul) << "infinity * 0 is NaN";
  EXPECT_EQ(nodeOf(x - x).prim, Prim::kSub);
  EXPECT_EQ(nodeOf(eq(x, x)).prim, Prim::kEq);
}

TEST(Expr, WrongTypesAreInternalErrors) {
  Expr e, other;
  const Val f = input(e, 0, VType::kF32), d = input(e, 1, VType::kF64), i = input(e, 2, VType::kI32);
  EXPECT_THROW(f + d, InternalError);
  EXPECT_THROW(f + i, InternalError);
  EXPECT_THROW(f + input(other, 0, VType::kF32), InternalError);
  EXPECT_THROW(select(f, f, f), InternalError);
  EXPECT_THROW(binary(Prim::kAnd, f, f), InternalError);
  EXPECT_THROW(binary(Prim::kShl, i, i), InternalError);
  EXPECT_THROW(exp(i), InternalError);
  EXPECT_THROW(f.bitcast(VType::kF64), InternalError);
  EXPECT_THROW(roundTo(f, DType::kInt8), InternalError);
  EXPECT_THROW(i + 0.5, InternalError);
  EXPECT_THROW(computeType(DType::kComplex64), InternalError);
}

TEST(Expr, EveryStorageTypeHasAComputeType) {
  EXPECT_EQ(computeType(DType::kFloat8_152), VType::kF32);
  EXPECT_EQ(computeType(DType::kFloat16), VType::kF32);
  EXPECT_EQ(computeType(DType::kInt8), VType::kI32);
  EXPECT_EQ(computeType(DType::kBool), VType::kU32);
  EXPECT_EQ(computeType(DType::kUInt64), VType::kU64);
}

}  // namespace
}  // namespace popxl::kernels
