#include "popxl/call.h"

#include <algorithm>

#include "api/make_op.h"
#include "base/error.h"
#include "ir/loop.h"
#include "ops/ops.h"

namespace popxl {
namespace {

/// Place of `t` in a list; its size when it is not there.
size_t indexIn(const std::vector<ir::Tensor*>& list, const ir::Tensor* t) {
  return static_cast<size_t>(std::find(list.begin(), list.end(), t) - list.begin());
}

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

}  // namespace ops
}  // namespace popxl
