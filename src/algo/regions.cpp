#include "algo/regions.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace popxl::algo {

DisjointSets::DisjointSets(int32_t size) : parents_(size) { std::iota(parents_.begin(), parents_.end(), 0); }

int32_t DisjointSets::add() {
  parents_.push_back(size());
  return parents_.back();
}

int32_t DisjointSets::find(int32_t element) {
  while (parents_[element] != element) {
    parents_[element] = parents_[parents_[element]];
    element = parents_[element];
  }
  return element;
}

int32_t DisjointSets::unite(int32_t a, int32_t b) {
  a = find(a);
  b = find(b);
  return parents_[std::max(a, b)] = std::min(a, b);
}

Reachability::Reachability(const Dag& dag) : dag_(dag), visited_(dag.numNodes(), 0) {
  const auto order = topologicalOrder(dag);
  POPXL_ASSERT(order.size() == visited_.size(), "{} of {} nodes are in or behind a cycle",
               visited_.size() - order.size(), visited_.size());
  positions_ = positionsOf(order);
  labelPaths(order);
  auto roots = order;
  const auto degrees = dag.inDegrees();
  std::erase_if(roots, [&](int32_t node) { return degrees[node] > 0; });
  labelTraversal(roots, true, ascending_);
  std::reverse(roots.begin(), roots.end());
  labelTraversal(roots, false, descending_);
}

void Reachability::labelPaths(std::span<const int32_t> order) {
  paths_.assign(order.size(), -1);
  int32_t numPaths = 0;
  for (int32_t node : order) {
    if (paths_[node] < 0) paths_[node] = numPaths++;
    // The path goes on at the nearest successor that lies on none: along an explicit chain, the next link.
    int32_t next = -1;
    for (int32_t successor : dag_.successors(node)) {
      if (paths_[successor] < 0 && (next < 0 || positions_[successor] < positions_[next])) next = successor;
    }
    if (next >= 0) paths_[next] = paths_[node];
  }
}

void Reachability::labelTraversal(std::span<const int32_t> roots, bool ascending,
                                  std::vector<Label>& labels) {
  struct Frame {
    int32_t node;
    int32_t done;  // successors looked at
  };
  labels.assign(dag_.numNodes(), {-1, -1, -1, -1});
  std::vector<Frame> frames;
  int32_t entered = 0;
  int32_t left = 0;
  const auto enter = [&](int32_t node) {
    labels[node].enter = entered++;
    labels[node].low = INT32_MAX;
    frames.push_back({node, 0});
  };
  for (int32_t root : roots) {
    for (enter(root); !frames.empty();) {
      auto& [node, done] = frames.back();
      const auto successors = dag_.successors(node);
      if (done < static_cast<int32_t>(successors.size())) {
        const int32_t next = successors[ascending ? done : successors.size() - 1 - done];
        ++done;
        if (labels[next].enter < 0) enter(next);
        continue;
      }
      Label& label = labels[node];
      label.leave = entered;
      label.post = left++;
      label.low = label.post;
      for (int32_t successor : successors) label.low = std::min(label.low, labels[successor].low);
      frames.pop_back();
    }
  }
}

Reachability::Answer Reachability::decide(int32_t from, int32_t to) const {
  if (from == to) return Answer::kYes;
  if (positions_[from] > positions_[to]) return Answer::kNo;
  if (paths_[from] == paths_[to]) return Answer::kYes;
  for (const auto* labels : {&ascending_, &descending_}) {
    const Label& a = (*labels)[from];
    const Label& b = (*labels)[to];
    if (a.enter <= b.enter && b.enter < a.leave) return Answer::kYes;
    if (b.low < a.low || b.post > a.post) return Answer::kNo;
  }
  return Answer::kOpen;
}

bool Reachability::reaches(int32_t from, int32_t to) {
  const Answer answer = decide(from, to);
  return answer == Answer::kOpen ? search(from, to) : answer == Answer::kYes;
}

bool Reachability::search(int32_t from, int32_t to) {
  if (searches_ == INT32_MAX) {
    std::fill(visited_.begin(), visited_.end(), 0);
    searches_ = 0;
  }
  ++searches_;
  stack_.assign(1, from);
  while (!stack_.empty()) {
    const int32_t node = stack_.back();
    stack_.pop_back();
    for (int32_t successor : dag_.successors(node)) {
      if (visited_[successor] == searches_) continue;
      visited_[successor] = searches_;
      const Answer answer = decide(successor, to);
      if (answer == Answer::kYes) return true;
      if (answer == Answer::kOpen) stack_.push_back(successor);
    }
  }
  return false;
}

std::optional<std::pair<int32_t, int32_t>> Reachability::unorderedPair(std::span<const int32_t> writers,
                                                                       std::span<const int32_t> readers) {
  const auto earlier = [&](int32_t a, int32_t b) { return positions_[a] < positions_[b]; };
  std::vector<int32_t> sorted(writers.begin(), writers.end());
  std::sort(sorted.begin(), sorted.end(), earlier);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (!reaches(sorted[i - 1], sorted[i])) return std::pair(sorted[i - 1], sorted[i]);
  }
  for (int32_t reader : readers) {
    const auto next = std::lower_bound(sorted.begin(), sorted.end(), reader, earlier);
    if (next != sorted.end() && !reaches(reader, *next)) return std::pair(reader, *next);
    if (next != sorted.begin() && !reaches(*std::prev(next), reader))
      return std::pair(*std::prev(next), reader);
  }
  return std::nullopt;
}

}  // namespace popxl::algo
