#include "kernels/softmax.h"

#include <limits>

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

using Row = std::vector<double>;

/// fn(row of x, row of dy) for each row along `axis`.
template <typename Fn>
Row rowwise(const TestTensor& x, const TestTensor& dy, int64_t axis, const Fn& fn) {
  const AxisView v(x.layout().shape, axis);
  Row out(static_cast<size_t>(x.size())), row(static_cast<size_t>(v.n)), grad(row.size());
  for (int64_t o = 0; o < v.outer; ++o) {
    for (int64_t k = 0; k < v.inner; ++k) {
      for (int64_t i = 0; i < v.n; ++i) {
        row[static_cast<size_t>(i)] = x.get(v.at(o, i, k));
        grad[static_cast<size_t>(i)] = dy.get(v.at(o, i, k));
      }
      const Row result = fn(row, grad);
      for (int64_t i = 0; i < v.n; ++i)
        out[static_cast<size_t>(v.at(o, i, k))] = result[static_cast<size_t>(i)];
    }
  }
  return out;
}

double logSumExp(const Row& row) {
  const double most = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const double v : row) sum += std::exp(v - most);
  return most + std::log(sum);
}

Row softmaxOf(const Row& x, const Row&) {
  const double shift = logSumExp(x);
  Row y;
  for (const double v : x) y.push_back(std::exp(v - shift));
  return y;
}

Row logSoftmaxOf(const Row& x, const Row&) {
  const double shift = logSumExp(x);
  Row y;
  for (const double v : x) y.push_back(v - shift);
  return y;
}

Row softmaxGradOf(const Row& y, const Row& dy) {
  double dot = 0;
  for (size_t k = 0; k < y.size(); ++k) dot += y[k] * dy[k];
  Row dx;
  for (size_t i = 0; i < y.size(); ++i) dx.push_back(y[i] * (dy[i] - dot));
  return dx;
}

Row logSoftmaxGradOf(const Row& y, const Row& dy) {
  double sum = 0;
  for (const double v : dy) sum += v;
  Row dx;
  for (size_t i = 0; i < y.size(); ++i) dx.push_back(dy[i] - std::exp(y[i]) * sum);
  return dx;
}

TEST(Softmax, MatchesReferenceForRandomShapes) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 4, seed % 7 == 0 ? 40 : 9);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    const DType dtype = kFloats[seed % 3];
    const double tolerance = toleranceOf(dtype);
    const auto layout = [&] {
      return makeLayout(dtype, shape, static_cast<int>(random.integer(0, 3)), random.rng);
    };
    TestTensor x(layout()), y(layout()), dy(layout()), dx(layout());
    x.fillUniform(random.rng, -8, 8);
    dy.fillUniform(random.rng, -2, 2);
    run(makeSoftmax(x.layout(), y.layout(), axis), {&x, &y});
    expectNear(y, rowwise(x, x, axis, softmaxOf), tolerance, "softmax");
    run(makeSoftmaxGrad(y.layout(), dy.layout(), dx.layout(), axis), {&y, &dy, &dx});
    expectNear(dx, rowwise(y, dy, axis, softmaxGradOf), tolerance, "softmax gradient");
    run(makeLogSoftmax(x.layout(), y.layout(), axis), {&x, &y});
    expectNear(y, rowwise(x, x, axis, logSoftmaxOf), tolerance, "log softmax");
    run(makeLogSoftmaxGrad(y.layout(), dy.layout(), dx.layout(), axis), {&y, &dy, &dx});
    expectNear(dx, rowwise(y, dy, axis, logSoftmaxGradOf), 4 * tolerance, "log softmax gradient");
    Shape reduced = shape;
    reduced[static_cast<size_t>(axis)] = 1;
    TestTensor out(makeLayout(dtype, reduced, static_cast<int>(random.integer(0, 3)), random.rng));
    run(makeLogSumExp(x.layout(), out.layout(), axis), {&x, &out});
    const Row lse =
        rowwise(x, x, axis, [](const Row& row, const Row&) { return Row(row.size(), logSumExp(row)); });
    const AxisView v(shape, axis);
    Row want;
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t k = 0; k < v.inner; ++k) want.push_back(lse[static_cast<size_t>(v.at(o, 0, k))]);
    }
    expectNear(out, want, tolerance, "log sum exp");
  }
}

TEST(Softmax, LargeRowsInPlaceAndManyRows) {
  for (const DType dtype : kFloats) {
    for (const Shape& shape : {Shape{3, 50257}, Shape{2048, 33}, Shape{1, 100000}}) {
      Random random(7);
      TestTensor x(Layout(dtype, shape));
      x.fillUniform(random.rng, -20, 20);
      const Row want = rowwise(x, x, 1, softmaxOf);
      const KernelPtr kernel = makeSoftmax(x.layout(), x.layout(), 1);
      run(kernel, {&x, &x});
      expectNear(x, want, toleranceOf(dtype), "softmax in place");
    }
  }
}

TEST(Softmax, ResultsPastTheCaches) {
  Random random(8);
  TestTensor x(Layout(DType::kFloat32, {4200, 1024})), y(x.layout());
  x.fillUniform(random.rng, -20, 20);
  const Row want = rowwise(x, x, 1, softmaxOf);
  const KernelPtr kernel = makeSoftmax(x.layout(), y.layout(), 1);
  run(kernel, {&x, &y});
  expectNear(y, want, toleranceOf(DType::kFloat32), "softmax");
  run(kernel, {&x, &x});
  expectNear(x, want, toleranceOf(DType::kFloat32), "softmax in place");
}

TEST(Softmax, IsAccurateInUnitsOfTheLastPlace) {
  Random random(11);
  TestTensor x(Layout(DType::kFloat32, {64, 128})), y(x.layout());
  x.fillUniform(random.rng, -4, 4);
  run(makeSoftmax(x.layout(), y.layout(), 1), {&x, &y});
  const Row want = rowwise(x, x, 1, softmaxOf);
  for (int64_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y.get(i) / want[static_cast<size_t>(i)], 1.0, 6e-7) << i;
  }
}

TEST(Softmax, TreatsInfinitiesAndNanAsTheFormulaSays) {
  for (const DType dtype : kFloats) {
    TestTensor x(Layout(dtype, {4, 3})), y(x.layout()), lse(Layout(dtype, {4, 1}));
    x.fill({-kInf, 0, 0, -kInf, -kInf, -kInf, 0, kNan, 1, kInf, 0, -kInf});
    run(makeSoftmax(x.layout(), y.layout(), 1), {&x, &y});
    expectNear(y, {0, 0.5, 0.5, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan}, 1e-7, "softmax");
    run(makeLogSumExp(x.layout(), lse.layout(), 1), {&x, &lse});
    expectNear(lse, {std::log(2.0), -kInf, kNan, kInf}, toleranceOf(dtype), "log sum exp");
  }
}

TEST(Softmax, EmptyTensors) {
  for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}}) {
    TestTensor x(Layout(DType::kFloat32, shape)), y(x.layout());
    run(makeSoftmax(x.layout(), y.layout(), 1), {&x, &y});
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
