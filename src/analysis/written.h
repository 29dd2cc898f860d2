#pragma once

#include <unordered_set>

#include "ir/graph.h"

namespace popxl::analysis {

/// The tensors whose memory some op of the graph writes, under whichever name.
class Written {
 public:
  explicit Written(const ir::Graph& graph);
  bool operator()(const ir::Tensor* t) const { return t != nullptr && written_.contains(t); }

 private:
  std::unordered_set<const ir::Tensor*> written_;
};

}  // namespace popxl::analysis
