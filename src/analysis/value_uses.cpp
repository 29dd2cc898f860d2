#include "analysis/value_uses.h"

#include <algorithm>

namespace popxl::analysis {

CallSites callSites(const ir::Ir& ir) {
  CallSites sites;
  for (const ir::Graph* graph : ir.graphs()) {
    for (ir::Op* op : graph->ops()) {
      for (const ir::Graph* callee : op->calledGraphs()) {
        std::vector<ir::Op*>& of = sites[callee];
        if (of.empty() || of.back() != op) of.push_back(op);
      }
    }
  }
  return sites;
}

ValueUses::ValueUses(const ir::Ir& ir) : liveness_(ir, readOperands()) {}

std::vector<ir::Use> ValueUses::of(const ir::Tensor& t) const {
  std::vector<ir::Use> uses;
  for (const ir::Use& use : t.uses()) {
    if (liveness_.live(*use.op) && liveness_.reads(*use.op, static_cast<size_t>(use.index)))
      uses.push_back(use);
  }
  return uses;
}

bool ValueUses::isSingle(const ir::Tensor& t, ir::Use* use) const {
  const std::vector<ir::Use> uses = of(t);
  if (uses.size() != 1 || liveness_.returned(t)) return false;
  if (use != nullptr) *use = uses.front();
  return true;
}

}  // namespace popxl::analysis
