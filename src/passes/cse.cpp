#include "passes/cse.h"

#include <algorithm>
#include <unordered_map>

#include "analysis/dependences.h"
#include "analysis/written.h"
#include "base/error.h"
#include "ir/text_values.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using analysis::Written;
using ir::Graph;
using ir::Op;
using ir::Tensor;

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

/// Lets `same` take the place of a result of `op`. What reads it still runs after what `op` had to follow.
void merge(Graph& graph, const Op& op, Tensor* result, Tensor* same) {
  for (const ir::Use& use : result->uses()) {
    for (Op* before : op.after()) use.op->addAfter(before);
  }
  graph.replaceAllUses(result, same);
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
    for (size_t i = 0; i < op->outputs().size(); ++i) merge(graph, *op, op->output(i), it->second->output(i));
    merged.push_back(op);
  }
  if (!merged.empty()) graph.eraseOps(merged);
  return !merged.empty();
}

bool cse(ir::Ir& ir) {
  return changeGraphs(ir, [&](Graph& graph) { return cse(graph); });
}

}  // namespace popxl::passes
