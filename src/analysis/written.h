#pragma once

#include <vector>

#include "ir/graph.h"

namespace popxl::analysis {

/// The tensors whose memory some op of the graph writes, under whichever name. Tensors that the graph gained
/// since this was made are none of them.
class Written {
 public:
  explicit Written(const ir::Graph& graph);
  bool operator()(const ir::Tensor* t) const {
    return t != nullptr && static_cast<size_t>(t->index()) < written_.size() &&
           written_[static_cast<size_t>(t->index())];
  }

 private:
  std::vector<bool> written_;  // by index
};

}  // namespace popxl::analysis
