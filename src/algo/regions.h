#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "algo/toposort.h"

namespace popxl::algo {

/// A partition of 0 .. n-1 that starts with every element alone.
class DisjointSets {
 public:
  explicit DisjointSets(int32_t size = 0);

  int32_t size() const { return static_cast<int32_t>(parents_.size()); }
  /// A new element, alone in its set; returns it.
  int32_t add();
  /// The lowest element of the set that holds `element`.
  int32_t find(int32_t element);
  bool same(int32_t a, int32_t b) { return find(a) == find(b); }
  /// Makes one set of two; returns its lowest element.
  int32_t unite(int32_t a, int32_t b);

 private:
  std::vector<int32_t> parents_;
};

/// Answers whether one node of a DAG leads to another. Labels made once in O(n log n) decide most questions
/// at once: positions in a topological order, a partition of the nodes into paths, and two depth-first
/// traversals. What they leave open is searched between the two positions, pruned by the same labels.
class Reachability {
 public:
  /// Keeps a reference to `dag`, which must be acyclic (asserted) and outlive this.
  explicit Reachability(const Dag& dag);

  /// True when a path leads from `from` to `to`; a node reaches itself.
  bool reaches(int32_t from, int32_t to);
  /// True when a path leads from one to the other, either way.
  bool ordered(int32_t a, int32_t b) { return reaches(a, b) || reaches(b, a); }
  /// Two distinct nodes that no path orders, one of them in `writers` and the other in `writers` or
  /// `readers`; nothing when there are none. The earlier of the pair in topological order comes first. Asks
  /// O(writers + readers) questions: once writers are ordered one after the other, a reader need only be
  /// compared with the two next to it.
  std::optional<std::pair<int32_t, int32_t>> unorderedPair(std::span<const int32_t> writers,
                                                           std::span<const int32_t> readers);
  /// Place of `node` in topological order.
  int32_t position(int32_t node) const { return positions_[node]; }

 private:
  /// From one depth-first traversal. A node's tree holds [enter, leave); all it reaches has post in [low,
  /// post].
  struct Label {
    int32_t enter, leave;
    int32_t low, post;
  };
  enum class Answer : uint8_t { kNo, kYes, kOpen };

  void labelPaths(std::span<const int32_t> order);
  void labelTraversal(std::span<const int32_t> roots, bool ascending, std::vector<Label>& labels);
  Answer decide(int32_t from, int32_t to) const;
  bool search(int32_t from, int32_t to);

  const Dag& dag_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> paths_;  ///< which path of the partition holds the node
  std::vector<Label> ascending_;
  std::vector<Label> descending_;
  std::vector<int32_t> visited_;  ///< number of the search that saw the node last
  std::vector<int32_t> stack_;
  int32_t searches_ = 0;
};

}  // namespace popxl::algo
