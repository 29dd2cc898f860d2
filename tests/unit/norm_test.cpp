#include "kernels/norm.h"

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

struct Sizes {
  Sizes(const Shape& shape, int64_t g) : n(shape[0]), channels(shape[1]), groups(g) {
    for (size_t d = 2; d < shape.size(); ++d) space *= shape[d];
    perGroup = channels / groups * space;
  }
  int64_t rowOf(int64_t i) const { return i / perGroup; }
  size_t channelOf(int64_t i) const { return static_cast<size_t>(i / space % channels); }
  int64_t n, channels, groups, space = 1, perGroup;
};

std::vector<double> meansOf(const TestTensor& x, const Sizes& s) {
  std::vector<double> mean(static_cast<size_t>(s.n * s.groups), 0);
  for (int64_t i = 0; i < x.size(); ++i)
    mean[static_cast<size_t>(s.rowOf(i))] += x.get(i) / static_cast<double>(s.perGroup);
  return mean;
}

std::vector<double> invStdsOf(const TestTensor& x, const Sizes& s, double eps) {
  const std::vector<double> mean = meansOf(x, s);
  std::vector<double> inv(mean.size(), 0);
  for (int64_t i = 0; i < x.size(); ++i) {
    const double d = x.get(i) - mean[static_cast<size_t>(s.rowOf(i))];
    inv[static_cast<size_t>(s.rowOf(i))] += d * d / static_cast<double>(s.perGroup);
  }
  for (double& v : inv) v = 1 / std::sqrt(v + eps);
  return inv;
}

double lossOf(const TestTensor& x, const TestTensor& weight, const TestTensor& bias, const TestTensor& dy,
              const Sizes& s, double eps) {
  const std::vector<double> mean = meansOf(x, s), inv = invStdsOf(x, s, eps);
  double loss = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<size_t>(s.rowOf(i));
    const auto c = static_cast<int64_t>(s.channelOf(i));
    loss += dy.get(i) * ((x.get(i) - mean[row]) * inv[row] * weight.get(c) + bias.get(c));
  }
  return loss;
}

/// Central differences of lossOf with respect to every element of `at`, one of its operands.
template <typename Loss>
std::vector<double> differences(TestTensor& at, const Loss& loss) {
  std::vector<double> out;
  for (int64_t i = 0; i < at.size(); ++i) {
    const double start = at.get(i), h = 1e-5;
    at.set(i, start + h);
    const double up = loss();
    at.set(i, start - h);
    out.push_back((up - loss()) / (2 * h));
    at.set(i, start);
  }
  return out;
}

TEST(Norm, ForwardMatchesReference) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    Shape shape = random.shape(2, 4, 7);
    const int64_t groups = random.integer(1, 3);
    shape[1] = groups * random.integer(1, 40);
    const Sizes s(shape, groups);
    const DType dtype = kFloats[seed % 3];
    const DType parameters = seed % 4 == 0 ? DType::kFloat32 : dtype;
    const DType statistics = dtype == DType::kFloat16 ? DType::kFloat32 : dtype;
    const auto kind = [&] { return static_cast<int>(random.integer(0, 3)); };
    const Layout last(dtype, shape, channelsLastStrides(shape));
    TestTensor x(seed % 2 == 0 ? last : makeLayout(dtype, shape, kind(), random.rng)),
        y(seed % 2 == 0 ? last : makeLayout(dtype, shape, kind(), random.rng));
    TestTensor weight(Layout(parameters, {shape[1]})), bias(weight.layout());
    TestTensor mean(Layout(statistics, {s.n * groups})), inv(mean.layout());
    x.fillUniform(random.rng, -1, 3);
    weight.fillUniform(random.rng, -2, 2);
    bias.fillUniform(random.rng, -2, 2);
    run(makeGroupNorm({x.layout(), weight.layout(), mean.layout(), groups, 1e-3}, y.layout()),
        {&x, &weight, &bias, &y, &mean, &inv});
    const std::vector<double> means = meansOf(x, s), invs = invStdsOf(x, s, 1e-3);
    const double tolerance = std::max(toleranceOf(dtype), parameters == DType::kFloat32 ? 4e-6 : 0.0);
    expectNear(mean, means, tolerance, "mean");
    expectNear(inv, invs, 4 * tolerance, "inverse deviation");
    std::vector<double> want;
    for (int64_t i = 0; i < x.size(); ++i) {
      const auto row = static_cast<size_t>(s.rowOf(i));
      const auto c = static_cast<int64_t>(s.channelOf(i));
      want.push_back((x.get(i) - means[row]) * invs[row] * weight.get(c) + bias.get(c));
    }
    expectNear(y, want, 8 * tolerance, "y");
  }
}

