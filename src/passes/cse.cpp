#include "passes/cse.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "algo/regions.h"
#include "analysis/dependences.h"
#include "base/error.h"
#include "ir/text_values.h"

namespace popxl::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::Tensor;

/// The tensors whose memory some op of the graph writes, under whichever name.
class Written {
 public:
  explicit Written(const Graph& graph) {
    const auto tensors = graph.tensors();
    for (const Tensor* t : tensors) index_.emplace(t, static_cast<int32_t>(index_.size()));
    algo::DisjointSets memory(static_cast<int32_t>(tensors.size()));
    for (const Op* op : graph.ops()) {
      for (const ir::Alias& alias : op->aliases()) {
        memory.unite(index_.at(op->output(static_cast<size_t>(alias.output))),
                     index_.at(op->input(static_cast<size_t>(alias.input))));
      }
    }
    std::unordered_set<int32_t> written;
    for (const Op* op : graph.ops()) {
      for (size_t i = 0; i < op->inputs().size(); ++i) {
        if (op->input(i) != nullptr && op->modifies(i)) written.insert(memory.find(index_.at(op->input(i))));
      }
    }
    for (const Tensor* t : tensors) {
      if (written.contains(memory.find(index_.at(t)))) written_.insert(t);
    }
  }
  bool operator()(const Tensor* t) const { return t != nullptr && written_.contains(t); }

 private:
  std::unordered_map<const Tensor*, int32_t> index_;
  std::unordered_set<const Tensor*> written_;
};

bool isPure(const Op& op, const Written& written) {
  if (op.def().sideEffect || op.def().random || op.outputs().empty() || !op.calledGraphs().empty())
    return false;
  if (op.def().structure != ir::Structure::kNone || !op.aliases().empty()) return false;
  return std::none_of(op.inputs().begin(), op.inputs().end(), written) &&
         std::none_of(op.outputs().begin(), op.outputs().end(), written);
}

/// Equal for ops that compute the same, given that their operands are the same tensors.
std::string keyOf(const Op& op) {
  const ir::Settings& s = op.settings();
  std::string key =
      fmt::format("{}|{}|{}|{}", op.name(), s.ipu, static_cast<int>(s.tileSet), static_cast<int>(s.context));
  for (const Tensor* t : op.inputs()) key += fmt::format("|{}", fmt::ptr(t));
  for (const ir::Attr& attr : op.attrs()) key += '|' + ir::attrText(attr);
  return key;
}

}  // namespace

bool cse(Graph& graph) {
  const Written written(graph);
  std::unordered_map<std::string, Op*> first;
  std::vector<Op*> merged;
  for (Op* op : analysis::topologicalOrder(graph)) {
    if (!isPure(*op, written)) continue;
    const auto [it, fresh] = first.emplace(keyOf(*op), op);
    if (fresh) continue;
    for (size_t i = 0; i < op->outputs().size(); ++i)
      graph.replaceAllUses(op->output(i), it->second->output(i));
    merged.push_back(op);
  }
  if (!merged.empty()) graph.eraseOps(merged);
  return !merged.empty();
}

bool cse(ir::Ir& ir) {
  bool changed = false;
  for (Graph* graph : ir.graphs()) changed = cse(*graph) || changed;
  return changed;
}

}  // namespace popxl::passes
