#include "ir/reference.h"

#include <gtest/gtest.h>
#include <popxl/popxl.h>

#include <cmath>
#include <cstdint>
#include <set>

// The numbers that definitions of ops are written in, and the engine that runs them.
namespace popxl {
namespace {

using ir::Array;
using ir::Number;

Number number(DType dtype, int64_t value) { return {dtype, Element{0, static_cast<uint64_t>(value)}}; }

TEST(Reference, IntegersAreExactAndWrap) {
  const Number large = number(DType::kInt64, INT64_MAX);
  EXPECT_EQ((large + number(DType::kInt64, 1)).integer(), INT64_MIN);
  EXPECT_EQ((number(DType::kInt64, 1) + number(DType::kInt64, 1) * large).integer(), INT64_MIN);
  EXPECT_EQ(number(DType::kInt64, 300).to(DType::kInt8).integer(), 44);
  EXPECT_TRUE(number(DType::kInt64, -1) < number(DType::kInt64, 0));
  EXPECT_TRUE(number(DType::kUInt64, 0) < number(DType::kUInt64, -1)) << "all bits: the largest";
  EXPECT_EQ(number(DType::kUInt64, -1).real(), 0x1p64);
}

TEST(Reference, FloatsAreRoundedOnceAndBecomeIntegersTowardsZero) {
  EXPECT_EQ((Number(1) + Number(0x1p-40)).real(), 1 + 0x1p-40);
  EXPECT_EQ((Number(1) + Number(0x1p-40)).to(DType::kFloat32).real(), 1);
  EXPECT_EQ(Number(65520).to(DType::kFloat16).real(), INFINITY);
  EXPECT_EQ(Number(-2.7).to(DType::kInt32).integer(), -2);
  EXPECT_EQ(Number(1e30).to(DType::kInt32).integer(), INT32_MAX);
  EXPECT_EQ(Number(-1e30).to(DType::kInt64).integer(), INT64_MIN);
  EXPECT_EQ(Number(NAN).to(DType::kInt32).integer(), 0);
  EXPECT_EQ(Number(0.5).to(DType::kBool).integer(), 1);
  EXPECT_EQ((Number(0.5) * number(DType::kInt32, 3)).real(), 1.5);
}

TEST(Reference, LinesCoverAnArrayOnce) {
  const Shape shape = {2, 3, 4};
  for (int64_t axis = 0; axis < 3; ++axis) {
    std::set<int64_t> seen;
    for (const ir::Line& line : ir::linesOf(shape, axis)) {
      EXPECT_EQ(line.size, shape[static_cast<size_t>(axis)]);
      for (int64_t i = 0; i < line.size; ++i) seen.insert(line[i]);
    }
    EXPECT_EQ(seen.size(), 24u);
    EXPECT_EQ(*seen.rbegin(), 23);
  }
  Array array(DType::kInt32, {1, 3});
  array[2] = number(DType::kInt32, 7);
  EXPECT_EQ(array.at(Shape{5, 4, 2}).integer(), 7) << "broadcast";
}

/// 2^24 + 1 is no float32: a sum in float32 that is rounded after every term stays at 2^24.
TEST(Reference, EngineSumsInFloat64) {
  Ir ir;
  const GraphScope scope(ir.mainGraph());
  const Tensor x = constant(std::vector<float>{0x1p24F, 1, 1, 1, 1}, {5});
  const Tensor total = ops::sum(x);
  const Stream out = ir.d2hStream(total.spec());
  ops::hostStore(out, total);
  std::vector<float> sum(1);
  Session session(ir, EngineKind::kReference);
  session.run(HostBuffers().out(out, sum));
  EXPECT_EQ(sum[0], 0x1p24F + 4);
  EXPECT_EQ(session.memory().frameBytes, 0);
}

}  // namespace
}  // namespace popxl
