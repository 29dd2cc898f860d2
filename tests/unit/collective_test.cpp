#include "kernels/collective.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <random>

#include "base/half.h"
#include "kernels/parallel.h"

namespace popxl::kernels {
namespace {

template <typename T>
using Values = std::vector<std::vector<T>>;

template <typename T>
std::vector<std::byte*> pointers(Values<T>& values) {
  std::vector<std::byte*> out;
  for (auto& v : values) out.push_back(reinterpret_cast<std::byte*>(v.data()));
  return out;
}

template <typename T>
Values<T> run(const Collective& collective, Values<T> in, size_t elements) {
  Values<T> out(in.size(), std::vector<T>(elements, T(77)));
  collective.run(pointers(in), pointers(out));
  return out;
}

template <typename T>
Values<T> randomValues(size_t replicas, size_t elements, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal(0, 100);
  Values<T> out(replicas, std::vector<T>(elements));
  for (auto& v : out) {
    for (T& x : v) x = static_cast<T>(normal(rng));
  }
  return out;
}

ReplicaGroups oneGroup(int32_t replicas) {
  std::vector<int32_t> members(static_cast<size_t>(replicas));
  std::iota(members.begin(), members.end(), 0);
  return {members};
}

/// The tree that is promised, one element at a time.
float tree(const Values<float>& in, size_t i, size_t first, size_t last) {
  if (last - first == 1) return in[first][i];
  const size_t half = first + std::bit_floor(last - first - 1);
  return tree(in, i, first, half) + tree(in, i, half, last);
}

TEST(Collective, SumsFollowOneTreeWithAnyNumberOfThreads) {
  const int before = threadCount();
  for (const size_t replicas : {1, 2, 3, 7, 8, 33}) {
    const auto in = randomValues<float>(replicas, 20'011, 5);
    const auto sum = makeAllReduce(
        {CollectiveReduction::kAdd, DType::kFloat32, 20'011, oneGroup(static_cast<int32_t>(replicas))});
    for (const int threads : {1, 2, 5}) {
      setThreadCount(threads);
      for (const auto& result : run(*sum, in, 20'011)) {
        for (size_t i = 0; i < result.size(); i += 997)
          ASSERT_EQ(result[i], tree(in, i, 0, replicas)) << replicas << " replicas, element " << i;
      }
    }
  }
  setThreadCount(before);
}

TEST(Collective, LargeResultsHaveEveryElement) {  // they go past the caches
  constexpr int64_t kElements = 1'500'001;
  const auto in = randomValues<float>(3, kElements, 8);
  const AllReduce what = {CollectiveReduction::kMean, DType::kFloat32, kElements, oneGroup(3)};
  const auto all = run(*makeAllReduce(what), in, kElements);
  constexpr size_t kShare = 500'001;
  const auto shares = run(*makeReduceScatter(what.reduction, what.dtype, kElements, what.groups), in, kShare);
  for (size_t i = 0; i < kElements; ++i) {
    const float mean = tree(in, i, 0, 3) / 3;
    ASSERT_EQ(shares[i / kShare][i % kShare], mean) << i;
    for (const auto& result : all) ASSERT_EQ(result[i], mean) << i;
  }
  EXPECT_EQ(shares[2][kShare - 2], 0);
  EXPECT_EQ(shares[2][kShare - 1], 0);
}

TEST(Collective, AllReduceWorksInPlace) {
  auto in = randomValues<int32_t>(4, 5000, 6);
  const auto max = makeAllReduce({CollectiveReduction::kMax, DType::kInt32, 5000, {{0, 3}, {1, 2}}});
  ASSERT_TRUE(max->worksInPlace());
  const auto want = run(*max, in, 5000);
  max->run(pointers(in), pointers(in));
  EXPECT_EQ(in, want);
  EXPECT_EQ(want[0], want[3]);
  EXPECT_EQ(want[1], want[2]);
  EXPECT_NE(want[0], want[1]);
}

TEST(Collective, HalvesAreReducedInFloatAndRoundedOnce) {
  // In halves 2048 + 1 is 2048 again.
  Values<uint16_t> in = {{floatToHalf(2048)}, {floatToHalf(1)}, {floatToHalf(1)}, {floatToHalf(1)}};
  const auto sum = makeAllReduce({CollectiveReduction::kAdd, DType::kFloat16, 1, oneGroup(4)});
  EXPECT_EQ(halfToFloat(run(*sum, in, 1)[2][0]), 2052);
  const auto mean = makeAllReduce({CollectiveReduction::kMean, DType::kFloat16, 1, oneGroup(4)});
  EXPECT_EQ(halfToFloat(run(*mean, in, 1)[0][0]), halfToFloat(floatToHalf(2051.0F / 4)));
}

TEST(Collective, IntegersWrap) {
  Values<int8_t> in = {{100, -100}, {100, -100}};
  EXPECT_EQ(run(*makeAllReduce({CollectiveReduction::kAdd, DType::kInt8, 2, oneGroup(2)}), in, 2)[0],
            (std::vector<int8_t>{-56, 56}));
  EXPECT_EQ(run(*makeAllReduce({CollectiveReduction::kMean, DType::kInt8, 2, oneGroup(2)}), in, 2)[1],
            (std::vector<int8_t>{100, -100}));
  Values<uint64_t> large = {{UINT64_MAX}, {3}};
  EXPECT_EQ(run(*makeAllReduce({CollectiveReduction::kMax, DType::kUInt64, 1, oneGroup(2)}), large, 1)[0][0],
            UINT64_MAX);
}

TEST(Collective, NaNWins) {
  Values<float> in = {{1, NAN}, {NAN, 2}};
  for (const auto reduction : {CollectiveReduction::kMin, CollectiveReduction::kMax}) {
    for (const auto& result : run(*makeAllReduce({reduction, DType::kFloat32, 2, oneGroup(2)}), in, 2))
      EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
  }
}

TEST(Collective, PartsArePaddedWithZeros) {
  const Values<float> in = {
      {1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}, {100, 200, 300, 400, 500}, {0, 0, 0, 0, 0}};
  const auto sums =
      run(*makeReduceScatter(CollectiveReduction::kAdd, DType::kFloat32, 5, oneGroup(4)), in, 2);
  EXPECT_EQ(sums, (Values<float>{{111, 222}, {333, 444}, {555, 0}, {0, 0}}));
  const auto own = run(*makeReplicaSlice(DType::kFloat32, 5, oneGroup(4)), in, 2);
  EXPECT_EQ(own, (Values<float>{{1, 2}, {30, 40}, {500, 0}, {0, 0}}));
  const auto whole = run(*makeAllGather(DType::kFloat32, 2, 5, oneGroup(4)), sums, 5);
  for (const auto& result : whole) EXPECT_EQ(result, (std::vector<float>{111, 222, 333, 444, 555}));
}

TEST(Collective, ExchangesMoveValues) {
  const Values<int32_t> in = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  EXPECT_EQ(run(*makeAllToAll(DType::kInt32, 4, oneGroup(2)), in, 4),
            (Values<int32_t>{{1, 2, 5, 6}, {3, 4, 7, 8}}));
  EXPECT_EQ(run(*makePermute(DType::kInt32, 4, {1, -1}), in, 4),
            (Values<int32_t>{{5, 6, 7, 8}, {0, 0, 0, 0}}));
  EXPECT_EQ(run(*makePermute(DType::kInt32, 4, {1, 1}), in, 4),
            (Values<int32_t>{{5, 6, 7, 8}, {5, 6, 7, 8}}));
}

}  // namespace
}  // namespace popxl::kernels
