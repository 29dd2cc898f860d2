#include "algo/regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace popxl::algo {
namespace {

std::vector<Edge> randomDag(std::mt19937& random, int32_t numNodes, int32_t numEdges) {
  std::vector<int32_t> label(numNodes);
  std::iota(label.begin(), label.end(), 0);
  std::shuffle(label.begin(), label.end(), random);
  std::vector<Edge> edges;
  for (int32_t i = 0; i < numEdges; ++i) {
    const auto a = static_cast<int32_t>(random() % numNodes), b = static_cast<int32_t>(random() % numNodes);
    if (a != b) edges.push_back({label[std::min(a, b)], label[std::max(a, b)]});
  }
  return edges;
}

/// Floyd-Warshall; every node reaches itself.
std::vector<std::vector<bool>> closure(int32_t numNodes, const std::vector<Edge>& edges) {
  std::vector<std::vector<bool>> reaches(numNodes, std::vector<bool>(numNodes, false));
  for (int32_t i = 0; i < numNodes; ++i) reaches[i][i] = true;
  for (const Edge& edge : edges) reaches[edge.before][edge.after] = true;
  for (int32_t k = 0; k < numNodes; ++k) {
    for (int32_t i = 0; i < numNodes; ++i) {
      for (int32_t j = 0; j < numNodes; ++j)
        reaches[i][j] = reaches[i][j] || (reaches[i][k] && reaches[k][j]);
    }
  }
  return reaches;
}

TEST(DisjointSets, MatchARelabelledArray) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto size = static_cast<int32_t>(1 + random() % 40);
    DisjointSets sets(size - 1);
    EXPECT_EQ(sets.add(), size - 1);
    std::vector<int32_t> lowest(size);
    std::iota(lowest.begin(), lowest.end(), 0);
    for (int i = 0; i < 30; ++i) {
      const auto a = static_cast<int32_t>(random() % size), b = static_cast<int32_t>(random() % size);
      ASSERT_EQ(sets.same(a, b), lowest[a] == lowest[b]);
      const int32_t from = std::max(lowest[a], lowest[b]), to = std::min(lowest[a], lowest[b]);
      ASSERT_EQ(sets.unite(a, b), to);
      std::replace(lowest.begin(), lowest.end(), from, to);
      for (int32_t element = 0; element < size; ++element) ASSERT_EQ(sets.find(element), lowest[element]);
    }
  }
}

TEST(DisjointSets, OfAMillionElements) {
  constexpr int32_t kSize = 1'000'000;
  for (const bool upwards : {true, false}) {
    DisjointSets sets(kSize);
    for (int32_t i = 0; i + 1 < kSize; ++i) {
      const int32_t element = upwards ? i : kSize - 2 - i;
      sets.unite(element, element + 1);
    }
    for (int32_t i = 0; i < kSize; ++i) ASSERT_EQ(sets.find(i), 0);
  }
}

TEST(Reachability, MatchesFloydWarshall) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto numNodes = static_cast<int32_t>(1 + random() % 40);
    const auto edges = randomDag(random, numNodes, static_cast<int32_t>(random() % 80));
    const Dag dag(numNodes, edges);
    const auto expected = closure(numNodes, edges);
    Reachability reachability(dag);
    for (int32_t from = 0; from < numNodes; ++from) {
      for (int32_t to = 0; to < numNodes; ++to) {
        ASSERT_EQ(reachability.reaches(from, to), expected[from][to]) << from << " to " << to;
        ASSERT_EQ(reachability.ordered(from, to), expected[from][to] || expected[to][from]);
      }
    }
  }
}

