#include "kernels/scan.h"

#include <limits>

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

TEST(CumSum, MatchesReference) {
  constexpr std::array kTypes = {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kInt32,
                                 DType::kUInt8};
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 4, seed % 9 == 0 ? 40 : 8);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    const DType dtype = kTypes[seed % 5];
    const bool exclusive = random.integer(0, 1) == 0, reverse = random.integer(0, 1) == 0;
    TestTensor x(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 3)), random.rng));
    TestTensor y(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 3)), random.rng));
    if (isFloat(dtype)) {
      x.fillUniform(random.rng, -1, 1);
    } else {
      x.fillIntegers(random.rng, 0, 6);
    }
    run(makeCumSum(x.layout(), y.layout(), axis, exclusive, reverse), {&x, &y});
    const AxisView v(shape, axis);
    std::vector<double> want(static_cast<size_t>(x.size()));
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t k = 0; k < v.inner; ++k) {
        double sum = 0;
        for (int64_t s = 0; s < v.n; ++s) {
          const int64_t at = v.at(o, reverse ? v.n - 1 - s : s, k);
          want[static_cast<size_t>(at)] = exclusive ? sum : sum + x.get(at);
          sum += x.get(at);
        }
      }
    }
    expectNear(y, want, isFloat(dtype) ? toleranceOf(dtype) : 0, "cumsum");
  }
}

TEST(Histogram, CountsHalfOpenIntervals) {
  TestTensor x(Layout(DType::kFloat32, {2, 5})), counts(Layout(DType::kUInt32, {3}));
  x.fill({1, 2, 3, 4, 0.5, 4.5, -1, 2.5, std::numeric_limits<double>::quiet_NaN(), -3});
  run(makeHistogram(x.layout(), counts.layout(), {1, 2, 3, 4}, false), {&x, &counts});
  expectNear(counts, {1, 2, 2}, 0, "counts");
  run(makeHistogram(x.layout(), counts.layout(), {1, 2, 3, 4}, true), {&x, &counts});
  expectNear(counts, {2, 2, 3}, 0, "counts of absolute values");
}

TEST(Histogram, RandomValuesAndLevels) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const DType dtype = kFloats[seed % 3];
    const Shape shape = seed % 5 == 0 ? Shape{400, 300} : random.shape(0, 3, 20);
    TestTensor x(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 2)), random.rng));
    std::vector<double> levels(static_cast<size_t>(random.integer(2, 40)));
    for (double& level : levels)
      level = std::round(std::uniform_real_distribution<double>(-2, 2)(random.rng) * 8) / 8;
    std::sort(levels.begin(), levels.end());
    x.fillUniform(random.rng, -2, 2);
    TestTensor counts(Layout(DType::kInt32, {static_cast<int64_t>(levels.size()) - 1}));
    run(makeHistogram(x.layout(), counts.layout(), levels, false), {&x, &counts});
    std::vector<double> want(levels.size() - 1, 0);
    for (int64_t i = 0; i < x.size(); ++i) {
      const double value = x.get(i);
      if (value == levels.back()) {
        want.back() += 1;
        continue;
      }
      for (size_t b = 0; b + 1 < levels.size(); ++b) {
        if (value >= levels[b] && value < levels[b + 1]) want[b] += 1;
      }
    }
    expectNear(counts, want, 0, "histogram");
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
