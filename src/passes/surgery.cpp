#include "passes/surgery.h"

#include "analysis/dependences.h"
#include "base/error.h"

namespace popxl::passes {

using ir::Graph;
using ir::Op;
using ir::Tensor;

Tensor* mapped(Tensor* t, Graph& to, TensorMapping& tensors) {
  if (const auto known = tensors.find(t); known != tensors.end()) return known->second;
  if (t->kind() != ir::TensorKind::kConstant) {
    fail(ErrorKind::kValue,
         "tensor `{}` can't be copied from graph `{}` to graph `{}`: say which tensor stands for it there",
         t->id(), t->graph().displayName(), to.displayName());
  }
  Tensor* copy = to.addConstant(t->name(), t->type(), t->data());
  copy->setLoc(t->loc());
  tensors.emplace(t, copy);
  return copy;
}

Op& copyOp(const Op& op, Graph& to, TensorMapping& tensors) {
  ir::OpRequest request{{}, op.attrs(), op.inplace(), {}, op.settings(), op.loc()};
  for (Tensor* t : op.inputs()) request.inputs.push_back(t == nullptr ? nullptr : mapped(t, to, tensors));
  for (const Tensor* t : op.outputs()) request.outputNames.push_back(t->name());
  Op& copy = *to.addOp(op.def(), std::move(request));
  for (const int32_t operand : op.declaredModified()) copy.declareModified(operand);
  for (size_t i = 0; i < op.outputs().size(); ++i) tensors[op.output(i)] = copy.output(i);
  return copy;
}

void copyOps(const Graph& from, Graph& to, TensorMapping& tensors) {
  std::unordered_map<const Op*, Op*> copies;
  const std::vector<Op*> ops = analysis::topologicalOrder(from);
  for (const Op* op : ops) copies.emplace(op, &copyOp(*op, to, tensors));
  for (const Op* op : ops) {
    for (const Op* before : op->after()) copies.at(op)->addAfter(copies.at(before));
  }
}

std::vector<Op*> computing(const Tensor& t, const std::function<bool(const Op&)>& stops) {
  std::vector<Op*> order;
  std::unordered_map<const Op*, size_t> next;  // the operand of each op to look at next
  std::vector<Op*> path;
  const auto enter = [&](const Tensor* operand) {
    Op* op = operand == nullptr ? nullptr : operand->producer();
    if (op != nullptr && !stops(*op) && next.emplace(op, 0).second) path.push_back(op);
  };
  enter(&t);
  while (!path.empty()) {
    Op* op = path.back();
    if (size_t& operand = next[op]; operand < op->inputs().size()) {
      enter(op->input(operand++));
    } else {
      order.push_back(op);
      path.pop_back();
    }
  }
  return order;
}

Graph& cloneGraph(const Graph& graph) {
  if (&graph == &graph.ir().mainGraph())
    fail(ErrorKind::kValue, "the main graph can't be cloned; outline it first, then clone the graph you get");
  Graph& copy = graph.ir().createGraph(graph.baseName());
  copy.setCanBeDifferentiated(graph.canBeDifferentiated());
  TensorMapping tensors;
  for (const Tensor* t : graph.inputs()) {
    Tensor* in = copy.addInput(t->name(), t->type(), t->byRef());
    in->setLoc(t->loc());
    tensors[t] = in;
  }
  copyOps(graph, copy, tensors);
  for (Tensor* t : graph.outputs()) copy.addOutput(mapped(t, copy, tensors));
  return copy;
}

void replaceUses(Graph& graph, Tensor* old, Tensor* by) {
  for (const Tensor* t : {old, by}) {
    if (&t->graph() == &graph) continue;
    fail(ErrorKind::kValue, "tensor `{}` can't be replaced by `{}` in graph `{}`: `{}` is of graph `{}`",
         old->id(), by->id(), graph.displayName(), t->id(), t->graph().displayName());
  }
  if (old->dtype() != by->dtype() || old->shape() != by->shape()) {
    fail(ErrorKind::kValue, "tensor `{}`, {}, can't be replaced by `{}`, {}: they must have one type",
         old->id(), old->type().str(), by->id(), by->type().str());
  }
  for (const Op* op : computing(*by, [](const Op&) { return false; })) {
    if (ir::indexIn(op->inputs(), old) == op->inputs().size()) continue;
    fail(ErrorKind::kValue, "tensor `{}` can't be replaced by `{}`, which `{}` computes from it", old->id(),
         by->id(), op->name());
  }
  graph.replaceAllUses(old, by);
}

}  // namespace popxl::passes
