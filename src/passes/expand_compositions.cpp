#include "passes/expand_compositions.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "analysis/dependences.h"
#include "analysis/written.h"
#include "base/error.h"
#include "ir/added_ops.h"
#include "passes/pass.h"
#include "passes/replacement.h"

namespace popxl::passes {
namespace {

using ir::Op;
using ir::Tensor;

bool isElementary(const Op* op) {
  const ir::AddedOp* added = ir::addedOp(op->def());
  return added == nullptr || added->body == nullptr;
}

/// A result is memory of its own: what changes it in place later changes neither an operand nor a constant
/// nor another result.
bool isOwnMemory(const Tensor* t, const std::vector<Tensor*>& results) {
  return t->kind() == ir::TensorKind::kActivation && std::count(results.begin(), results.end(), t) == 1;
}

/// What follows one op in the graph follows all that it became, where it may change what these read.
void keepOrder(const Replacement& at, const analysis::Written& written) {
  const std::vector<Tensor*>& operands = at.op().inputs();
  if (std::none_of(operands.begin(), operands.end(), std::cref(written))) return;
  for (const Tensor* result : at.op().outputs()) {
    for (const ir::Use& use : result->uses()) {
      for (Op* made : at.made()) use.op->addAfter(made);
    }
  }
}

std::vector<Tensor*> expand(Replacement& at) {
  const std::shared_ptr<const ir::Graph> body = ir::addedOp(at.op().def())->body(at.op());
  std::unordered_map<const Tensor*, Tensor*> copies;
  for (size_t i = 0; i < body->inputs().size(); ++i) copies[body->inputs()[i]] = at.op().input(i);
  const auto copyOf = [&](const Tensor* t) -> Tensor* {
    if (t == nullptr) return nullptr;
    Tensor*& copy = copies[t];
    if (copy == nullptr) {
      POPXL_ASSERT(t->kind() == ir::TensorKind::kConstant, "{} of {}", t->id(), at.op().name());
      copy = at.graph().addConstant(at.op().output()->name() + "_" + t->name(), t->type(), t->data());
    }
    return copy;
  };
  for (const Op* op : body->ops()) {
    std::vector<Tensor*> operands;
    for (const Tensor* t : op->inputs()) operands.push_back(copyOf(t));
    const Op* copy = at.make(op->def().name, std::move(operands), op->attrs());
    for (size_t i = 0; i < op->outputs().size(); ++i) copies[op->output(i)] = copy->output(i);
  }
  std::vector<Tensor*> results;
  for (const Tensor* t : body->outputs()) {
    const bool own = isOwnMemory(t, body->outputs());
    results.push_back(own ? copyOf(t) : at.make("identity", {copyOf(t)})->output());
  }
  return results;
}

}  // namespace

bool expandCompositions(ir::Ir& ir) {
  return changeGraphs(ir, [&](ir::Graph& graph) {
    bool changed = false;
    while (true) {  // a composition may use others
      std::vector<Op*> ops = graph.ops();
      std::erase_if(ops, isElementary);
      if (ops.empty()) return changed;
      ops = analysis::topologicalOrder(graph);
      std::erase_if(ops, isElementary);
      const analysis::Written written(graph);
      changed = replaceOps(graph, ops, [&](Replacement& at) {
        std::vector<Tensor*> results = expand(at);
        keepOrder(at, written);
        return results;
      });
    }
  });
}

}  // namespace popxl::passes
