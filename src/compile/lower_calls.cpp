#include <algorithm>

#include "base/error.h"
#include "compile/lowering.h"
#include "kernels/copy.h"

namespace popxl::compile {
const Code& GraphLowering::codeOf(const ir::Graph& callee) const {
  return context_.program.codes[static_cast<size_t>(context_.codeOf.at(&callee))];
}

/// Where the callee finds one input: the operand's own memory where that is safe, else a copy. Operands that
/// the callee may change for the caller, but that had to be copied, are added to `copyBack`. `written`: the
/// callee writes the input. `callWrites`: the call changes some operand.
Ref GraphLowering::argument(const ir::Op& op, size_t operand, bool written, bool callWrites,
                            std::vector<CopyBack>& copyBack) {
  const ir::Tensor* t = op.input(operand);
  if (!context_.liveness.reads(op, operand)) return {};
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
    refs.push_back(argument(op, i, callee.writesInput[i], callWrites, copyBack));
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

/// Where the first iteration of a repeat finds a carried value: the operand's own memory where nothing
/// changes it meanwhile, else a copy in `start`, the buffer of the two that iteration 0 does not write. An
/// operand that dies here gives its memory to that buffer. `written`: the body writes the input.
Ref GraphLowering::carriedStart(const ir::Op& op, size_t operand, bool written, Ref& start) {
  const ir::Tensor* t = op.input(operand);
  const Storage& storage = storages_.at(t);
  const Buffer& buffer = storages_.buffers()[static_cast<size_t>(storage.buffer)];
  size_t sharing = 0;
  bool changes = op.modifies(operand);
  for (size_t other = 0; other < op.inputs().size(); ++other) {
    const ir::Tensor* also = op.input(other);
    if (also == nullptr || !storages_.has(also) || storages_.at(also).buffer != storage.buffer) continue;
    ++sharing;
    changes = changes || op.modifies(other);
  }
  const bool dense = context_.channelsLast.matches(t, storage.layout);
  if (!changes && dense && sharing == 1 && buffer.root == t && diesHere(storage.buffer) &&
      takesOver(start, storage.buffer))
    return start;
  if (!changes && dense && !written) return refOf(t);
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

/// The two buffers of each carried value, and where iteration 0 finds it.
void GraphLowering::lowerCarried(const ir::Op& op, const ir::Loop& loop, RunRepeat& run,
                                 std::vector<Ref>& inputs, std::vector<Ref>& refs) {
  const Code& code = codeOf(*loop.body);
  for (size_t i = 0; i < loop.carried; ++i) {
    const ir::Tensor* operand = op.input(loop.first + i);
    Ref final = refOf(op.output(i)), other;
    run.carried.push_back({{}, {}, op.output(i)->type().bytes()});
    if (loop.hasFixedCount() && loop.count == 0) {
      emitCopy(storages_.at(operand), final, context_.channelsLast.layoutOf(op.output(i)), &op);
    } else {
      Ref& start = loop.hasFixedCount() && loop.count % 2 == 0 ? final : other;
      inputs[i] = carriedStart(op, loop.first + i, code.writesInput[i], start);
      if (loop.count > 1 && other.buffer < 0) other = temporary(run.carried.back().bytes);
    }
    refs.push_back(final);
    refs.push_back(other);
  }
}

/// Memory for all iterations' values of each stacked output; for one where nothing reads them.
void GraphLowering::lowerStacks(const ir::Op& op, const ir::Loop& loop, RunRepeat& run,
                                std::vector<Ref>& refs) {
  for (size_t i = loop.carried; i < loop.body->outputs().size(); ++i) {
    const int64_t bytes = loop.body->outputs()[i]->type().bytes();
    const bool needed = context_.liveness.live(*op.output(i));
    run.stacks.push_back({{}, bytes, needed});
    if (!context_.liveness.returns(*loop.body, i)) {
      refs.emplace_back();
    } else {
      refs.push_back(needed ? refOf(op.output(i)) : temporary(bytes));
    }
  }
}

void GraphLowering::lowerRepeat(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  const ir::Loop loop(op);
  const Code& code = codeOf(*loop.body);
  RunRepeat run;
  run.code = context_.codeOf.at(loop.body);
  run.count = loop.count;
  run.whileTrue = loop.whileTrue;
  run.reverse = loop.reverse;
  std::vector<Ref> refs = {{}}, inputs(loop.body->inputs().size()), others;
  if (loop.trips != nullptr) {
    run.tripsType = loop.trips->dtype();
    refs.front() = contiguous(loop.trips);
  }
  run.inputs.resize(inputs.size());
  run.slices.assign(inputs.size(), 0);
  lowerCarried(op, loop, run, inputs, others);
  lowerStacks(op, loop, run, others);
  std::vector<CopyBack> copyBack;
  for (size_t i = loop.carried; i < inputs.size(); ++i) {
    const size_t operand = loop.first + i;
    const int64_t bytes = loop.body->inputs()[i]->type().bytes();
    const bool fresh = code.writesInput[i] && !op.modifies(operand);
    inputs[i] = argument(op, operand, code.writesInput[i] && !fresh, callWrites, copyBack);
    if (loop.isScanned(i)) run.slices[i] = bytes;
    if (!fresh || inputs[i].buffer < 0) continue;
    others.push_back(temporary(bytes));
    run.fresh.push_back({i, {}, bytes});
  }
  refs.insert(refs.end(), inputs.begin(), inputs.end());
  refs.insert(refs.end(), others.begin(), others.end());
  refs.push_back(frameFor(run.code));
  const size_t pointers = inputs.size() + loop.body->outputs().size();
  refs.push_back(temporary(static_cast<int64_t>(pointers * sizeof(std::byte*))));
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what = std::move(run);
  emit(std::move(instruction), std::move(refs));
  // A carried operand passed by reference holds the last value afterwards.
  for (size_t i = 0; i < loop.carried; ++i) {
    if (op.modifies(loop.first + i)) copyBack.push_back({loop.first + i, refOf(op.output(i))});
  }
  copyBackByRef(op, copyBack);
}

/// Works on dense memory; a result that may take over its operand's memory does where that dies.
void GraphLowering::lowerCollective(const ir::Op& op) {
  const ir::Tensor* result = op.output();
  const Storage& to = storages_.at(result);
  Instruction instruction;
  instruction.ops = {&op};
  auto collective = ir::withPlace(op, [&] { return op.def().collective(op); });
  if (collective->worksInPlace()) reuseDyingOperand(result, {op.input(0)});
  const bool scatters = !to.layout.isContiguous();
  const Ref from = contiguous(op.input(0));
  const Ref where = scatters ? temporary(result->type().bytes()) : refOf(result);
  instruction.cost.bytes = static_cast<double>(op.input(0)->type().bytes() + result->type().bytes());
  instruction.what = RunCollective{std::move(collective), {}, {}};
  emit(std::move(instruction), {from, where});
  if (!scatters) return;
  const Layout dense(result->dtype(), result->shape());
  emitKernel(kernels::makeCopy(dense, to.layout), {where, refOf(result)}, {&op});
}

void GraphLowering::lowerConditional(const ir::Op& op) {
  const bool callWrites = op.modifiesAny();
  RunConditional run;
  const Ref condition = contiguous(op.input(0));
  std::vector<Ref> refs = {condition};
  size_t operand = 1;
  std::vector<CopyBack> copyBack;
  // Only one of the branches runs: they share the larger one's frame. With a collective in one of them the
  // replicas run either in lock step.
  const std::vector<ir::Graph*> branches = op.calledGraphs();
  const bool inStep = std::any_of(branches.begin(), branches.end(),
                                  [&](const ir::Graph* b) { return !codeOf(*b).cuts.empty(); });
  const auto size = [&](const ir::Graph* b) { return inStep ? codeOf(*b).laneBytes : codeOf(*b).frameBytes; };
  const auto larger =
      std::max_element(branches.begin(), branches.end(),
                       [&](const ir::Graph* a, const ir::Graph* b) { return size(a) < size(b); });
  const Ref frame = temporary(size(*larger));
  storages_.buffers()[static_cast<size_t>(frame.buffer)].frameOf = context_.codeOf.at(*larger);
  for (const bool isThen : {true, false}) {
    const ir::Graph& branch = *branches[isThen ? 0 : 1];
    RunCall& call = isThen ? run.then : run.otherwise;
    call.code = context_.codeOf.at(&branch);
    const size_t first = refs.size();
    for (size_t i = 0; i < branch.inputs().size(); ++i, ++operand) {
      refs.push_back(argument(op, operand, codeOf(branch).writesInput[i], callWrites, copyBack));
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
