#include <algorithm>

#include "base/error.h"
#include "compile/lowering.h"
#include "kernels/copy.h"

namespace popxl::compile {
bool GraphLowering::writesInput(const ir::Graph& callee, size_t input) const {
  return context_.codes[static_cast<size_t>(context_.codeOf.at(&callee))].writesInput[input];
}

/// Where the callee finds one input: the operand's own memory where that is safe, else a copy. Operands that
/// the callee may change for the caller, but that had to be copied, are added to `copyBack`. `callWrites`:
/// the call changes some operand.
Ref GraphLowering::argument(const ir::Op& op, size_t operand, const ir::Graph& callee, size_t input,
                            bool callWrites, std::vector<size_t>& copyBack) {
  const ir::Tensor* t = op.input(operand);
  if (!context_.liveness.reads(op, operand)) return {};
  const bool written = writesInput(callee, input);
  if (!written && !callWrites) return contiguous(t);
  const Storage storage = storages_.at(t);
  const bool dense = storage.layout.isContiguous();
  if (op.modifies(operand)) {
    if (!dense) copyBack.push_back(operand);
    return contiguous(t);
  }
  // A value passed on must not change while the callee runs, through the callee's other operands either.
  size_t sharing = 0;
  bool changes = false;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    const ir::Tensor* other = op.input(i);
    if (other == nullptr || !storages_.has(other) || storages_.at(other).buffer != storage.buffer) continue;
    ++sharing;
    changes = changes || op.modifies(i);
  }
  if (!dense || (!changes && !written)) return contiguous(t);
  if (diesHere(storage.buffer) && storages_.buffers()[static_cast<size_t>(storage.buffer)].root == t &&
      sharing == 1) {
    return refOf(t);
  }
  const Ref copy = temporary(t->type().bytes());
  emitCopy(storage, copy, &op);
  return copy;
}

/// Where the callee puts its outputs; nowhere for those that no call site reads.
std::vector<Ref> GraphLowering::resultRefs(const ir::Op& op, const ir::Graph& callee) {
  std::vector<Ref> refs;
  for (size_t i = 0; i < callee.outputs().size(); ++i) {
    refs.push_back(context_.liveness.live(*callee.outputs()[i]) ? refOf(op.output(i)) : Ref{});
  }
  return refs;
}

void GraphLowering::copyBackByRef(const ir::Op& op, const std::vector<Ref>& arguments,
                                  const std::vector<size_t>& operands, const std::vector<size_t>& copyBack) {
  for (const size_t operand : copyBack) {
    const auto at = std::find(operands.begin(), operands.end(), operand);
    const Ref from = arguments[static_cast<size_t>(at - operands.begin())];
    const Storage& to = storages_.at(op.input(operand));
    auto kernel = kernels::makeCopy(Layout(to.layout.dtype, to.layout.shape), to.layout);
    emitKernel(std::move(kernel), {from, {to.buffer, to.byteOffset()}}, {&op});
  }
}

void GraphLowering::lowerCall(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  const ir::Graph& callee = *op.calledGraphs().front();
  const int32_t code = context_.codeOf.at(&callee);
  std::vector<Ref> refs;
  std::vector<size_t> operands, copyBack;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    refs.push_back(argument(op, i, callee, i, callWrites, copyBack));
    operands.push_back(i);
  }
  const std::vector<Ref> arguments = refs;
  for (const Ref& r : resultRefs(op, callee)) refs.push_back(r);
  const size_t count = refs.size();
  refs.push_back(temporary(context_.codes[static_cast<size_t>(code)].frameBytes));
  refs.push_back(temporary(static_cast<int64_t>(count * sizeof(std::byte*))));
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what = RunCall{code, std::vector<Address>(count), 0, 0};
  emit(std::move(instruction), std::move(refs));
  copyBackByRef(op, arguments, operands, copyBack);
}

void GraphLowering::lowerRepeat(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  const ir::Graph& body = *op.calledGraphs().front();
  const int32_t code = context_.codeOf.at(&body);
  const int64_t count = op.attr<int64_t>("repeat_count");
  const size_t carried = body.outputs().size();
  std::vector<Ref> inputs(op.inputs().size()), finals, others, freshRefs;
  std::vector<RunRepeat::Fresh> fresh;
  std::vector<size_t> operands, copyBack;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    operands.push_back(i);
    if (i >= carried) {
      inputs[i] = argument(op, i, body, i, callWrites, copyBack);
      if (inputs[i].buffer >= 0 && !op.modifies(i) && writesInput(body, i)) {
        const int64_t bytes = op.input(i)->type().bytes();
        freshRefs.push_back(inputs[i]);
        inputs[i] = temporary(bytes);
        freshRefs.push_back(inputs[i]);
        fresh.push_back({{}, {}, bytes});
      }
      continue;
    }
    finals.push_back(refOf(op.output(i)));
    others.push_back(temporary(op.output(i)->type().bytes()));
    emitCopy(storages_.at(op.input(i)), count % 2 == 0 ? finals.back() : others.back(), &op);
  }
  std::vector<Ref> refs = inputs;
  refs.insert(refs.end(), finals.begin(), finals.end());
  refs.insert(refs.end(), others.begin(), others.end());
  refs.insert(refs.end(), freshRefs.begin(), freshRefs.end());
  refs.push_back(temporary(context_.codes[static_cast<size_t>(code)].frameBytes));
  refs.push_back(temporary(static_cast<int64_t>((inputs.size() + carried) * sizeof(std::byte*))));
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what = RunRepeat{code,
                               count,
                               std::vector<Address>(inputs.size()),
                               std::vector<Address>(carried),
                               std::vector<Address>(carried),
                               std::move(fresh),
                               0,
                               0};
  emit(std::move(instruction), std::move(refs));
  // A carried operand passed by reference holds the last value afterwards.
  for (size_t i = 0; i < carried; ++i) {
    if (!op.modifies(i)) continue;
    inputs[i] = finals[i];
    copyBack.push_back(i);
  }
  copyBackByRef(op, inputs, operands, copyBack);
}

void GraphLowering::lowerConditional(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  RunConditional run;
  const Ref condition = contiguous(op.input(0));
  std::vector<Ref> refs = {condition};
  size_t operand = 1;
  std::vector<size_t> operands, copyBack;
  std::vector<Ref> arguments;
  for (const bool isThen : {true, false}) {
    const ir::Graph& branch = *op.calledGraphs()[isThen ? 0 : 1];
    RunCall& call = isThen ? run.then : run.otherwise;
    call.code = context_.codeOf.at(&branch);
    const size_t first = refs.size();
    for (size_t i = 0; i < branch.inputs().size(); ++i, ++operand) {
      refs.push_back(argument(op, operand, branch, i, callWrites, copyBack));
      operands.push_back(operand);
      arguments.push_back(refs.back());
    }
    for (const Ref& r : resultRefs(op, branch)) refs.push_back(r);
    call.arguments.resize(refs.size() - first);
    refs.push_back(temporary(context_.codes[static_cast<size_t>(call.code)].frameBytes));
    refs.push_back(temporary(static_cast<int64_t>(call.arguments.size() * sizeof(std::byte*))));
  }
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what = std::move(run);
  emit(std::move(instruction), std::move(refs));
  copyBackByRef(op, arguments, operands, copyBack);
}

}  // namespace popxl::compile
