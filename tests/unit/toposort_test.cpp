#include "algo/toposort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace popxl::algo {
namespace {

std::vector<Edge> randomEdges(std::mt19937& random, int32_t numNodes, int32_t numEdges) {
  std::vector<Edge> edges(numEdges);
  std::uniform_int_distribution<int32_t> node(0, numNodes - 1);
  for (Edge& edge : edges) edge = {node(random), node(random)};
  return edges;
}

/// Makes the edges acyclic: each leads upwards in a random numbering.
void orient(std::mt19937& random, int32_t numNodes, std::vector<Edge>& edges) {
  std::vector<int32_t> rank(numNodes);
  std::iota(rank.begin(), rank.end(), 0);
  std::shuffle(rank.begin(), rank.end(), random);
  std::erase_if(edges, [](const Edge& edge) { return edge.before == edge.after; });
  for (Edge& edge : edges) {
    if (rank[edge.before] > rank[edge.after]) std::swap(edge.before, edge.after);
  }
}

/// At each place, the lowest node all of whose predecessors came before; stops when there is none.
std::vector<int32_t> orderByDefinition(int32_t numNodes, const std::vector<Edge>& edges) {
  std::vector<int32_t> order;
  std::vector<bool> done(numNodes, false);
  for (bool progress = true; progress;) {
    progress = false;
    for (int32_t node = 0; node < numNodes && !progress; ++node) {
      const auto blocks = [&](const Edge& edge) { return edge.after == node && !done[edge.before]; };
      if (done[node] || std::any_of(edges.begin(), edges.end(), blocks)) continue;
      done[node] = progress = true;
      order.push_back(node);
    }
  }
  return order;
}

TEST(Dag, KeepsEachEdgeOnceInAscendingOrder) {
  const Dag dag(4, std::vector<Edge>{{2, 3}, {0, 3}, {0, 1}, {2, 3}, {0, 3}});
  EXPECT_EQ(dag.numNodes(), 4);
  EXPECT_EQ(std::vector<int32_t>(dag.successors(0).begin(), dag.successors(0).end()),
            (std::vector<int32_t>{1, 3}));
  EXPECT_TRUE(dag.successors(1).empty());
  EXPECT_EQ(std::vector<int32_t>(dag.successors(2).begin(), dag.successors(2).end()),
            (std::vector<int32_t>{3}));
  EXPECT_EQ(dag.inDegrees(), (std::vector<int32_t>{0, 1, 0, 2}));
  const Dag back = dag.reversed();
  EXPECT_EQ(std::vector<int32_t>(back.successors(3).begin(), back.successors(3).end()),
            (std::vector<int32_t>{0, 2}));
}

TEST(Dag, RefusesEdgesToNowhere) {
  EXPECT_ANY_THROW(Dag(2, std::vector<Edge>{{0, 2}}));
  EXPECT_ANY_THROW(Dag(2, std::vector<Edge>{{-1, 0}}));
}

TEST(TopologicalOrder, NothingAndOne) {
  EXPECT_TRUE(topologicalOrder(Dag()).empty());
  EXPECT_TRUE(findCycle(Dag()).empty());
  EXPECT_EQ(topologicalOrder(Dag(1, {})), std::vector<int32_t>{0});
}

TEST(TopologicalOrder, TakesTheLowestIdThatMayComeNext) {
  EXPECT_EQ(topologicalOrder(Dag(4, std::vector<Edge>{{3, 0}, {3, 2}})), (std::vector<int32_t>{1, 3, 0, 2}));
}

TEST(TopologicalOrder, IsTheOneDefinedOnRandomGraphs) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto numNodes = static_cast<int32_t>(1 + random() % 12);
    auto edges = randomEdges(random, numNodes, static_cast<int32_t>(random() % 25));
    if (seed % 3 != 0) orient(random, numNodes, edges);
    const Dag dag(numNodes, edges);
    const auto expected = orderByDefinition(numNodes, edges);
    ASSERT_EQ(topologicalOrder(dag), expected);
    const auto cycle = findCycle(dag);
    ASSERT_EQ(cycle.empty(), expected.size() == static_cast<size_t>(numNodes));
    ASSERT_EQ(std::set<int32_t>(cycle.begin(), cycle.end()).size(), cycle.size());
    for (size_t i = 0; i < cycle.size(); ++i) {
      const auto successors = dag.successors(cycle[i]);
      ASSERT_TRUE(std::binary_search(successors.begin(), successors.end(), cycle[(i + 1) % cycle.size()]));
      ASSERT_LE(cycle[0], cycle[i]);
    }
  }
}

TEST(FindCycle, NamesTheCycleOnlyAndInOrder) {
  // 0 leads into the cycle 1 -> 4 -> 2 -> 1, which leads to 3.
  const Dag dag(5, std::vector<Edge>{{0, 1}, {1, 4}, {4, 2}, {2, 1}, {2, 3}});
  EXPECT_EQ(topologicalOrder(dag), std::vector<int32_t>{0});
  EXPECT_EQ(findCycle(dag), (std::vector<int32_t>{1, 4, 2}));
  EXPECT_EQ(findCycle(Dag(3, std::vector<Edge>{{1, 1}})), std::vector<int32_t>{1});
}

TEST(TopologicalOrder, OfAMillionNodes) {
  constexpr int32_t kNodes = 1'000'000;
  std::mt19937 random(7);
  auto edges = randomEdges(random, kNodes, 3 * kNodes);
  orient(random, kNodes, edges);
  const auto positions = positionsOf(topologicalOrder(Dag(kNodes, edges)));
  ASSERT_EQ(positions.size(), static_cast<size_t>(kNodes));
  for (const Edge& edge : edges) ASSERT_LT(positions[edge.before], positions[edge.after]);

  std::vector<Edge> ring(kNodes);
  for (int32_t node = 0; node < kNodes; ++node) ring[node] = {node, (node + 1) % kNodes};
  EXPECT_EQ(findCycle(Dag(kNodes, ring)).size(), static_cast<size_t>(kNodes));
}

}  // namespace
}  // namespace popxl::algo
