#include <algorithm>

#include "base/error.h"
#include "compile/lowering.h"
#include "kernels/copy.h"

namespace popxl::compile {
const Code& GraphLowering::codeOf(const ir::Graph& callee) const {
  return context_.codes[static_cast<size_t>(context_.codeOf.at(&callee))];
}

/// Where the callee finds one input: the operand's own memory where that is safe, else a copy. Operands that
/// the callee may change for the caller, but that had to be copied, are added to `copyBack`. `callWrites`:
/// the call changes some operand.
Ref GraphLowering::argument(const ir::Op& op, size_t operand, const Code& callee, size_t input,
                            bool callWrites, std::vector<CopyBack>& copyBack) {
  const ir::Tensor* t = op.input(operand);
  if (!context_.liveness.reads(op, operand)) return {};
  const bool written = callee.writesInput[input];
  if (!written && !callWrites) return asPassed(t);
  const Storage& storage = storages_.at(t);
  const bool dense = context_.channelsLast.matches(t, storage.layout);
  if (op.modifies(operand)) {
    const Ref where = asPassed(t);
    if (!dense) copyBack.push_back({operand, where});
    return where;
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
  if (!dense || (!changes && !written)) return asPassed(t);
  if (diesHere(storage.buffer) && storages_.buffers()[static_cast<size_t>(storage.buffer)].root == t &&
      sharing == 1) {
    return refOf(t);
  }
  const Ref copy = temporary(t->type().bytes());
  emitCopy(storage, copy, context_.channelsLast.layoutOf(t), &op);
  return copy;
}

/// Where the callee puts its outputs; nowhere for those that no call site reads.
void GraphLowering::addResultRefs(const ir::Op& op, const ir::Graph& callee, std::vector<Ref>& refs) {
  for (size_t i = 0; i < callee.outputs().size(); ++i) {
    refs.push_back(context_.liveness.returns(callee, i) ? refOf(op.output(i)) : Ref{});
  }
}

void GraphLowering::copyBackByRef(const ir::Op& op, const std::vector<CopyBack>& copyBack) {
  for (const auto& [operand, from] : copyBack) {
    const Storage& to = storages_.at(op.input(operand));
    auto kernel = kernels::makeCopy(context_.channelsLast.layoutOf(op.input(operand)), to.layout);
    emitKernel(std::move(kernel), {from, {to.buffer, to.byteOffset(), from.bytes}}, {&op});
  }
}

void GraphLowering::lowerCall(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  const ir::Graph& graph = *op.calledGraph();
  const Code& callee = codeOf(graph);
  std::vector<Ref> refs;
  refs.reserve(op.inputs().size() + op.outputs().size() + 2);
  std::vector<CopyBack> copyBack;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    refs.push_back(argument(op, i, callee, i, callWrites, copyBack));
  }
  addResultRefs(op, graph, refs);
  const size_t count = refs.size();
  refs.push_back(frameFor(context_.codeOf.at(&graph)));
  refs.push_back(temporary(static_cast<int64_t>(count * sizeof(std::byte*))));
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what = RunCall{context_.codeOf.at(&graph), std::vector<Address>(count), 0, 0};
  emit(std::move(instruction), std::move(refs));
  copyBackByRef(op, copyBack);
}

/// Where the first iteration of a repeat finds carried value i: the operand's own memory where nothing
/// changes it meanwhile, else a copy in `start`, the buffer of the two that iteration 0 does not write. An
/// operand that dies here gives its memory to that buffer.
Ref GraphLowering::carriedStart(const ir::Op& op, size_t i, const Code& body, Ref& start) {
  const ir::Tensor* t = op.input(i);
  const Storage& storage = storages_.at(t);
  const Buffer& buffer = storages_.buffers()[static_cast<size_t>(storage.buffer)];
  size_t sharing = 0;
  bool changes = op.modifies(i);
  for (size_t other = 0; other < op.inputs().size(); ++other) {
    const ir::Tensor* operand = op.input(other);
    if (operand == nullptr || !storages_.has(operand) || storages_.at(operand).buffer != storage.buffer)
      continue;
    ++sharing;
    changes = changes || op.modifies(other);
  }
  const bool dense = context_.channelsLast.matches(t, storage.layout);
  if (!changes && dense && sharing == 1 && buffer.root == t && diesHere(storage.buffer) &&
      takesOver(start, storage.buffer))
    return start;
  if (!changes && dense && !body.writesInput[i]) return refOf(t);
  if (start.buffer < 0) start = temporary(t->type().bytes());
  emitCopy(storage, start, context_.channelsLast.layoutOf(t), &op);
  return start;
}

/// Makes a local buffer of its own, or none yet, the memory of another one that nothing needs any more.
bool GraphLowering::takesOver(Ref& start, int32_t from) {
  const int64_t bytes = storages_.buffers()[static_cast<size_t>(from)].bytes;
  if (start.buffer < 0) {
    start = {from, 0, bytes};
  } else {
    const Buffer& own = storages_.buffers()[static_cast<size_t>(start.buffer)];
    if (own.kind != Buffer::Kind::kLocal || own.bytes != bytes || start.offset != 0 ||
        resolve(start.buffer) == resolve(from))
      return false;
    mergedInto_[static_cast<size_t>(start.buffer)] = from;
  }
  lastRead_[static_cast<size_t>(from)] = kForever;  // taken
  return true;
}

void GraphLowering::lowerRepeat(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  const ir::Graph& body = *op.calledGraph();
  const Code& code = codeOf(body);
  const int64_t count = op.attr<int64_t>("repeat_count");
  const size_t carried = body.outputs().size();
  std::vector<Ref> inputs(op.inputs().size()), finals, others, freshRefs;
  std::vector<RunRepeat::Fresh> fresh;
  std::vector<CopyBack> copyBack;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (i >= carried) {
      inputs[i] = argument(op, i, code, i, callWrites, copyBack);
      if (inputs[i].buffer >= 0 && !op.modifies(i) && code.writesInput[i]) {
        const int64_t bytes = op.input(i)->type().bytes();
        freshRefs.push_back(inputs[i]);
        inputs[i] = temporary(bytes);
        freshRefs.push_back(inputs[i]);
        fresh.push_back({{}, {}, bytes});
      }
      continue;
    }
    finals.push_back(refOf(op.output(i)));
    others.emplace_back();
    if (count == 0) {
      emitCopy(storages_.at(op.input(i)), finals.back(), context_.channelsLast.layoutOf(op.output(i)), &op);
      continue;
    }
    inputs[i] = carriedStart(op, i, code, count % 2 == 0 ? finals.back() : others.back());
    if (count > 1 && others.back().buffer < 0) others.back() = temporary(op.output(i)->type().bytes());
  }
  std::vector<Ref> refs = inputs;
  refs.insert(refs.end(), finals.begin(), finals.end());
  refs.insert(refs.end(), others.begin(), others.end());
  refs.insert(refs.end(), freshRefs.begin(), freshRefs.end());
  refs.push_back(frameFor(context_.codeOf.at(&body)));
  refs.push_back(temporary(static_cast<int64_t>((inputs.size() + carried) * sizeof(std::byte*))));
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what = RunRepeat{context_.codeOf.at(&body),
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
    if (op.modifies(i)) copyBack.push_back({i, finals[i]});
  }
  copyBackByRef(op, copyBack);
}

