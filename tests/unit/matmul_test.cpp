#include "kernels/matmul.h"

#include <array>

#include "base/error.h"
#include "dense_test.h"
#include "kernels/elementwise.h"

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

TEST(Matmul, LastRowsOfAStreamedProduct) {  // the last piece has one row, of a matrix stored by columns
  std::mt19937 rng(11);
  const MatmulSpec spec{Layout(DType::kFloat32, {1025, 1000}, {1, 1025}),
                        Layout(DType::kFloat32, {1000, 1}, {1, 1000}), Layout(DType::kFloat32, {1025, 1})};
  check(rng, spec);
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

/// A product whose right operand is packed before it runs, or not because nobody asked.
void checkPrepared(std::mt19937& rng, MatmulSpec spec) {
  spec.fixedRhs = true;
  const Tensor lhs = randomTensor(rng, spec.lhs), rhs = randomTensor(rng, spec.rhs);
  Tensor left = lhs, right = rhs, out = makeTensor(spec.out), unprepared = makeTensor(spec.out);
  const kernels::KernelPtr kernel = makeMatmul(spec);
  runKernel(*makeMatmul(spec), {left.data(), right.data(), unprepared.data()});
  const kernels::Preparation work = kernel->takePreparation();
  ASSERT_NE(work.kernel, nullptr) << kernel->describe();
  EXPECT_EQ(work.operand, 1U);
  std::vector<float> packed(static_cast<size_t>(work.bytes) / sizeof(float) + 16);
  auto* const memory = reinterpret_cast<std::byte*>(packed.data());
  runKernel(*work.kernel, {right.data(), memory});
  EXPECT_EQ(right.memory, rhs.memory);
  runKernel(*kernel, {left.data(), memory, out.data()});
  checkValues(spec, lhs, rhs, out, 0);
  EXPECT_EQ(out.memory, unprepared.memory) << kernel->describe();
  expectSameBits(*kernel, {left.data(), memory}, out);
}

TEST(Matmul, FixedRightOperandIsPackedOnce) {
  std::mt19937 rng(testSeed());
  const DType type = DType::kFloat32;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 700, 300}, {64, 1601, 515}, {128, 333, 257}}) {
    MatmulSpec spec{Layout(type, {m, k}), Layout(type, {k, n}), Layout(type, {m, n})};
    checkPrepared(rng, spec);
    spec.rhs.strides = {1, k};
    checkPrepared(rng, spec);
  }
  // Not where little is gained, where a row is streamed, or in other types.
  const auto fixed = [](DType t, int64_t m) {
    return MatmulSpec{Layout(t, {m, 300}), Layout(t, {300, 300}), Layout(t, {m, 300}), false, true};
  };
  for (const MatmulSpec& spec : {fixed(type, 1000), fixed(type, 1), fixed(DType::kFloat64, 64)}) {
    EXPECT_EQ(makeMatmul(spec)->takePreparation().kernel, nullptr);
  }
}

/// relu(x + bias) of a product and the sum kept before it, in one kernel and in two: the same bits.
void checkGroup(std::mt19937& rng, MatmulSpec spec, const Shape& bias) {
  const DType type = spec.out.dtype;
  kernels::ElementwiseSpec group;
  const auto compute = kernels::computeType(type);
  kernels::Val sum = kernels::input(group.expr, 0, compute) + kernels::input(group.expr, 1, compute);
  if (type == DType::kFloat16) sum = kernels::roundTo(sum, type);
  group.expr.outputs() = {sum.id, kernels::max(sum, kernels::constant(group.expr, compute, 0.0)).id};
  group.space = spec.out.shape;
  group.inputs = {spec.out, Layout(type, bias)};
  group.outputs = {spec.out, spec.out};
  const kernels::KernelPtr fused = kernels::makeMatmulWithGroup(spec, group);
  ASSERT_NE(fused, nullptr) << toString(spec.out.shape);
  const kernels::KernelPtr product = makeMatmul(spec), rest = kernels::makeElementwise(group);
  Tensor lhs = randomTensor(rng, spec.lhs), rhs = randomTensor(rng, spec.rhs),
         shift = randomTensor(rng, group.inputs[1]);
  Tensor plain = makeTensor(spec.out), expected = makeTensor(spec.out), kept = makeTensor(spec.out);
  runKernel(*product, {lhs.data(), rhs.data(), plain.data()});
  runKernel(*rest, {plain.data(), shift.data(), kept.data(), expected.data()});
  // The sum is written over the product.
  for (const int threads : {1, 2, 4}) {
    Tensor own = makeTensor(spec.out), result = makeTensor(spec.out);
    kernels::setThreadCount(threads);
    runKernel(*fused,
              {lhs.data(), rhs.data(), own.data(), own.data(), shift.data(), own.data(), result.data()});
    EXPECT_EQ(own.memory, kept.memory) << fused->describe();
    EXPECT_EQ(result.memory, expected.memory) << fused->describe();
  }
}

TEST(Matmul, GroupOnThePiecesOfAProduct) {
  std::mt19937 rng(testSeed());
  const int before = kernels::threadCount();
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kFloat64}) {
    const auto spec = [&](const Shape& lhs, const Shape& rhs, const Shape& out) {
      return MatmulSpec{Layout(type, lhs), Layout(type, rhs), Layout(type, out)};
    };
    checkGroup(rng, spec({300, 70}, {70, 310}, {300, 310}), {310});
    checkGroup(rng, spec({3, 100, 40}, {40, 700}, {3, 100, 700}), {3, 100, 1});
    checkGroup(rng, spec({1000, 300}, {300, 90}, {1000, 90}), {1000, 90});
    checkGroup(rng, spec({3, 50}, {50, 30000}, {3, 30000}), {3, 1});
  }
  kernels::setThreadCount(before);
}

TEST(Matmul, GroupThatHasToRunOnItsOwn) {
  const auto f32 = [](Shape shape) { return Layout(DType::kFloat32, std::move(shape)); };
  const auto fuses = [&](const MatmulSpec& spec, const Layout& other, bool random = false) {
    kernels::ElementwiseSpec group;
    kernels::Val value = kernels::input(group.expr, 0, kernels::VType::kF32) +
                         kernels::input(group.expr, 1, kernels::VType::kF32, random ? 0 : -1);
    if (random) value = value + kernels::input(group.expr, 1, kernels::VType::kF32);
    group.expr.outputs() = {value.id};
    group.space = spec.out.shape;
    group.inputs = {spec.out, other};
    group.outputs = {spec.out};
    return kernels::makeMatmulWithGroup(spec, group) != nullptr;
  };
  const MatmulSpec plain{f32({400, 60}), f32({60, 300}), f32({400, 300})};
  EXPECT_TRUE(fuses(plain, f32({300})));
  EXPECT_FALSE(fuses(plain, f32({400, 300}), true));  // one operand by position and by element
  EXPECT_FALSE(fuses({f32({40, 60}), f32({60, 30}), f32({40, 30})}, f32({30})));                // small
  EXPECT_FALSE(fuses({f32({4, 200, 60}), f32({4, 60, 300}), f32({4, 200, 300})}, f32({300})));  // batches
  const MatmulSpec folded{f32({4, 100, 60}), f32({60, 300}), f32({4, 100, 300})};
  EXPECT_TRUE(fuses(folded, f32({4, 100, 300})));
  EXPECT_FALSE(fuses(folded, f32({100, 1})));  // rows have no common stride
}

}  // namespace
}  // namespace popxl::test
