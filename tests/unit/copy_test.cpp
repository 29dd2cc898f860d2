#include "kernels/copy.h"

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

constexpr std::array kSizes = {DType::kInt8, DType::kInt16, DType::kFloat32, DType::kFloat64};

TEST(Copy, MovesEveryElementBetweenRandomLayouts) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(0, 5, seed % 5 == 0 ? 23 : 7);
    const DType dtype = kSizes[seed % 4];
    TestTensor src(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 3)), random.rng));
    TestTensor dst(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 3)), random.rng));
    src.fillIntegers(random.rng, -100, 100);
    run(makeCopy(src.layout(), dst.layout()), {&src, &dst});
    expectNear(dst, src.values(), 0, "copy");
  }
}

TEST(Copy, TransposesLargeMatricesOfEverySize) {
  for (const DType dtype : kSizes) {
    for (const Shape& shape : {Shape{1, 1}, Shape{16, 16}, Shape{67, 131}, Shape{300, 515}, Shape{5, 3000}}) {
      Random random(3);
      TestTensor src(Layout(dtype, shape)), dst(Layout(dtype, shape, {1, shape[0]}));
      src.fillIntegers(random.rng, -100, 100);
      run(makeCopy(src.layout(), dst.layout()), {&src, &dst});
      expectNear(dst, src.values(), 0, "transpose");
    }
  }
}

TEST(Copy, AttentionTransposeAndBroadcast) {
  Random random(5);
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    TestTensor src(Layout(dtype, {2, 12, 70, 64}, {70 * 768, 64, 768, 1})),
        dst(Layout(dtype, {2, 12, 70, 64}));
    src.fillIntegers(random.rng, -100, 100);
    run(makeCopy(src.layout(), dst.layout()), {&src, &dst});
    expectNear(dst, src.values(), 0, "0213");
  }
  TestTensor row(Layout(DType::kFloat32, {50, 40}, {0, 1})),
      column(Layout(DType::kFloat32, {50, 40}, {1, 0}));
  TestTensor one(Layout(DType::kFloat32, {50, 40}, {0, 0})), out(Layout(DType::kFloat32, {50, 40}));
  for (TestTensor* in : {&row, &column, &one}) {
    in->fillIntegers(random.rng, -100, 100);
    run(makeCopy(in->layout(), out.layout()), {in, &out});
    expectNear(out, in->values(), 0, "broadcast");
  }
}

TEST(Copy, LargeContiguousCopiesStream) {
  Random random(6);
  TestTensor src(Layout(DType::kInt8, {17 * 1024 * 1024 + 13})), dst(src.layout());
  std::mt19937& rng = random.rng;
  for (int64_t i = 0; i < src.size(); i += 1000) src.set(i, static_cast<double>(rng() % 100));
  runOnce(*makeCopy(src.layout(), dst.layout()), {&src, &dst});
  EXPECT_EQ(std::memcmp(src.data(), dst.data(), static_cast<size_t>(src.size())), 0);
}

TEST(Copy, WindowsTakeOffsetsAndNegativeSteps) {
  TestTensor src(Layout(DType::kInt32, {4, 6})), reversed(Layout(DType::kInt32, {4, 3}));
  for (int64_t i = 0; i < src.size(); ++i) src.set(i, static_cast<double>(i));
  // src[:, 4::-2]: columns 4, 2, 0.
  run(makeWindowCopy(Layout(DType::kInt32, {4, 3}, {6, -2}), 4, reversed.layout(), 0), {&src, &reversed});
  expectNear(reversed, {4, 2, 0, 10, 8, 6, 16, 14, 12, 22, 20, 18}, 0, "reversed columns");
  TestTensor dst(src.layout());
  dst.fill(std::vector<double>(24, -1));
  TestTensor block(Layout(DType::kInt32, {2, 2}));
  block.fill({1, 2, 3, 4});
  run(makeWindowCopy(block.layout(), 0, Layout(DType::kInt32, {2, 2}, {6, 1}), 6 + 3), {&block, &dst});
  std::vector<double> want(24, -1);
  want[9] = 1, want[10] = 2, want[15] = 3, want[16] = 4;
  expectNear(dst, want, 0, "block");
}

TEST(Copy, ConcatenatesAlongEveryAxis) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 4, 8);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    const auto d = static_cast<size_t>(axis);
    const DType dtype = kSizes[seed % 4];
    std::vector<TestTensor> ins;
    std::vector<Layout> layouts;
    Shape total = shape;
    total[d] = 0;
    for (int64_t i = 0, count = random.integer(1, 4); i < count; ++i) {
      Shape part = shape;
      part[d] = random.integer(0, 5);
      total[d] += part[d];
      ins.emplace_back(makeLayout(dtype, part, static_cast<int>(random.integer(0, 3)), random.rng));
      ins.back().fillIntegers(random.rng, -100, 100);
      layouts.push_back(ins.back().layout());
    }
    TestTensor out(makeLayout(dtype, total, static_cast<int>(random.integer(0, 3)), random.rng));
    std::vector<TestTensor*> operands;
    std::vector<double> want(static_cast<size_t>(out.size()));
    int64_t at = 0;
    for (TestTensor& in : ins) {
      operands.push_back(&in);
      const AxisView part(in.layout().shape, axis), whole(total, axis);
      for (int64_t o = 0; o < part.outer; ++o) {
        for (int64_t i = 0; i < part.n; ++i) {
          for (int64_t k = 0; k < part.inner; ++k) {
            want[static_cast<size_t>(whole.at(o, at + i, k))] = in.get(part.at(o, i, k));
          }
        }
      }
      at += part.n;
    }
    operands.push_back(&out);
    run(makeConcat(layouts, axis, out.layout()), operands);
    expectNear(out, want, 0, "concat");
  }
}

TEST(Copy, FillsEveryDType) {
  Random random(9);
  for (const DType dtype : {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kInt8, DType::kUInt16,
                            DType::kInt32, DType::kInt64, DType::kUInt64, DType::kBool}) {
    for (const double value : {0.0, 1.0, 1.5, 100.0}) {
      for (int kind = 0; kind < 3; ++kind) {
        TestTensor out(makeLayout(dtype, {7, 11, 3}, kind, random.rng));
        run(makeFill(out.layout(), value), {&out});
        double want = value;
        if (dtype == DType::kBool) want = value != 0 ? 1 : 0;
        if (isInt(dtype)) want = std::trunc(want);
        expectNear(out, std::vector<double>(static_cast<size_t>(out.size()), want), 0, "fill");
      }
    }
  }
  TestTensor large(Layout(DType::kFloat32, {300001}));
  run(makeFill(large.layout(), 2.5), {&large});
  expectNear(large, std::vector<double>(300001, 2.5), 0, "large fill");
}

TEST(Copy, SliceGradientIsZeroOutsideTheWindow) {
  Random random(10);
  for (int kind = 0; kind < 2; ++kind) {
    TestTensor dy(makeLayout(DType::kFloat32, {3, 4}, kind, random.rng)), dx(Layout(DType::kFloat32, {5, 9}));
    dy.fillIntegers(random.rng, 1, 100);
    // dx[1:4, 7:0:-2]
    run(makeSliceGrad(dy.layout(), dx.layout(), 9 + 7, {9, -2}), {&dy, &dx});
    std::vector<double> want(45, 0);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 4; ++c) want[static_cast<size_t>((r + 1) * 9 + 7 - 2 * c)] = dy.get(r * 4 + c);
    }
    expectNear(dx, want, 0, "slice gradient");
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
