#include "passes/pre_alias.h"

#include <algorithm>

#include "analysis/operand_uses.h"
#include "analysis/written.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Graph;
using ir::Op;
using ir::Tensor;

bool sameType(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && a.shape() == b.shape(); }

/// Whether a view of dense memory is that memory as it lies.
bool viewsAll(const Op& op) {
  const Layout dense(op.input(0)->dtype(), op.input(0)->shape());
  ir::View view;
  return op.def().view(op, dense, view) && view.elementOffset == 0 && view.layout == dense;
}

/// The operand that an elementwise op gives as it is; null where it computes something.
Tensor* passedOn(const Op& op) {
  const auto isComplexTensor = [](const Tensor* t) { return t != nullptr && isComplex(t->dtype()); };
  const bool complex = std::any_of(op.inputs().begin(), op.inputs().end(), isComplexTensor) ||
                       std::any_of(op.outputs().begin(), op.outputs().end(), isComplexTensor);
  if (complex || op.def().reducesAxes || op.def().reducesToOutput || op.outputs().size() != 1) return nullptr;
  const kernels::Expr expr = analysis::operandExpr(op);
  const kernels::Node& node = expr.nodes()[static_cast<size_t>(expr.outputs().front())];
  const bool passes = node.prim == kernels::Prim::kInput && node.element < 0;
  return passes ? op.input(static_cast<size_t>(node.index)) : nullptr;
}

/// The operand that an op's only result equals whatever its value is; null where there is none.
Tensor* sameAsOperand(const Op& op) {
  const ir::OpDef& def = op.def();
  if (op.inplace() || def.stopsGradient || def.sideEffect || op.outputs().size() != 1) return nullptr;
  Tensor* t = nullptr;
  if (def.view != nullptr) {
    t = viewsAll(op) ? op.input(0) : nullptr;
  } else if (def.joins) {
    t = op.inputs().size() == 1 ? op.input(0) : nullptr;
  } else if (def.expr != nullptr) {
    t = passedOn(op);
  }
  return t != nullptr && sameType(*t, *op.output()) ? t : nullptr;
}

/// Whether the op was made for another place than its operand, or only to be there.
bool moves(const Op& op, const Tensor& operand) {
  if (operand.producer() == nullptr) return false;
  const ir::Settings &own = op.settings(), &source = operand.producer()->settings();
  return own.ipu != source.ipu || own.tileSet != source.tileSet || own.context != source.context;
}

}  // namespace

bool preAlias(Graph& graph) {
  const analysis::Written written(graph);
  std::vector<Op*> needless;
  for (Op* op : graph.ops()) {
    Tensor* t = sameAsOperand(*op);
    if (t == nullptr || moves(*op, *t) || written(t) || written(op->output())) continue;
    for (const ir::Use& use : op->output()->uses()) {
      for (Op* before : op->after()) use.op->addAfter(before);
    }
    graph.replaceAllUses(op->output(), t);
    needless.push_back(op);
  }
  if (!needless.empty()) graph.eraseOps(needless);
  return !needless.empty();
}

bool preAlias(ir::Ir& ir) {
  return changeGraphs(ir, [](Graph& graph) { return preAlias(graph); });
}

}  // namespace popxl::passes
