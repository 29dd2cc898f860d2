#include "passes/inplace.h"

#include <algorithm>

#include "algo/regions.h"
#include "analysis/dependences.h"
#include "ir/graph_map.h"
#include "passes/pass.h"
#include "passes/replacement.h"

namespace popxl::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::Tensor;

/// Whether the tensor is memory that no other name stands for, made by an op of its graph, and not returned.
bool ownsItsMemory(const Tensor& t) {
  const Op* producer = t.producer();
  if (producer == nullptr) return false;
  const auto made = producer->aliases();
  const bool isAlias = std::any_of(made.begin(), made.end(),
                                   [&](const ir::Alias& alias) { return alias.output == t.producerIndex(); });
  const bool hasAlias = std::any_of(t.uses().begin(), t.uses().end(), [](const ir::Use& use) {
    const auto aliases = use.op->aliases();
    return std::any_of(aliases.begin(), aliases.end(),
                       [&](const ir::Alias& alias) { return alias.input == use.index; });
  });
  const auto& outputs = t.graph().outputs();
  return !isAlias && !hasAlias && std::find(outputs.begin(), outputs.end(), &t) == outputs.end();
}

bool canWorkInPlace(const Op& op) {
  const ir::OpDef& def = op.def();
  if (op.inplace() || def.inplaceOperand < 0 || !def.inplaceModifies || def.inplaceCopies) return false;
  const Tensor* operand = op.input(static_cast<size_t>(def.inplaceOperand));
  return operand != nullptr && operand->dtype() == op.output()->dtype() &&
         operand->shape() == op.output()->shape() && ownsItsMemory(*operand);
}

/// Whether nothing reads the operand after or while the op runs.
bool isLast(const Op& op, const ir::OpMap<int32_t>& index, algo::Reachability& paths) {
  const Tensor& operand = *op.input(static_cast<size_t>(op.def().inplaceOperand));
  return std::all_of(operand.uses().begin(), operand.uses().end(), [&](const ir::Use& use) {
    if (use.op == &op) return use.index == op.def().inplaceOperand;
    return paths.reaches(index[use.op], index[&op]);
  });
}

void makeInPlace(Graph& graph, Op& op, Followers& followers) {
  const std::string name = op.output()->name();
  graph.rename(op.output(), name + "_before");
  ir::Op* made = graph.addOp(op.def(), {op.inputs(), op.attrs(), true, {name}, op.settings(), op.loc()});
  for (Op* before : op.after()) made->addAfter(before);
  followers.replace(op, {made});
  graph.replaceAllUses(op.output(), made->output());
}

}  // namespace

bool inplace(Graph& graph) {
  const algo::Dag dag = analysis::dependences(graph);
  algo::Reachability paths(dag);
  ir::OpMap<int32_t> index(graph);
  for (size_t i = 0; i < graph.ops().size(); ++i) index[graph.ops()[i]] = static_cast<int32_t>(i);
  std::vector<Op*> chosen;
  for (Op* op : graph.ops()) {
    if (canWorkInPlace(*op) && isLast(*op, index, paths)) chosen.push_back(op);
  }
  Followers followers(graph);
  for (Op* op : chosen) makeInPlace(graph, *op, followers);
  if (!chosen.empty()) graph.eraseOps(chosen);
  return !chosen.empty();
}

bool inplace(ir::Ir& ir) {
  return changeGraphs(ir, [](Graph& graph) { return inplace(graph); });
}

}  // namespace popxl::passes
