#include "analysis/written.h"

#include <unordered_map>

#include "algo/regions.h"

namespace popxl::analysis {

Written::Written(const ir::Graph& graph) {
  const auto tensors = graph.tensors();
  std::unordered_map<const ir::Tensor*, int32_t> index;
  for (const ir::Tensor* t : tensors) index.emplace(t, static_cast<int32_t>(index.size()));
  algo::DisjointSets memory(static_cast<int32_t>(tensors.size()));
  for (const ir::Op* op : graph.ops()) {
    for (const ir::Alias& alias : op->aliases()) {
      memory.unite(index.at(op->output(static_cast<size_t>(alias.output))),
                   index.at(op->input(static_cast<size_t>(alias.input))));
    }
  }
  std::unordered_set<int32_t> written;
  for (const ir::Op* op : graph.ops()) {
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      if (op->input(i) != nullptr && op->modifies(i)) written.insert(memory.find(index.at(op->input(i))));
    }
  }
  for (const ir::Tensor* t : tensors) {
    if (written.contains(memory.find(index.at(t)))) written_.insert(t);
  }
}

}  // namespace popxl::analysis
