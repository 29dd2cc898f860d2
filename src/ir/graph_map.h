#pragma once

#include <vector>

#include "ir/graph.h"

namespace popxl::ir {

/// A value for each tensor of one graph.
template <typename T>
class TensorMap {
 public:
  explicit TensorMap(const Graph& graph, const T& initial = T()) : values_(graph.numTensorSlots(), initial) {}
  decltype(auto) operator[](const Tensor* t) { return values_[static_cast<size_t>(t->index())]; }
  decltype(auto) operator[](const Tensor* t) const { return values_[static_cast<size_t>(t->index())]; }
  /// Whether there is a value for t: not when the graph gained it later.
  bool has(const Tensor* t) const { return static_cast<size_t>(t->index()) < values_.size(); }

 private:
  std::vector<T> values_;
};

/// A value for each op of one graph.
template <typename T>
class OpMap {
 public:
  explicit OpMap(const Graph& graph, const T& initial = T()) : values_(graph.numOpSlots(), initial) {}
  decltype(auto) operator[](const Op* op) { return values_[static_cast<size_t>(op->index())]; }
  decltype(auto) operator[](const Op* op) const { return values_[static_cast<size_t>(op->index())]; }
  bool has(const Op* op) const { return static_cast<size_t>(op->index()) < values_.size(); }

 private:
  std::vector<T> values_;
};

}  // namespace popxl::ir
