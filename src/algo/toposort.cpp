#include "algo/toposort.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "base/error.h"

namespace popxl::algo {
namespace {

/// Stable counting sort: the edges in ascending order of `key`.
std::vector<Edge> sortedBy(int32_t Edge::*key, int32_t numNodes, std::span<const Edge> edges) {
  std::vector<int32_t> next(numNodes + 1, 0);
  for (const Edge& edge : edges) ++next[edge.*key + 1];
  for (int32_t node = 0; node < numNodes; ++node) next[node + 1] += next[node];
  std::vector<Edge> sorted(edges.size());
  for (const Edge& edge : edges) sorted[next[edge.*key]++] = edge;
  return sorted;
}

bool everyEdgeAscends(const Dag& dag) {
  for (int32_t node = 0; node < dag.numNodes(); ++node) {
    const auto successors = dag.successors(node);
    if (!successors.empty() && successors.front() <= node) return false;
  }
  return true;
}

}  // namespace

Dag::Dag(int32_t numNodes, std::span<const Edge> edges) {
  for (const Edge& edge : edges) {
    POPXL_ASSERT(edge.before >= 0 && edge.before < numNodes && edge.after >= 0 && edge.after < numNodes,
                 "edge {} -> {} among {} nodes", edge.before, edge.after, numNodes);
  }
  const auto sorted = sortedBy(&Edge::before, numNodes, sortedBy(&Edge::after, numNodes, edges));
  successors_.reserve(numNodes, sorted.size());
  size_t next = 0;
  for (int32_t node = 0; node < numNodes; ++node) {
    for (int32_t last = -1; next < sorted.size() && sorted[next].before == node; ++next) {
      if (sorted[next].after != last) successors_.push(sorted[next].after);
      last = sorted[next].after;
    }
    successors_.closeRow();
  }
}

std::vector<int32_t> Dag::inDegrees() const {
  std::vector<int32_t> degrees(numNodes(), 0);
  for (int32_t node : successors_.values()) ++degrees[node];
  return degrees;
}

Dag Dag::reversed() const {
  std::vector<Edge> edges;
  edges.reserve(successors_.values().size());
  for (int32_t node = 0; node < numNodes(); ++node) {
    for (int32_t successor : successors(node)) edges.push_back({successor, node});
  }
  return Dag(numNodes(), edges);
}

std::vector<int32_t> topologicalOrder(const Dag& dag) {
  std::vector<int32_t> order(dag.numNodes());
  // Graphs are mostly in creation order already, and then that order is the one asked for.
  if (everyEdgeAscends(dag)) {
    for (int32_t node = 0; node < dag.numNodes(); ++node) order[node] = node;
    return order;
  }
  order.clear();
  auto waiting = dag.inDegrees();
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t node = 0; node < dag.numNodes(); ++node) {
    if (waiting[node] == 0) ready.push(node);
  }
  while (!ready.empty()) {
    const int32_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (int32_t successor : dag.successors(node)) {
      if (--waiting[successor] == 0) ready.push(successor);
    }
  }
  return order;
}

std::vector<int32_t> findCycle(const Dag& dag) {
  const auto order = topologicalOrder(dag);
  if (order.size() == static_cast<size_t>(dag.numNodes())) return {};
  std::vector<bool> stuck(dag.numNodes(), true);
  for (int32_t node : order) stuck[node] = false;

  // Every stuck node waits for another stuck one, so a walk backwards must come round.
  const Dag predecessors = dag.reversed();
  std::vector<int32_t> walk;
  std::vector<int32_t> step(dag.numNodes(), -1);
  auto node = static_cast<int32_t>(std::find(stuck.begin(), stuck.end(), true) - stuck.begin());
  while (step[node] < 0) {
    step[node] = static_cast<int32_t>(walk.size());
    walk.push_back(node);
    const auto before = predecessors.successors(node);
    node = *std::find_if(before.begin(), before.end(), [&](int32_t other) { return stuck[other]; });
  }
  std::vector<int32_t> cycle(walk.begin() + step[node], walk.end());
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

std::vector<int32_t> positionsOf(std::span<const int32_t> order) {
  std::vector<int32_t> positions(order.size());
  for (size_t i = 0; i < order.size(); ++i) positions[order[i]] = static_cast<int32_t>(i);
  return positions;
}

}  // namespace popxl::algo
