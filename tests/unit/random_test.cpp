#include "kernels/random.h"

#include <functional>
#include <set>

#include "kernels/philox.h"
#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

using Four = std::array<uint32_t, 4>;

TEST(Philox, PublishedKnownAnswers) {
  EXPECT_EQ(philoxBlock({0, 0, 0, 0}, 0, 0), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philoxBlock({ones, ones, ones, ones}, ones, ones),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philoxBlock({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, FillIsTheFunctionOfThePosition) {
  Random random(1);
  for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{4093},
                               (uint64_t{1} << 34) - 37, (uint64_t{1} << 40) + 3}) {
    for (const int64_t n : {0, 1, 5, 64, 1000, 3001}) {
      const auto seed0 = static_cast<uint32_t>(random.rng()), seed1 = static_cast<uint32_t>(random.rng());
      std::vector<uint32_t> out(static_cast<size_t>(n));
      philoxFill(seed0, seed1, 3, first, n, out.data());
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(out[static_cast<size_t>(i)], philox(seed0, seed1, first + static_cast<uint64_t>(i), 3))
            << first << " + " << i;
      }
    }
  }
}

/// Largest distance between the sample's distribution function and `cdf`, times the root of the sample's
/// size.
double kolmogorov(std::vector<double> sample, const std::function<double(double)>& cdf) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double worst = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double at = cdf(sample[i]);
    worst = std::max({worst, at - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - at});
  }
  return worst * std::sqrt(n);
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, lag = 0;
};

Moments momentsOf(const std::vector<double>& x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (const double v : x) m.mean += v / n;
  for (const double v : x) m.variance += (v - m.mean) * (v - m.mean) / n;
  const double deviation = std::sqrt(m.variance);
  for (size_t i = 0; i < x.size(); ++i) {
    const double z = (x[i] - m.mean) / deviation;
    m.skew += z * z * z / n;
    m.kurtosis += z * z * z * z / n;
    if (i > 0) m.lag += z * (x[i - 1] - m.mean) / deviation / n;
  }
  return m;
}

TestTensor seedOf(uint32_t a, uint32_t b) {
  TestTensor seed(Layout(DType::kUInt32, {2}));
  seed.fill({static_cast<double>(a), static_cast<double>(b)});
  return seed;
}

// Limits below are about five standard errors for n = 200,000, so that a right generator practically never
// misses them.
constexpr int64_t kDraws = 200000;

TEST(RandomNormal, HasTheMomentsAndTheDistribution) {
  for (const DType dtype : kFloats) {
    TestTensor seed = seedOf(12, 34), out(Layout(dtype, {kDraws}));
    run(makeRandomNormal(seed.layout(), out.layout(), 3, 2), {&seed, &out});
    std::vector<double> z = out.values();
    for (double& v : z) v = (v - 3) / 2;
    const Moments m = momentsOf(z);
    EXPECT_NEAR(m.mean, 0, 0.011);
    EXPECT_NEAR(m.variance, 1, 0.016);
    EXPECT_NEAR(m.skew, 0, 0.028);
    EXPECT_NEAR(m.kurtosis, 3, 0.055);
    EXPECT_NEAR(m.lag, 0, 0.011);
    // float16 is a grid of steps up to 2^-8 here, which adds to the distance.
    EXPECT_LT(kolmogorov(z, [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); }),
              dtype == DType::kFloat16 ? 2.6 : 2.0);
    const auto far = std::count_if(z.begin(), z.end(), [](double v) { return std::fabs(v) > 3; });
    EXPECT_NEAR(static_cast<double>(far), 0.0026998 * kDraws, 120);
  }
}

TEST(RandomUniform, HasTheMomentsAndTheDistribution) {
  for (const DType dtype : kFloats) {
    TestTensor seed = seedOf(5, 6), out(Layout(dtype, {kDraws}));
    run(makeRandomUniform(seed.layout(), out.layout(), -1, 3), {&seed, &out});
    std::vector<double> u = out.values();
    for (double& v : u) v = (v + 1) / 4;
    EXPECT_GE(*std::min_element(u.begin(), u.end()), 0);
    EXPECT_LT(*std::max_element(u.begin(), u.end()), 1);
    const Moments m = momentsOf(u);
    EXPECT_NEAR(m.mean, 0.5, 0.0033);
    EXPECT_NEAR(m.variance, 1.0 / 12, 0.0009);
    EXPECT_NEAR(m.lag, 0, 0.011);
    EXPECT_LT(kolmogorov(u, [](double v) { return v; }), 2.0);
  }
}