TEST(Norm, LargeMeanKeepsItsPrecision) {
  Random random(3);
  TestTensor x(Layout(DType::kFloat32, {8, 1024})), y(x.layout()), weight(Layout(DType::kFloat32, {1024}));
  TestTensor bias(weight.layout()), mean(Layout(DType::kFloat32, {8})), inv(mean.layout());
  x.fillUniform(random.rng, 1000, 1001);
  weight.fill(std::vector<double>(1024, 1));
  bias.fill(std::vector<double>(1024, 0));
  run(makeGroupNorm({x.layout(), weight.layout(), mean.layout(), 1, 1e-5}, y.layout()),
      {&x, &weight, &bias, &y, &mean, &inv});
  expectNear(inv, invStdsOf(x, Sizes({8, 1024}, 1), 1e-5), 1e-3, "inverse deviation");
}

TEST(Norm, ResultsPastTheCaches) {
  Random random(4);
  const Shape shape = {4200, 1024};
  TestTensor x(Layout(DType::kFloat32, shape)), y(x.layout()), weight(Layout(DType::kFloat32, {1024}));
  TestTensor bias(weight.layout()), mean(Layout(DType::kFloat32, {4200})), inv(mean.layout());
  for (TestTensor* t : {&x, &weight, &bias}) t->fillUniform(random.rng, -2, 2);
  run(makeGroupNorm({x.layout(), weight.layout(), mean.layout(), 1, 1e-5}, y.layout()),
      {&x, &weight, &bias, &y, &mean, &inv});
  const Sizes sizes(shape, 1);
  const std::vector<double> means = meansOf(x, sizes), invs = invStdsOf(x, sizes, 1e-5);
  std::vector<double> want;
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<size_t>(sizes.rowOf(i));
    const auto c = static_cast<int64_t>(sizes.channelOf(i));
    want.push_back((x.get(i) - means[row]) * invs[row] * weight.get(c) + bias.get(c));
  }
  expectNear(y, want, 1e-5, "normalised");
}

TEST(Norm, GradientMatchesFiniteDifferences) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    Shape shape = random.shape(2, 4, 4);
    const int64_t groups = random.integer(1, 2);
    shape[1] = groups * random.integer(2, 9);
    if (seed % 6 == 0) shape = {shape[0], groups * 40};
    const Sizes s(shape, groups);
    const double eps = 1e-2;
    const auto kind = [&] { return static_cast<int>(random.integer(0, 3)); };
    const auto f64 = DType::kFloat64;
    TestTensor x(makeLayout(f64, shape, kind(), random.rng)), dy(makeLayout(f64, shape, kind(), random.rng));
    TestTensor dx(makeLayout(f64, shape, kind(), random.rng)), weight(Layout(f64, {shape[1]})),
        bias(weight.layout());
    TestTensor dweight(weight.layout()), dbias(weight.layout()), mean(Layout(f64, {s.n * groups})),
        inv(mean.layout());
    x.fillUniform(random.rng, -1, 1);
    dy.fillUniform(random.rng, -1, 1);
    weight.fillUniform(random.rng, -2, 2);
    bias.fillUniform(random.rng, -2, 2);
    mean.fill(meansOf(x, s));
    inv.fill(invStdsOf(x, s, eps));
    run(makeGroupNormGrad({x.layout(), weight.layout(), mean.layout(), groups, eps}, dy.layout(),
                          dx.layout()),
        {&x, &weight, &mean, &inv, &dy, &dx, &dweight, &dbias});
    const auto loss = [&] { return lossOf(x, weight, bias, dy, s, eps); };
    expectNear(dx, differences(x, loss), 1e-7, "dx");
    expectNear(dweight, differences(weight, loss), 1e-7, "dweight");
    expectNear(dbias, differences(bias, loss), 1e-7, "dbias");
  }
}

