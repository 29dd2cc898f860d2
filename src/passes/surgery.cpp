#include "passes/surgery.h"

#include "analysis/dependences.h"
#include "analysis/written.h"
#include "base/error.h"
#include "passes/changes.h"
#include "passes/differentiator.h"

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
  if (&from.ir() != &to.ir()) {
    fail(ErrorKind::kValue, "ops of graph `{}` can't be copied to graph `{}`, which is of another Ir",
         from.displayName(), to.displayName());
  }
  std::unordered_map<const Op*, Op*> copies;
  Changes changes;  // none where an op can't be copied
  const std::vector<Op*> ops = analysis::topologicalOrder(from);
  for (const Op* op : ops) {
    Op* copy = &copyOp(*op, to, tensors);
    copies.emplace(op, copy);
    changes.add([&to, copy] { to.eraseOp(copy); });
  }
  for (const Op* op : ops) {
    for (const Op* before : op->after()) copies.at(op)->addAfter(copies.at(before));
  }
  changes.keep();
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

Outlined outlineMain(ir::Ir& ir, const std::string& name) {
  Graph& main = ir.mainGraph();
  const analysis::Written written(main);
  Outlined made{&ir.createGraph(name), {}};
  TensorMapping tensors;
  for (Tensor* t : main.tensors()) {
    if (t->kind() != ir::TensorKind::kVariable || t->uses().empty()) continue;
    Tensor* in = made.graph->addInput(t->name(), t->type(), written(t));
    in->setLoc(t->loc());
    tensors[t] = in;
    made.variables.push_back(t);
  }
  copyOps(main, *made.graph, tensors);
  main.eraseOps(main.ops());
  return made;
}

void removeOutput(Graph& graph, size_t index) {
  if (index >= graph.outputs().size()) {
    fail(ErrorKind::kIndex, "graph `{}` has no output {}; it has {}", graph.displayName(), index,
         graph.outputs().size());
  }
  if (const std::vector<Op*> sites = sitesOf(graph); !sites.empty()) {
    fail(ErrorKind::kGraph,
         "output {} of graph `{}` can't be removed: `{}` at {} runs the graph and has a result of it", index,
         graph.displayName(), sites.front()->name(), sites.front()->loc().str());
  }
  graph.removeOutput(index);
}

namespace {

void checkConnections(const GradInfo& info, bool inputs) {
  const std::vector<Connection>& connections = inputs ? info.inputs : info.outputs;
  const std::vector<Tensor*>& own = inputs ? info.graph->inputs() : info.graph->outputs();
  const std::string_view what = inputs ? "inputs" : "outputs";
  if (connections.size() != own.size()) {
    fail(ErrorKind::kValue, "gradient graph `{}` has {} {}; {} connections are given",
         info.graph->displayName(), own.size(), what, connections.size());
  }
  const auto in = [](const std::vector<Tensor*>& list, const Tensor* t) {
    return ir::indexIn(list, t) < list.size();
  };
  for (size_t i = 0; i < own.size(); ++i) {
    const auto& [isGrad, t] = connections[i];
    if (&t->graph() != info.forward) {
      fail(ErrorKind::kValue, "tensor `{}` is not of the forward graph `{}`", t->id(),
           info.forward->displayName());
    }
    const bool end = in(info.forward->inputs(), t), out = in(info.forward->outputs(), t);
    if (inputs ? (isGrad ? out : end || out) : isGrad && end) continue;
    fail(ErrorKind::kValue,
         "`{}`, one of the {} of gradient graph `{}`, can't stand for {}`{}`: its inputs are gradients of "
         "outputs of the forward graph or inputs and outputs of it, its outputs are gradients of inputs of "
         "the "
         "forward graph",
         own[i]->id(), what, info.graph->displayName(), isGrad ? "the gradient of " : "", t->id());
  }
}

}  // namespace

void checkGradInfo(const GradInfo& info) {
  checkConnections(info, true);
  checkConnections(info, false);
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
  for (const Op* op : analysis::mustRunBefore({by->producer()})) {
    if (ir::indexIn(op->inputs(), old) == op->inputs().size()) continue;
    fail(ErrorKind::kValue,
         "tensor `{}` can't be replaced by `{}`: `{}` at {} reads it and must run before `{}`", old->id(),
         by->id(), op->name(), op->loc().str(), by->id());
  }
  graph.replaceAllUses(old, by);
}

}  // namespace popxl::passes
