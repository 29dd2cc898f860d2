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

ValueUses::ValueUses(const ir::Ir& ir) : liveness_(ir, readOperands()), sites_(callSites(ir)) {}

std::vector<ir::Use> ValueUses::of(const ir::Tensor& t) const {
  std::vector<ir::Use> uses;
  for (const ir::Use& use : t.uses()) {
    if (liveness_.live(*use.op) && liveness_.reads(*use.op, static_cast<size_t>(use.index)))
      uses.push_back(use);
  }
  return uses;
}

bool ValueUses::isRead(const ir::Graph& graph, size_t index) const {
  const auto sites = sites_.find(&graph);
  if (graph.isMain() || sites == sites_.end()) return true;
  return std::any_of(sites->second.begin(), sites->second.end(), [&](const ir::Op* op) {
    if (!liveness_.live(*op)) return false;
    return op->def().structure == ir::Structure::kRepeat || liveness_.live(*op->output(index));
  });
}

bool ValueUses::leavesGraph(const ir::Tensor& t) const {
  const auto& outputs = t.graph().outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == &t && isRead(t.graph(), i)) return true;
  }
  return false;
}

bool ValueUses::isSingle(const ir::Tensor& t, ir::Use* use) const {
  const std::vector<ir::Use> uses = of(t);
  if (uses.size() != 1 || leavesGraph(t)) return false;
  if (use != nullptr) *use = uses.front();
  return true;
}

}  // namespace popxl::analysis