TEST(RandomUniform, RoundingNeverReachesTheUpperBound) {
  for (const DType dtype : kFloats) {
    for (const auto& [low, high] : {std::pair(0.0, 1.0), std::pair(-1.0, 0.0), std::pair(1024.0, 1025.0),
                                    std::pair(-0.3, 0.1), std::pair(2.0, 2.0)}) {
      TestTensor seed = seedOf(7, 8), out(Layout(dtype, {kDraws}));
      run(makeRandomUniform(seed.layout(), out.layout(), low, high), {&seed, &out});
      for (int64_t i = 0; i < out.size(); ++i) {
        ASSERT_TRUE(low == high ? out.get(i) == low : out.get(i) < high) << nameOf(dtype) << " " << high;
      }
    }
  }
}

TEST(RandomUniform, IntegersCoverTheirRangeEvenly) {
  for (const DType dtype :
       {DType::kInt8, DType::kUInt8, DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64}) {
    const double low = isSigned(dtype) ? -7 : 2;
    TestTensor seed = seedOf(9, 1), out(Layout(dtype, {kDraws}));
    run(makeRandomUniform(seed.layout(), out.layout(), low, low + 10), {&seed, &out});
    std::array<int64_t, 10> counts{};
    for (int64_t i = 0; i < out.size(); ++i) {
      const double value = out.get(i) - low;
      ASSERT_TRUE(value >= 0 && value < 10) << out.get(i);
      ++counts[static_cast<size_t>(value)];
    }
    double chi = 0;
    for (const int64_t count : counts)
      chi += std::pow(static_cast<double>(count) - kDraws / 10.0, 2) / (kDraws / 10.0);
    EXPECT_LT(chi, 35) << nameOf(dtype);  // 9 degrees of freedom: passed with probability 1 - 6e-5
  }
  TestTensor seed = seedOf(9, 1), wide(Layout(DType::kInt64, {kDraws}));
  run(makeRandomUniform(seed.layout(), wide.layout(), -0x1p61, 0x1p61), {&seed, &wide});
  std::vector<double> u = wide.values();
  for (double& v : u) v = v / 0x1p62 + 0.5;
  EXPECT_LT(kolmogorov(u, [](double v) { return v; }), 2.0);
}

TEST(Random, ElementsDependOnSeedStreamAndPositionAlone) {
  Random random(2);
  for (const DType dtype : kFloats) {
    for (const bool normal : {true, false}) {
      const auto draw = [&](TestTensor& seed, TestTensor& out, uint32_t stream) {
        run(normal ? makeRandomNormal(seed.layout(), out.layout(), 0, 1, stream)
                   : makeRandomUniform(seed.layout(), out.layout(), 0, 1, stream),
            {&seed, &out});
      };
      TestTensor seed = seedOf(1, 2), other = seedOf(2, 1);
      TestTensor large(Layout(dtype, {70000}));
      draw(seed, large, 0);
      std::vector<double> prefix = large.values();
      for (const int64_t n : {1, 2, 3, 63, 65, 1025, 33000}) {
        TestTensor small(Layout(dtype, {n}));
        draw(seed, small, 0);
        expectNear(small, std::vector<double>(prefix.begin(), prefix.begin() + n), 0, "prefix");
      }
      TestTensor strided(makeLayout(dtype, {7, 9, 11}, 1, random.rng));
      draw(seed, strided, 0);
      expectNear(strided, std::vector<double>(prefix.begin(), prefix.begin() + 693), 0, "strided");
      for (auto& [s, stream] : {std::pair(&seed, 1u), std::pair(&other, 0u)}) {
        TestTensor changed(large.layout());
        draw(*s, changed, stream);
        double product = 0;
        for (int64_t i = 0; i < large.size(); ++i) {
          product += (large.get(i) - (normal ? 0 : 0.5)) * (changed.get(i) - (normal ? 0 : 0.5));
        }
        EXPECT_NEAR(product / 70000, 0, 0.02);
      }
    }
  }
}

TEST(SplitSeed, IsAPureFunctionOfSeedAndIndex) {
  std::set<std::pair<double, double>> seen;
  for (const uint32_t first : {0u, 1u, 77u}) {
    TestTensor seed = seedOf(first, 5);
    for (uint32_t i = 0; i < 50; ++i) {
      TestTensor index(Layout(DType::kUInt32, {})), out(seed.layout()), again(seed.layout());
      index.fill({static_cast<double>(i)});
      run(makeSplitSeed(seed.layout(), index.layout(), out.layout()), {&seed, &index, &out});
      run(makeSplitSeed(seed.layout(), i, again.layout()), {&seed, &again});
      expectNear(again, out.values(), 0, "split seed");
      EXPECT_TRUE(seen.emplace(out.get(0), out.get(1)).second) << "the same seed twice";
    }
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