void GraphLowering::lowerConditional(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  RunConditional run;
  const Ref condition = contiguous(op.input(0));
  std::vector<Ref> refs = {condition};
  size_t operand = 1;
  std::vector<CopyBack> copyBack;
  // Only one of the branches runs: they share the larger one's frame.
  const std::vector<ir::Graph*> branches = op.calledGraphs();
  const auto larger = std::max_element(
      branches.begin(), branches.end(),
      [&](const ir::Graph* a, const ir::Graph* b) { return codeOf(*a).frameBytes < codeOf(*b).frameBytes; });
  const Ref frame = frameFor(context_.codeOf.at(*larger));
  for (const bool isThen : {true, false}) {
    const ir::Graph& branch = *branches[isThen ? 0 : 1];
    RunCall& call = isThen ? run.then : run.otherwise;
    call.code = context_.codeOf.at(&branch);
    const size_t first = refs.size();
    for (size_t i = 0; i < branch.inputs().size(); ++i, ++operand) {
      refs.push_back(argument(op, operand, codeOf(branch), i, callWrites, copyBack));
    }
    addResultRefs(op, branch, refs);
    call.arguments.resize(refs.size() - first);
    refs.push_back(frame);
    refs.push_back(temporary(static_cast<int64_t>(call.arguments.size() * sizeof(std::byte*))));
  }
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what = std::move(run);
  emit(std::move(instruction), std::move(refs));
  copyBackByRef(op, copyBack);
}

}  // namespace popxl::compile
