#include "kernels/loss.h"

#include <limits>

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  LossReduction reduction;
  std::optional<int64_t> ignoreIndex;
  bool logProb;
};

struct Expected {
  std::vector<double> loss, dprobs, dlogits;
};

/// Loss, its gradient with respect to probs and, through a softmax, to its argument, in float64.
Expected reference(const TestTensor& probs, const TestTensor& labels, const TestTensor& dloss,
                   const Case& c) {
  const int64_t classes = probs.layout().shape.back(), rows = labels.size();
  double count = 0, sum = 0;
  for (int64_t r = 0; r < rows; ++r)
    count += c.ignoreIndex && labels.get(r) == static_cast<double>(*c.ignoreIndex) ? 0 : 1;
  const double divisor = c.reduction == LossReduction::kMean ? std::max(count, 1.0) : 1.0;
  Expected out;
  out.dprobs.assign(static_cast<size_t>(probs.size()), 0);
  out.dlogits = out.dprobs;
  for (int64_t r = 0; r < rows; ++r) {
    const auto label = static_cast<int64_t>(labels.get(r));
    const double scale = dloss.get(c.reduction == LossReduction::kNone ? r : 0) / divisor;
    const bool ignored = c.ignoreIndex && label == *c.ignoreIndex, valid = label >= 0 && label < classes;
    const double p = ignored || !valid ? kNan : probs.get(r * classes + label);
    const double loss = ignored ? 0 : c.logProb ? -p : -std::log(p);
    sum += loss;
    out.loss.push_back(loss);
    for (int64_t k = 0; k < classes && !ignored; ++k) {
      const auto at = static_cast<size_t>(r * classes + k);
      out.dprobs[at] = !valid ? kNan : k != label ? 0 : c.logProb ? -scale : -scale / p;
      out.dlogits[at] = !valid ? kNan : (probs.get(r * classes + k) - (k == label ? 1 : 0)) * scale;
    }
  }
  if (c.reduction != LossReduction::kNone) out.loss = {sum / divisor};
  return out;
}

void fillProbabilities(TestTensor& probs, std::mt19937& rng, bool logs) {
  const int64_t classes = probs.layout().shape.back();
  std::uniform_real_distribution<double> draw(0.05, 1);
  for (int64_t r = 0; r < probs.size() / classes; ++r) {
    std::vector<double> row;
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) row.push_back(draw(rng)), sum += row.back();
    for (int64_t k = 0; k < classes; ++k) {
      const double p = row[static_cast<size_t>(k)] / sum;
      probs.set(r * classes + k, logs ? std::log(p) : p);
    }
  }
}

void check(Random& random, DType dtype, DType labelType, DType lossType, const Shape& shape, const Case& c) {
  const auto kind = [&] { return static_cast<int>(random.integer(0, 2)); };
  const Shape rows(shape.begin(), shape.end() - 1);
  const Shape lossShape = c.reduction == LossReduction::kNone ? rows : Shape{};
  TestTensor probs(makeLayout(dtype, shape, kind(), random.rng)),
      labels(makeLayout(labelType, rows, kind(), random.rng));
  TestTensor loss(makeLayout(lossType, lossShape, kind(), random.rng)), dloss(Layout(lossType, lossShape));
  TestTensor dprobs(makeLayout(dtype, shape, kind(), random.rng)),
      dx(makeLayout(dtype, shape, kind(), random.rng));
  fillProbabilities(probs, random.rng, c.logProb);
  labels.fillIntegers(random.rng, 0, shape.back() - 1);
  dloss.fillUniform(random.rng, 0.5, 2);
  if (random.integer(0, 3) == 0)
    labels.set(random.integer(0, labels.size() - 1), static_cast<double>(shape.back()));
  const Expected want = reference(probs, labels, dloss, c);
  const NllSpec spec{probs.layout(), labels.layout(), loss.layout(), c.reduction, c.ignoreIndex, c.logProb};
  NllSpec gradSpec = spec;
  gradSpec.loss = dloss.layout();
  const double tolerance = std::max(toleranceOf(dtype), toleranceOf(lossType));
  run(makeNll(spec), {&probs, &labels, &loss});
  expectNear(loss, want.loss, tolerance, "loss");
  run(makeNllGrad(gradSpec, dprobs.layout()), {&probs, &labels, &dloss, &dprobs});
  expectNear(dprobs, want.dprobs, tolerance, "dprobs");
  if (c.logProb) return;
  TestTensor again(loss.layout());
  run(makeNllWithSoftmaxGrad(spec, dloss.layout(), dx.layout()), {&probs, &labels, &dloss, &again, &dx});
  expectNear(again, want.loss, tolerance, "fused loss");
  expectNear(dx, want.dlogits, tolerance, "dx");
}