/// The closed form of the gradient in float64, itself checked against differences by the float64 kernel
/// above.
void gradientReference(const TestTensor& x, const TestTensor& weight, const TestTensor& mean,
                       const TestTensor& inv, const TestTensor& dy, const Sizes& s, std::vector<double>& dx,
                       std::vector<double>& dweight, std::vector<double>& dbias) {
  std::vector<double> s1(static_cast<size_t>(mean.size()), 0), s2 = s1;
  dweight.assign(static_cast<size_t>(s.channels), 0);
  dbias = dweight;
  const auto hat = [&](int64_t i) { return (x.get(i) - mean.get(s.rowOf(i))) * inv.get(s.rowOf(i)); };
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<size_t>(s.rowOf(i));
    const size_t c = s.channelOf(i);
    dweight[c] += dy.get(i) * hat(i);
    dbias[c] += dy.get(i);
    s1[row] += dy.get(i) * weight.get(static_cast<int64_t>(c)) / static_cast<double>(s.perGroup);
    s2[row] += dy.get(i) * weight.get(static_cast<int64_t>(c)) * hat(i) / static_cast<double>(s.perGroup);
  }
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<size_t>(s.rowOf(i));
    const double g = dy.get(i) * weight.get(static_cast<int64_t>(s.channelOf(i)));
    dx.push_back(inv.get(s.rowOf(i)) * (g - s1[row] - hat(i) * s2[row]));
  }
}

std::vector<Layout> largeLayouts(DType dtype) {
  const Shape image{5, 12, 31, 33};
  return {Layout(dtype, {300, 257}), Layout(dtype, image), Layout(dtype, image, channelsLastStrides(image))};
}

TEST(Norm, GradientOfLargeTensorsInEveryDType) {
  for (const DType dtype : kFloats) {
    for (const Layout& layout : largeLayouts(dtype)) {
      Random random(17);
      const Shape& shape = layout.shape;
      const int64_t groups = layout.isContiguous() ? 1 : 3;
      const Sizes s(shape, groups);
      TestTensor x(layout), dy(x.layout()), dx(x.layout()), weight(Layout(dtype, {shape[1]}));
      TestTensor dweight(weight.layout()), dbias(weight.layout());
      TestTensor mean(Layout(dtype == DType::kFloat64 ? dtype : DType::kFloat32, {s.n * groups})),
          inv(mean.layout());
      x.fillUniform(random.rng, -1, 1);
      dy.fillUniform(random.rng, -1, 1);
      weight.fillUniform(random.rng, -2, 2);
      mean.fill(meansOf(x, s));
      inv.fill(invStdsOf(x, s, 1e-5));
      run(makeGroupNormGrad({x.layout(), weight.layout(), mean.layout(), groups, 1e-5}, dy.layout(),
                            dx.layout()),
          {&x, &weight, &mean, &inv, &dy, &dx, &dweight, &dbias});
      std::vector<double> wantDx, wantDweight, wantDbias;
      gradientReference(x, weight, mean, inv, dy, s, wantDx, wantDweight, wantDbias);
      const double tolerance = toleranceOf(dtype);
      expectNear(dx, wantDx, 4 * tolerance, "dx");
      // Sums of thousands of terms of size 1: the error grows with their number's root.
      expectNear(dweight, wantDweight, 16 * tolerance, "dweight");
      expectNear(dbias, wantDbias, 16 * tolerance, "dbias");
    }
  }
}

TEST(Norm, BatchNormInference) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(2, 4, 9);
    const Sizes s(shape, 1);
    const DType dtype = kFloats[seed % 3];
    TestTensor x(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 3)), random.rng)),
        y(Layout(dtype, shape));
    TestTensor scale(Layout(dtype, {shape[1]})), bias(scale.layout()), mean(scale.layout()),
        var(scale.layout());
    for (TestTensor* t : {&x, &scale, &bias, &mean}) t->fillUniform(random.rng, -2, 2);
    var.fillUniform(random.rng, 0.5, 2);
    run(makeBatchNormInference(x.layout(), scale.layout(), y.layout(), 1e-3),
        {&x, &scale, &bias, &mean, &var, &y});
    std::vector<double> want;
    for (int64_t i = 0; i < x.size(); ++i) {
      const auto c = static_cast<int64_t>(s.channelOf(i));
      want.push_back((x.get(i) - mean.get(c)) / std::sqrt(var.get(c) + 1e-3) * scale.get(c) + bias.get(c));
    }
    expectNear(y, want, 2 * toleranceOf(dtype), "batch norm");
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
