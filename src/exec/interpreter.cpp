#include "exec/interpreter.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "compile/lower.h"
#include "exec/print_tensor.h"
#include "ir/reference.h"

namespace popxl::exec {

using ir::Structure;

namespace {

std::vector<int64_t> inOrder(int64_t elements) {
  std::vector<int64_t> at(static_cast<size_t>(elements));
  std::iota(at.begin(), at.end(), int64_t{0});
  return at;
}

std::shared_ptr<std::byte[]> copyOf(const Bytes& values) {
  std::shared_ptr<std::byte[]> memory(new std::byte[std::max<size_t>(values.size(), 1)]);
  std::copy(values.begin(), values.end(), memory.get());
  return memory;
}

/// Memory that belongs to someone else.
std::shared_ptr<std::byte[]> borrowed(std::byte* memory) {
  return {memory, [](std::byte*) {}};
}

}  // namespace

void Interpreter::run(std::byte*, std::byte* variables, const RemoteMemory& remote,
                      std::span<StreamCursor> streams, int64_t replica, int64_t replicas) {
  variables_ = variables;
  remote_ = &remote;
  streams_ = streams;
  replica_ = replica;
  replicas_ = replicas;
  Frame frame;
  runGraph(program_.ir->mainGraph(), frame);
}

// --- memory

Interpreter::Cells& Interpreter::cellsOf(const ir::Tensor* t, Frame& frame) const {
  if (const auto known = frame.find(t); known != frame.end()) return known->second;
  POPXL_ASSERT(t->isPersistent(), "tensor {} is used before it is made", t->id());
  std::byte* memory =
      t->kind() == ir::TensorKind::kVariable ? variables_ + program_.variableOffsets.at(t) : t->data()->bytes;
  return frame[t] = {borrowed(memory), inOrder(t->type().numElements())};
}

Bytes Interpreter::read(const ir::Tensor* t, Frame& frame) const {
  if (t == nullptr) return {};
  const Cells& cells = cellsOf(t, frame);
  const int64_t size = sizeOf(t->dtype());
  Bytes values(cells.at.size() * static_cast<size_t>(size));
  std::byte* to = values.data();
  for (const int64_t at : cells.at) to = std::copy_n(cells.memory.get() + at * size, size, to);
  return values;
}

void Interpreter::write(const ir::Tensor* t, Frame& frame, const Bytes& values) const {
  const Cells& cells = cellsOf(t, frame);
  const int64_t size = sizeOf(t->dtype());
  const std::byte* from = values.data();
  for (const int64_t at : cells.at) {
    std::copy_n(from, size, cells.memory.get() + at * size);
    from += size;
  }
}

Interpreter::Cells Interpreter::fresh(const ir::Tensor* t, const Bytes& values) {
  return {copyOf(values), inOrder(t->type().numElements())};
}

/// What a called graph gets for an operand: its memory where it may change it, else a copy.
Interpreter::Cells Interpreter::passed(const ir::Op& op, size_t operand, Frame& frame) const {
  const ir::Tensor* t = op.input(operand);
  if (op.modifies(operand)) return cellsOf(t, frame);
  return fresh(t, read(t, frame));
}

// --- ops

void Interpreter::runGraph(const ir::Graph& graph, Frame& frame) {
  const auto [schedule, isNew] = schedules_.try_emplace(&graph);
  if (isNew) schedule->second = graph.schedule();
  const std::vector<ir::Op*>& order = schedule->second;  // stays where it is while callees add theirs
  for (const ir::Op* op : order) runOp(*op, frame);
}

void Interpreter::runOp(const ir::Op& op, Frame& frame) {
  switch (op.def().structure) {
    case Structure::kNone:
      return op.def().view != nullptr ? runView(op, frame) : runCompute(op, frame);
    case Structure::kCall:
      return runCall(op, frame);
    case Structure::kRepeat:
      return runRepeat(op, frame);
    case Structure::kConditional:
      return runConditional(op, frame);
    case Structure::kInit:
      return give(op, 0, Bytes(static_cast<size_t>(op.output()->type().bytes())), frame);
    case Structure::kHostLoad: {
      const std::byte* from = nextEntry(op);
      return give(op, 0, Bytes(from, from + op.output()->type().bytes()), frame);
    }
    case Structure::kHostStore: {
      const Bytes values = read(op.input(0), frame);
      std::copy(values.begin(), values.end(), nextEntry(op));
      return;
    }
    case Structure::kPrint: {
      const Bytes values = read(op.input(0), frame);
      printTensor(op, values.data());
      return give(op, 0, values, frame);
    }
    case Structure::kRemoteLoad: {
      const std::byte* from = remoteEntry(op, frame);
      return give(op, 0, Bytes(from, from + op.output()->type().bytes()), frame);
    }
    case Structure::kRemoteStore: {
      const Bytes values = read(op.input(0), frame);
      std::copy(values.begin(), values.end(), remoteEntry(op, frame));
      return;
    }
    case Structure::kNothing:
      return;
    case Structure::kCollective:
      break;
  }
  fail(ErrorKind::kGraph, "`{}` at {} is not available on this device", op.name(), op.loc().str());
}

std::byte* Interpreter::nextEntry(const ir::Op& op) {
  const auto& id = op.attr<std::string>("stream");
  const auto stream = std::find_if(program_.streams.begin(), program_.streams.end(),
                                   [&](const ir::Stream& s) { return s.id() == id; });
  POPXL_ASSERT(stream != program_.streams.end(), "no stream {}", id);
  const auto i = static_cast<size_t>(stream - program_.streams.begin());
  return streams_[i].take(*stream, op, replica_, replicas_);
}

std::byte* Interpreter::remoteEntry(const ir::Op& op, Frame& frame) const {
  const ir::Tensor* offset = op.input(1);
  const ir::Number entry(offset->dtype(), loadElement(offset->dtype(), read(offset, frame).data()));
  return remote_->entry(op.attr<int64_t>("remote_buffer"), entry.integer(), op);
}

void Interpreter::give(const ir::Op& op, size_t i, const Bytes& values, Frame& frame) const {
  const ir::Tensor* out = op.output(i);
  for (const ir::Alias& alias : op.aliases()) {
    const auto operand = static_cast<size_t>(alias.input);
    if (alias.output != static_cast<int32_t>(i) || !op.modifies(operand)) continue;
    const Cells same = cellsOf(op.input(operand), frame);
    frame[out] = same;
    return write(out, frame, values);
  }
  frame[out] = fresh(out, values);
}

void Interpreter::runView(const ir::Op& op, Frame& frame) {
  const ir::Tensor* source = op.input(0);
  ir::View view;
  const bool found = op.def().view(op, Layout(source->dtype(), source->shape()), view);
  POPXL_ASSERT(found, "view {} of dense memory", op.name());
  const Cells& from = cellsOf(source, frame);
  Cells to{from.memory, {}};
  ir::forEachIndex(op.output()->shape(), [&](const Shape& index) {
    const int64_t position =
        std::inner_product(index.begin(), index.end(), view.layout.strides.begin(), view.elementOffset);
    to.at.push_back(from.at[static_cast<size_t>(position)]);
  });
  frame[op.output()] = to;
  if (op.inplace()) return;
  frame[op.output()] = fresh(op.output(), read(op.output(), frame));
}

void Interpreter::runCompute(const ir::Op& op, Frame& frame) {
  if (op.def().update != nullptr) {
    for (const int32_t operand : op.def().alsoModifies) {
      const auto i = static_cast<size_t>(operand);
      if (op.input(i) != nullptr) write(op.input(i), frame, evaluateUpdate(op, i, read(op.input(i), frame)));
    }
  }
  std::vector<Bytes> operands;
  for (const ir::Tensor* t : op.inputs()) operands.push_back(read(t, frame));
  if (const kernels::KernelPtr check = compile::makeScaleCheck(op); check != nullptr) {
    std::byte* const power = operands[static_cast<size_t>(op.def().log2ScaleOperand)].data();
    check->run({&power, 1});
  }
  const std::vector<Bytes> results = evaluate(op, operands);
  for (size_t i = 0; i < results.size(); ++i) give(op, i, results[i], frame);
}

// --- graphs

std::vector<Bytes> Interpreter::runCallee(const ir::Graph& graph, const std::vector<Cells>& inputs) {
  Frame frame;
  for (size_t i = 0; i < inputs.size(); ++i) frame[graph.inputs()[i]] = inputs[i];
  runGraph(graph, frame);
  std::vector<Bytes> results;
  for (const ir::Tensor* t : graph.outputs()) results.push_back(read(t, frame));
  return results;
}

void Interpreter::runCall(const ir::Op& op, Frame& frame) {
  std::vector<Cells> inputs;
  for (size_t i = 0; i < op.inputs().size(); ++i) inputs.push_back(passed(op, i, frame));
  const std::vector<Bytes> results = runCallee(*op.calledGraph(), inputs);
  for (size_t i = 0; i < op.outputs().size(); ++i) give(op, i, results[i], frame);
}

/// What one iteration gets: `values` of the carried ones, a slice of scanned ones, the others as they are.
std::vector<Interpreter::Cells> Interpreter::iterationInputs(const ir::Op& op, const ir::Loop& loop,
                                                             const std::vector<Bytes>& values, int64_t slice,
                                                             Frame& frame) const {
  std::vector<Cells> inputs;
  for (size_t i = 0; i < loop.body->inputs().size(); ++i) {
    const ir::TensorType& type = loop.body->inputs()[i]->type();
    const int64_t elements = type.numElements(), first = loop.isScanned(i) ? slice * elements : 0;
    if (i >= loop.carried && op.modifies(loop.first + i)) {
      const Cells& whole = cellsOf(op.input(loop.first + i), frame);
      inputs.push_back({whole.memory, {whole.at.begin() + first, whole.at.begin() + first + elements}});
    } else {
      const auto from = values[i].begin() + first * sizeOf(type.dtype);
      inputs.push_back({copyOf({from, from + type.bytes()}), inOrder(elements)});
    }
  }
  return inputs;
}

void Interpreter::runRepeat(const ir::Op& op, Frame& frame) {
  const ir::Loop loop(op);
  int64_t count = loop.count;
  if (loop.trips != nullptr) {
    const DType type = loop.trips->dtype();
    count = tripCount(op, ir::Number(type, loadElement(type, read(loop.trips, frame).data())).integer());
  }
  std::vector<Bytes> values;  // carried ones change; the others are the same in every iteration
  for (size_t i = loop.first; i < op.inputs().size(); ++i) values.push_back(read(op.input(i), frame));
  std::vector<Bytes> stacks;
  for (size_t i = loop.carried; i < op.outputs().size(); ++i) {
    stacks.emplace_back(static_cast<size_t>(op.output(i)->type().bytes()));
  }
  for (int64_t k = 0; k < count; ++k) {
    if (loop.whileTrue && values[0][0] == std::byte{0}) break;
    const int64_t slice = loop.reverse ? count - 1 - k : k;
    const std::vector<Bytes> results = runCallee(*loop.body, iterationInputs(op, loop, values, slice, frame));
    for (size_t i = 0; i < loop.carried; ++i) values[i] = results[i];
    for (size_t i = 0; i < stacks.size(); ++i) {
      const Bytes& result = results[loop.carried + i];
      std::copy(result.begin(), result.end(),
                stacks[i].begin() + slice * static_cast<int64_t>(result.size()));
    }
  }
  for (size_t i = 0; i < loop.carried; ++i) {
    give(op, i, values[i], frame);
    if (op.modifies(loop.first + i)) write(op.input(loop.first + i), frame, values[i]);
  }
  for (size_t i = 0; i < stacks.size(); ++i) give(op, loop.carried + i, stacks[i], frame);
}

void Interpreter::runConditional(const ir::Op& op, Frame& frame) {
  const bool taken = read(op.input(0), frame)[0] != std::byte{0};
  const ir::Graph& yes = *op.calledGraphs()[0];
  const ir::Graph& graph = taken ? yes : *op.calledGraphs()[1];
  const size_t first = taken ? 1 : 1 + yes.inputs().size();
  std::vector<Cells> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) inputs.push_back(passed(op, first + i, frame));
  const std::vector<Bytes> results = runCallee(graph, inputs);
  for (size_t i = 0; i < op.outputs().size(); ++i) give(op, i, results[i], frame);
}

}  // namespace popxl::exec