TEST(Reachability, FindsAnUnorderedPairExactlyWhenThereIsOne) {
  int found = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto numNodes = static_cast<int32_t>(2 + random() % 20);
    const auto edges = randomDag(random, numNodes, static_cast<int32_t>(random() % 120));
    const Dag dag(numNodes, edges);
    const auto expected = closure(numNodes, edges);
    std::vector<int32_t> writers(random() % 4), readers(random() % 4);
    for (auto* nodes : {&writers, &readers}) {
      for (int32_t& node : *nodes) node = static_cast<int32_t>(random() % numNodes);
    }
    const auto ordered = [&](int32_t a, int32_t b) { return expected[a][b] || expected[b][a]; };
    bool any = false;
    for (int32_t writer : writers) {
      for (int32_t other : writers) any |= !ordered(writer, other);
      for (int32_t other : readers) any |= !ordered(writer, other);
    }
    Reachability reachability(dag);
    const auto pair = reachability.unorderedPair(writers, readers);
    ASSERT_EQ(pair.has_value(), any);
    if (!pair) continue;
    ++found;
    const auto [a, b] = *pair;
    ASSERT_FALSE(ordered(a, b));
    ASSERT_LT(reachability.position(a), reachability.position(b));
    const auto in = [](const std::vector<int32_t>& nodes, int32_t node) {
      return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    };
    ASSERT_TRUE((in(writers, a) && (in(writers, b) || in(readers, b))) || (in(readers, a) && in(writers, b)));
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(found, 1900);
}

TEST(Reachability, RefusesACycle) {
  const Dag ring(2, std::vector<Edge>{{0, 1}, {1, 0}});
  EXPECT_ANY_THROW(Reachability{ring});
}

constexpr int32_t kMany = 1'000'000;

TEST(Reachability, AlongAChainOfAMillionNodes) {
  std::mt19937 random(17);
  std::vector<Edge> edges;
  for (int32_t node = 1; node < kMany; ++node) {
    edges.push_back({node - 1, node});
    edges.push_back({static_cast<int32_t>(random() % node), node});
  }
  const Dag dag(kMany, edges);
  Reachability reachability(dag);
  for (int32_t i = 0; i < kMany; ++i) {
    const auto a = static_cast<int32_t>(random() % kMany), b = static_cast<int32_t>(random() % kMany);
    ASSERT_EQ(reachability.reaches(a, b), a <= b);
  }
  std::vector<int32_t> all(kMany);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_FALSE(reachability.unorderedPair(all, all).has_value());
}

TEST(Reachability, BetweenManyWeightsOfATrainingStep) {
  // Forwards f0 -> f1 -> ..., backwards ... -> b1 -> b0, a gradient op and an update per layer; each layer's
  // activation feeds its gradient op. No explicit order besides.
  constexpr int32_t kLayers = 200'000;
  const auto forward = [](int32_t i) { return 4 * i; };
  const auto backward = [](int32_t i) { return 4 * i + 1; };
  const auto gradient = [](int32_t i) { return 4 * i + 2; };
  const auto update = [](int32_t i) { return 4 * i + 3; };
  std::vector<Edge> edges;
  for (int32_t i = 0; i < kLayers; ++i) {
    if (i > 0) edges.push_back({forward(i - 1), forward(i)});
    if (i > 0) edges.push_back({backward(i), backward(i - 1)});
    if (i > 0) edges.push_back({forward(i - 1), gradient(i)});
    edges.push_back({backward(i), gradient(i)});
    edges.push_back({gradient(i), update(i)});
  }
  edges.push_back({forward(kLayers - 1), backward(kLayers - 1)});
  const Dag dag(4 * kLayers, edges);
  Reachability reachability(dag);
  for (int32_t i = 0; i < kLayers; ++i) {
    const std::vector<int32_t> writers{update(i)}, readers{forward(i), backward(i)};
    ASSERT_FALSE(reachability.unorderedPair(writers, readers).has_value());
    if (i == 0) continue;
    // The backward op that follows is ordered neither way with this update.
    const std::vector<int32_t> more{forward(i), backward(i), backward(i - 1)};
    const auto pair = reachability.unorderedPair(writers, more);
    ASSERT_TRUE(pair.has_value());
    ASSERT_EQ(std::minmax(pair->first, pair->second), std::minmax(update(i), backward(i - 1)));
  }
}

}  // namespace
}  // namespace popxl::algo
