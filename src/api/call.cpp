#include "popxl/call.h"

#include <algorithm>

#include "api/make_op.h"
#include "base/error.h"
#include "ir/loop.h"
#include "ops/ops.h"
#include "popxl/ir.h"
#include "popxl/scope.h"

namespace popxl {
namespace {

using ir::indexIn;

std::vector<ir::Tensor*> operandsFor(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const InputMap& byTensor) {
  if (!graph) fail(ErrorKind::kValue, "an empty Graph can't be run: it was made by the default constructor");
  const auto& wanted = graph.get()->inputs();
  if (inputs.size() > wanted.size()) {
    fail(ErrorKind::kValue, "Too many inputs have been provided: graph `{}` has {}, {} are given",
         graph.name(), wanted.size(), inputs.size());
  }
  std::vector<ir::Tensor*> operands(wanted.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) operands[i] = inputs[i].get();
  for (const auto& [input, value] : byTensor) {
    const size_t i = indexIn(wanted, input.get());
    if (i == wanted.size()) {
      fail(ErrorKind::kValue, "tensor `{}` is not in the called graph `{}`'s inputs", input.id(),
           graph.name());
    }
    if (operands[i] != nullptr)
      fail(ErrorKind::kValue, "Graph input tensor is specified twice: `{}`", input.id());
    operands[i] = value.get();
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != nullptr) continue;
    fail(ErrorKind::kValue, "Not enough inputs have been provided: nothing is given for `{}` of graph `{}`",
         wanted[i]->name(), graph.name());
  }
  return operands;
}

}  // namespace

Graph CallSite::calledGraph() const { return {ir_, op_->calledGraphs().front()}; }
std::vector<Tensor> CallSite::inputs() const { return api::wrap(op_->inputs()); }
std::vector<Tensor> CallSite::outputs() const { return api::wrap(op_->outputs()); }

Tensor CallSite::graphToParent(const Tensor& graphTensor) const {
  const ir::Graph& called = *op_->calledGraphs().front();
  if (const size_t i = indexIn(called.inputs(), graphTensor.get()); i < called.inputs().size()) {
    return api::wrap(op_->input(ir::firstInput(*op_) + i));
  }
  if (const size_t i = indexIn(called.outputs(), graphTensor.get()); i < called.outputs().size()) {
    return api::wrap(op_->output(i));
  }
  fail(ErrorKind::kValue, "tensor `{}` is neither input nor output of the called graph `{}`",
       graphTensor.id(), called.id());
}

Tensor CallSite::parentToGraph(const Tensor& parentTensor) const {
  const ir::Graph& called = *op_->calledGraphs().front();
  const size_t first = ir::firstInput(*op_);
  for (size_t i = first; i < op_->inputs().size(); ++i) {
    if (op_->input(i) == parentTensor.get()) return api::wrap(called.inputs()[i - first]);
  }
  if (const size_t i = indexIn(op_->outputs(), parentTensor.get()); i < op_->outputs().size()) {
    return api::wrap(called.outputs()[i]);
  }
  fail(ErrorKind::kValue, "tensor `{}` is neither operand nor result of this call of `{}`", parentTensor.id(),
       called.id());
}

void CallSite::setParentInputModified(const Tensor& parentTensor) {
  bool found = false;
  for (size_t i = 0; i < op_->inputs().size(); ++i) {
    if (op_->input(i) != parentTensor.get()) continue;
    op_->declareModified(static_cast<int32_t>(i));
    found = true;
  }
  if (!found) fail(ErrorKind::kValue, "tensor `{}` is no operand of this call", parentTensor.id());
}

