#include "kernels/matmul.h"

#include "base/error.h"
#include "dense_test.h"

namespace popxl::test {
namespace {

using kernels::makeMatmul;
using kernels::MatmulSpec;

/// Row-major index into `shape` of the position `index` of the broadcast batch `to`.
int64_t broadcastIndex(int64_t index, const Shape& to, const Shape& shape) {
  int64_t result = 0, step = 1;
  for (size_t back = 1; back <= to.size(); ++back) {
    const int64_t i = index % to[to.size() - back];
    index /= to[to.size() - back];
    if (back > shape.size()) continue;
    const int64_t dim = shape[shape.size() - back];
    result += (dim == 1 ? 0 : i) * step;
    step *= dim;
  }
  return result;
}

void checkValues(const MatmulSpec& spec, const Tensor& lhs, const Tensor& rhs, const Tensor& out, int scale) {
  const auto batchOf = [](const Layout& l) { return Shape(l.shape.begin(), l.shape.end() - 2); };
  const Shape batch = batchOf(spec.out);
  const int64_t m = spec.out.shape[batch.size()], n = spec.out.shape.back(), k = spec.lhs.shape.back();
  for (int64_t index = 0; index < spec.out.numElements(); ++index) {
    const int64_t b = index / (m * n), i = index / n % m, j = index % n;
    const int64_t l = broadcastIndex(b, batch, batchOf(spec.lhs)) * m * k + i * k;
    const int64_t r = broadcastIndex(b, batch, batchOf(spec.rhs)) * k * n + j;
    if (isInt(spec.out.dtype)) {
      uint64_t sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += getInt(lhs, l + p) * getInt(rhs, r + p * n);
      ASSERT_EQ(getInt(out, index), wrapTo(spec.out.dtype, sum)) << nameOf(spec.out.dtype) << " at " << index;
      continue;
    }
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += get(lhs, l + p) * get(rhs, r + p * n);
    sum = std::ldexp(sum, scale);
    ASSERT_NEAR(get(out, index), sum, toleranceOf(spec.lhs, spec.rhs, spec.out.dtype, k, sum))
        << nameOf(spec.lhs.dtype) << " " << toString(spec.lhs.shape) << " " << toString(spec.lhs.strides)
        << " x " << toString(spec.rhs.shape) << " " << toString(spec.rhs.strides) << " at " << index;
  }
}

void check(std::mt19937& rng, const MatmulSpec& spec) {
  const kernels::KernelPtr kernel = makeMatmul(spec);
  const Tensor lhs = randomTensor(rng, spec.lhs), rhs = randomTensor(rng, spec.rhs);
  Tensor out = makeTensor(spec.out), left = lhs, right = rhs;
  int32_t scale = spec.scaled ? static_cast<int32_t>(rng() % 7) - 3 : 0;
  std::vector<std::byte*> inputs{left.data(), right.data()};
  if (spec.scaled) inputs.push_back(reinterpret_cast<std::byte*>(&scale));
  auto operands = inputs;
  operands.push_back(out.data());
  runKernel(*kernel, operands);
  EXPECT_EQ(left.memory, lhs.memory);
  EXPECT_EQ(right.memory, rhs.memory);
  checkValues(spec, lhs, rhs, out, scale);
  expectSameBits(*kernel, inputs, out);
  EXPECT_FALSE(kernel->describe().empty());
}

MatmulSpec randomSpec(std::mt19937& rng, DType lhs, DType rhs, DType out, const Shape& batch, int64_t m,
                      int64_t n, int64_t k) {
  Shape left = batch, right = batch;
  for (Shape* shape : {&left, &right}) {
    for (int64_t& d : *shape) d = rng() % 3 == 0 ? 1 : d;
    if (!shape->empty() && rng() % 4 == 0) shape->erase(shape->begin());
    if (rng() % 4 == 0) shape->clear();
  }
  Shape result;
  EXPECT_TRUE(broadcastShapes(left, right, result));
  left.insert(left.end(), {m, k});
  right.insert(right.end(), {k, n});
  result.insert(result.end(), {m, n});
  MatmulSpec spec{randomLayout(rng, lhs, left, true), randomLayout(rng, rhs, right, true),
                  randomLayout(rng, out, result, false), false};
  // Rounding errors of a long sum of equal terms all point one way, beyond the tolerance: no broadcast along
  // k.
  while (k > 100 && spec.lhs.strides.back() == 0) spec.lhs = randomLayout(rng, lhs, left, true);
  while (k > 100 && spec.rhs.strides[right.size() - 2] == 0) spec.rhs = randomLayout(rng, rhs, right, true);
  spec.scaled = isFloat8(lhs) && rng() % 2 == 0;
  return spec;
}

TEST(Matmul, RandomShapesStridesAndTypes) {
  std::mt19937 rng(testSeed());
  const std::vector<DType> types{DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat16,
                                 DType::kFloat64, DType::kInt8,    DType::kInt16,   DType::kInt32,
                                 DType::kInt64,   DType::kUInt8,   DType::kUInt16,  DType::kUInt32,
                                 DType::kUInt64};
  for (int run = 0; run < 600; ++run) {
    const DType type = types[rng() % types.size()];
    const auto size = [&] { return static_cast<int64_t>(rng() % 6 == 0 ? rng() % 3 + 1 : rng() % 40 + 1); };
    Shape batch;
    for (size_t d = rng() % 4; d > 0; --d) batch.push_back(static_cast<int64_t>(rng() % 4 + 1));
    check(rng, randomSpec(rng, type, type, type, batch, size(), size(), size()));
    if (HasFatalFailure()) return;
  }
}

TEST(Matmul, Float8GivesFloat16) {
  std::mt19937 rng(testSeed());
  for (DType left : {DType::kFloat8_143, DType::kFloat8_152}) {
    for (DType right : {DType::kFloat8_143, DType::kFloat8_152}) {
      for (int run = 0; run < 5; ++run)
        check(rng, randomSpec(rng, left, right, DType::kFloat16, {2, 2}, 5, 7, 9));
    }
  }
}

TEST(Matmul, LargeEnoughToBeCut) {
  std::mt19937 rng(testSeed());
  const DType f32 = DType::kFloat32, f16 = DType::kFloat16;
  struct Case {
    DType type;
    Shape batch;
    int64_t m, n, k;
  };
  for (const Case& c :
       {Case{f32, {}, 64, 512, 784}, Case{f32, {}, 300, 310, 200}, Case{f32, {}, 8, 10, 60000},
        Case{f32, {40}, 64, 65, 66}, Case{f32, {3}, 200, 130, 100}, Case{f16, {}, 300, 290, 600},
        Case{f16, {}, 12, 16, 50000}, Case{DType::kFloat64, {}, 130, 150, 160},
        Case{DType::kInt32, {}, 200, 150, 160}, Case{f32, {}, 1, 3000, 900}, Case{f32, {}, 3000, 1, 900},
        Case{f32, {}, 3, 3000, 300}}) {
    for (int run = 0; run < 3; ++run) {
      check(rng, randomSpec(rng, c.type, c.type, c.type, c.batch, c.m, c.n, c.k));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Matmul, EmptyDimensions) {
  std::mt19937 rng(testSeed());
  const auto f32 = [](Shape shape) { return Layout(DType::kFloat32, std::move(shape)); };
  check(rng, {f32({3, 0}), f32({0, 4}), f32({3, 4})});
  check(rng, {f32({0, 3}), f32({3, 4}), f32({0, 4})});
  check(rng, {f32({2, 3, 5}), f32({2, 5, 0}), f32({2, 3, 0})});
}

TEST(Matmul, BatchOfTheLhsBecomesRows) {
  const Layout lhs(DType::kFloat32, {4, 8, 16}), rhs(DType::kFloat32, {16, 32}),
      out(DType::kFloat32, {4, 8, 32});
  EXPECT_EQ(makeMatmul({lhs, rhs, out})->describe(), "matmul float32 32x32x16");
  EXPECT_EQ(makeMatmul({lhs, rhs, out})->flops(), 2.0 * 32 * 32 * 16);
}

TEST(Matmul, DoesNotTakeOtherTypes) {
  const Layout f32(DType::kFloat32, {2, 2}), f16(DType::kFloat16, {2, 2}), flag(DType::kBool, {2, 2});
  EXPECT_THROW(makeMatmul({f32, f16, f32}), Error);
  EXPECT_THROW(makeMatmul({flag, flag, flag}), Error);
}

}  // namespace
}  // namespace popxl::test
