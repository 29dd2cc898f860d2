#include "analysis/written.h"

#include "algo/regions.h"

namespace popxl::analysis {

Written::Written(const ir::Graph& graph) : written_(graph.numTensorSlots(), false) {
  algo::DisjointSets memory(static_cast<int32_t>(written_.size()));
  std::vector<int32_t> modified;
  for (const ir::Op* op : graph.ops()) {
    for (const ir::Alias& alias : op->aliases()) {
      memory.unite(op->output(static_cast<size_t>(alias.output))->index(),
                   op->input(static_cast<size_t>(alias.input))->index());
    }
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      if (op->input(i) != nullptr && op->modifies(i)) modified.push_back(op->input(i)->index());
    }
  }
  if (modified.empty()) return;
  for (int32_t& t : modified) {
    t = memory.find(t);
    written_[static_cast<size_t>(t)] = true;
  }
  for (size_t t = 0; t < written_.size(); ++t) {
    written_[t] = written_[static_cast<size_t>(memory.find(static_cast<int32_t>(t)))];
  }
}

}  // namespace popxl::analysis