TEST(Loss, MatchesReference) {
  constexpr std::array kLabels = {DType::kInt32, DType::kUInt32, DType::kInt64,   DType::kUInt8,
                                  DType::kInt16, DType::kUInt64, DType::kFloat32, DType::kFloat16};
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    Shape shape = random.shape(1, 4, 6);
    shape.back() = random.integer(1, 40);
    if (seed % 25 == 0) shape = {500, 130};
    const Case c{static_cast<LossReduction>(seed % 3),
                 random.integer(0, 1) == 0 ? std::optional<int64_t>(random.integer(0, shape.back() - 1))
                                           : std::nullopt,
                 random.integer(0, 2) == 0};
    const DType dtype = kFloats[seed / 3 % 3];
    const DType lossType = dtype == DType::kFloat16 && seed % 2 == 0 ? DType::kFloat32 : dtype;
    check(random, dtype, kLabels[seed % kLabels.size()], lossType, shape, c);
  }
}

TEST(Loss, NegativeIgnoreIndexAndAllIgnored) {
  TestTensor probs(Layout(DType::kFloat32, {3, 2})), labels(Layout(DType::kInt32, {3})),
      one(Layout(DType::kFloat32, {}));
  TestTensor loss(one.layout()), dx(probs.layout());
  probs.fill({0.25, 0.75, 0.5, 0.5, 1, 0});
  one.fill({1});
  labels.fill({-1, 1, -1});
  const NllSpec spec{probs.layout(), labels.layout(), loss.layout(), LossReduction::kMean, -1, false};
  run(makeNllWithSoftmaxGrad(spec, one.layout(), dx.layout()), {&probs, &labels, &one, &loss, &dx});
  expectNear(loss, {std::log(2.0)}, 1e-6, "loss");
  expectNear(dx, {0, 0, 0.5, -0.5, 0, 0}, 1e-6, "dx");
  labels.fill({-1, -1, -1});
  run(makeNllWithSoftmaxGrad(spec, one.layout(), dx.layout()), {&probs, &labels, &one, &loss, &dx});
  expectNear(loss, {0}, 0, "loss of nothing");
  expectNear(dx, {0, 0, 0, 0, 0, 0}, 0, "dx of nothing");
}

TEST(Loss, ZeroProbabilityIsFiniteAndBadLabelsReadNothing) {
  for (const DType dtype : kFloats) {
    TestTensor probs(Layout(dtype, {4, 2})), labels(Layout(DType::kInt64, {4})), loss(Layout(dtype, {4}));
    TestTensor dprobs(probs.layout());
    probs.fill({0, 1, 0, 1, 0, 1, kNan, 1});
    labels.fill({0, -5, 1e15, 0});
    NllSpec spec{probs.layout(), labels.layout(), loss.layout(), LossReduction::kNone, std::nullopt, false};
    run(makeNll(spec), {&probs, &labels, &loss});
    const double least = dtype == DType::kFloat16 ? 0x1p-14 : dtype == DType::kFloat32 ? 0x1p-126 : 0x1p-1022;
    expectNear(loss, {-std::log(least), kNan, kNan, kNan}, toleranceOf(dtype), "loss");
    loss.fill({1, 1, 1, 1});
    run(makeNllGrad(spec, dprobs.layout()), {&probs, &labels, &loss, &dprobs});
    expectNear(dprobs, {-1 / least, 0, kNan, kNan, kNan, kNan, kNan, 0}, toleranceOf(dtype), "dprobs");
  }
}

TEST(Loss, GradientInPlaceOfProbabilities) {
  Random random(4);
  TestTensor probs(Layout(DType::kFloat32, {600, 100})), labels(Layout(DType::kInt32, {600}));
  TestTensor loss(Layout(DType::kFloat32, {})), one(loss.layout()), dx(probs.layout()),
      inPlaceLoss(loss.layout());
  fillProbabilities(probs, random.rng, false);
  labels.fillIntegers(random.rng, 0, 99);
  one.fill({1});
  const NllSpec spec{probs.layout(),       labels.layout(), loss.layout(),
                     LossReduction::kMean, std::nullopt,    false};
  const KernelPtr kernel = makeNllWithSoftmaxGrad(spec, one.layout(), dx.layout());
  run(kernel, {&probs, &labels, &one, &loss, &dx});
  run(kernel, {&probs, &labels, &one, &inPlaceLoss, &probs});
  expectNear(probs, dx.values(), 0, "in place");
  expectNear(inPlaceLoss, loss.values(), 0, "loss");
}

}  // namespace
}  // namespace popxl::kernels::testing
