#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algo/ragged.h"

namespace popxl::algo {

struct Edge {
  int32_t before;
  int32_t after;
};

/// A directed graph on nodes 0 .. n-1, meant to be acyclic. Built once in O(nodes + edges); duplicate edges
/// count once.
class Dag {
 public:
  Dag() = default;
  /// Asserts that every end of every edge is a node.
  Dag(int32_t numNodes, std::span<const Edge> edges);

  int32_t numNodes() const { return successors_.numRows(); }
  /// The nodes to which `node` has an edge, ascending.
  std::span<const int32_t> successors(int32_t node) const { return successors_[node]; }
  std::vector<int32_t> inDegrees() const;
  /// The same graph with every edge turned round.
  Dag reversed() const;

 private:
  Ragged successors_;
};

/// The nodes so that every edge leads forwards; among nodes that may come next, the lowest id comes first.
/// Fewer than numNodes() nodes when the graph has a cycle; findCycle() then names it.
std::vector<int32_t> topologicalOrder(const Dag& dag);

/// The nodes of one cycle in the order of its edges, lowest id first; empty when there is none. The edge from
/// the last node to the first one closes it.
std::vector<int32_t> findCycle(const Dag& dag);

/// positions[order[i]] == i.
std::vector<int32_t> positionsOf(std::span<const int32_t> order);

}  // namespace popxl::algo
