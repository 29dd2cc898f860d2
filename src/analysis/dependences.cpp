#include "analysis/dependences.h"

#include <unordered_set>

#include "base/error.h"
#include "ir/graph_map.h"

namespace popxl::analysis {

algo::Dag dependences(const ir::Graph& graph) {
  graph.checkContexts();  // against the order of the contexts data would make a cycle
  const auto n = static_cast<int32_t>(graph.ops().size());
  ir::OpMap<int32_t> index(graph);
  for (int32_t i = 0; i < n; ++i) index[graph.ops()[static_cast<size_t>(i)]] = i;
  constexpr int32_t kBarriers = 3;  // between four contexts
  std::vector<algo::Edge> edges;
  for (int32_t i = 0; i < n; ++i) {
    const ir::Op& op = *graph.ops()[static_cast<size_t>(i)];
    for (const ir::Tensor* t : op.inputs()) {
      if (t != nullptr && t->producer() != nullptr) edges.push_back({index[t->producer()], i});
    }
    for (const ir::Op* before : op.after()) edges.push_back({index[before], i});
    const auto context = static_cast<int32_t>(op.settings().context);
    if (context < kBarriers) edges.push_back({i, n + context});
    if (context > 0) edges.push_back({n + context - 1, i});
  }
  for (int32_t b = 1; b < kBarriers; ++b) edges.push_back({n + b - 1, n + b});
  return algo::Dag(n + kBarriers, edges);
}

std::vector<ir::Op*> topologicalOrder(const ir::Graph& graph) {
  std::vector<ir::Op*> ops;
  ops.reserve(graph.ops().size());
  for (const int32_t i : algo::topologicalOrder(dependences(graph))) {
    if (i < static_cast<int32_t>(graph.ops().size())) ops.push_back(graph.ops()[static_cast<size_t>(i)]);
  }
  POPXL_ASSERT(ops.size() == graph.ops().size(), "graph {} has a cycle", graph.displayName());
  return ops;
}

std::vector<const ir::Op*> mustRunBefore(const std::vector<const ir::Op*>& ops) {
  std::vector<const ir::Op*> found;
  std::unordered_set<const ir::Op*> seen;
  const auto visit = [&](const ir::Op* op) {
    if (op != nullptr && seen.insert(op).second) found.push_back(op);
  };
  for (const ir::Op* op : ops) visit(op);
  for (size_t i = 0; i < found.size(); ++i) {
    const ir::Op* op = found[i];
    for (const ir::Tensor* in : op->inputs()) visit(in == nullptr ? nullptr : in->producer());
    for (const ir::Op* before : op->after()) visit(before);
  }
  return found;
}

}  // namespace popxl::analysis