namespace ops {

CallSite callWithInfo(const Graph& graph, const std::vector<Tensor>& inputs, const InputMap& byTensor,
                      std::source_location where) {
  auto operands = api::at(where, [&] { return operandsFor(graph, inputs, byTensor); });
  return {graph.ir(), api::addOp(def("call"), std::move(operands), {graph.get()}, false, where)};
}

CallSite repeatWithInfo(const Graph& graph, int64_t count, const std::vector<Tensor>& inputs,
                        const InputMap& byTensor, std::source_location where) {
  auto operands = api::at(where, [&] { return operandsFor(graph, inputs, byTensor); });
  return {graph.ir(), api::addOp(def("repeat"), std::move(operands), {graph.get(), count}, false, where)};
}

CallSite repeatWithInfo(const Graph& graph, const Tensor& count, int64_t maxCount,
                        const std::vector<Tensor>& inputs, const InputMap& byTensor,
                        std::source_location where) {
  auto operands = api::at(where, [&] { return operandsFor(graph, inputs, byTensor); });
  operands.insert(operands.begin(), count.get());
  return {graph.ir(),
          api::addOp(def("repeat_up_to"), std::move(operands), {graph.get(), maxCount}, false, where)};
}

ScanResult scan(const Graph& graph, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
                const std::vector<Tensor>& inputs, bool reverse, std::source_location where) {
  std::vector<Tensor> all = init;
  all.insert(all.end(), xs.begin(), xs.end());
  all.insert(all.end(), inputs.begin(), inputs.end());
  auto operands = api::at(where, [&] { return operandsFor(graph, all, {}); });
  const auto length = [](const Tensor& x) { return x.shape().empty() ? -1 : x.shape().front(); };
  const bool even =
      !xs.empty() && length(xs.front()) >= 0 &&
      std::all_of(xs.begin(), xs.end(), [&](const Tensor& x) { return length(x) == length(xs.front()); });
  const size_t outputs = graph.get()->outputs().size();
  api::at(where, [&] {
    if (!even)
      fail(ErrorKind::kValue, "all tensors that a scan takes slices of need the same first dimension");
    if (outputs < init.size()) {
      fail(ErrorKind::kValue, "graph `{}` has {} outputs, but {} values are carried", graph.name(), outputs,
           init.size());
    }
  });
  std::vector<ir::Attr> attrs = {graph.get(), length(xs.front()), static_cast<int64_t>(outputs - init.size()),
                                 static_cast<int64_t>(xs.size()), reverse};
  const ir::Op* op = api::addOp(def("repeat"), std::move(operands), std::move(attrs), false, where);
  const std::vector<Tensor> results = api::wrap(op->outputs());
  const auto last = results.begin() + static_cast<std::ptrdiff_t>(init.size());
  return {{results.begin(), last}, {last, results.end()}};
}

std::vector<Tensor> whileLoop(const Graph& cond, const Graph& body, int64_t maxIterations,
                              const std::vector<Tensor>& inputs, std::source_location where) {
  auto operands = api::at(where, [&] { return operandsFor(body, inputs, {}); });
  const auto goesOn = [&](std::vector<Tensor> values) {
    values.resize(std::min(values.size(), cond.inputs().size()));
    const std::vector<Tensor> outputs = callWithInfo(cond, values, {}, where).outputs();
    api::at(where, [&] {
      if (outputs.size() != 1)
        fail(ErrorKind::kValue, "the condition `{}` of a loop gives one bool, not {} outputs", cond.name(),
             outputs.size());
    });
    return outputs.front();
  };
  operands.insert(operands.begin(), goesOn(inputs).get());
  const Graph loop = Ir(body.ir()).createEmptyGraph("while");
  {
    const GraphScope scope(loop);
    graphInput({{}, DType::kBool}, "go_on", false, where);
    std::vector<Tensor> own;
    // What the condition writes beyond its run has to last, too; a carried value is another each time.
    const auto& tested = cond.get()->inputs();
    const size_t carried = body.get()->outputs().size();
    for (size_t i = 0; i < body.get()->inputs().size(); ++i) {
      const ir::Tensor* t = body.get()->inputs()[i];
      const bool lasts = i >= carried && i < tested.size() && tested[i]->byRef();
      own.push_back(graphInput({t->shape(), t->dtype()}, t->name(), t->byRef() || lasts, where));
    }
    const std::vector<Tensor> outputs = callWithInfo(body, own, {}, where).outputs();
    std::vector<Tensor> next = outputs;
    for (size_t i = outputs.size(); i < own.size(); ++i) next.push_back(own[i]);
    graphOutput(goesOn(std::move(next)));
    for (const Tensor& t : outputs) graphOutput(t);
  }
  std::vector<ir::Attr> attrs = {loop.get(), maxIterations, int64_t{0}, int64_t{0}, false, true};
  const ir::Op* op = api::addOp(def("repeat"), std::move(operands), std::move(attrs), false, where);
  std::vector<Tensor> results = api::wrap(op->outputs());
  results.erase(results.begin());
  return results;
}

}  // namespace ops
}  // namespace popxl
