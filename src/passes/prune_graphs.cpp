#include "passes/prune_graphs.h"

#include <unordered_set>

namespace popxl::passes {

bool pruneGraphs(ir::Ir& ir) {
  std::vector<const ir::Graph*> reached{&ir.mainGraph()};
  std::unordered_set<const ir::Graph*> seen{&ir.mainGraph()};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const ir::Op* op : reached[i]->ops()) {
      for (const ir::Graph* callee : op->calledGraphs()) {
        if (seen.insert(callee).second) reached.push_back(callee);
      }
    }
  }
  bool changed = false;
  for (ir::Graph* graph : ir.graphs()) {
    if (seen.contains(graph)) continue;
    ir.eraseGraph(graph);
    changed = true;
  }
  return changed;
}

}  // namespace popxl::passes
