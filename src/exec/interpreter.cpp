#include "exec/interpreter.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "analysis/calls.h"
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

void Interpreter::run(const Memory& memory) {
  shared_ = memory.shared;
  replicas_ = memory.lanes.size();
  Frames frames;
  for (size_t r = 0; r < replicas_; ++r) frames.push_back({&memory.lanes[r], static_cast<int64_t>(r), {}});
  runGraph(program_.ir->mainGraph(), frames);
}

// --- memory

Interpreter::Cells& Interpreter::cellsOf(const ir::Tensor* t, Frame& frame) const {
  if (const auto known = frame.cells.find(t); known != frame.cells.end()) return known->second;
  POPXL_ASSERT(t->isPersistent(), "tensor {} is used before it is made", t->id());
  std::byte* memory = t->data()->bytes;
  if (t->kind() == ir::TensorKind::kVariable) {
    const compile::VariablePlace& place = program_.variablePlaces.at(t);
    std::byte* base = place.shared ? shared_ : frame.lane->variables;
    memory = base == nullptr ? nullptr : base + place.offset;  // no memory where none has an element
  }
  return frame.cells[t] = {borrowed(memory), inOrder(t->type().numElements())};
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

void Interpreter::runGraph(const ir::Graph& graph, Frames& frames) {
  const auto [schedule, isNew] = schedules_.try_emplace(&graph);
  if (isNew) schedule->second = graph.schedule();
  const std::vector<ir::Op*>& order = schedule->second;  // stays where it is while callees add theirs
  for (const ir::Op* op : order) {
    if (runTogether(*op, frames)) continue;
    for (Frame& frame : frames) runOp(*op, frame);
  }
}

bool Interpreter::runTogether(const ir::Op& op, Frames& frames) {
  switch (op.def().structure) {
    case Structure::kCall:
      runCall(op, frames);
      return true;
    case Structure::kRepeat:
      runRepeat(op, frames);
      return true;
    case Structure::kConditional:
      runConditional(op, frames);
      return true;
    case Structure::kCollective:
      runCollective(op, frames);
      return true;
    default:
      return false;
  }
}

void Interpreter::runOp(const ir::Op& op, Frame& frame) {
  switch (op.def().structure) {
    case Structure::kNone:
      return op.def().view != nullptr ? runView(op, frame) : runCompute(op, frame);
    case Structure::kInit:
      return give(op, 0, Bytes(static_cast<size_t>(op.output()->type().bytes())), frame);
    case Structure::kHostLoad: {
      const std::byte* from = nextEntry(op, frame);
      return give(op, 0, Bytes(from, from + op.output()->type().bytes()), frame);
    }
    case Structure::kHostStore: {
      const Bytes values = read(op.input(0), frame);
      std::copy(values.begin(), values.end(), nextEntry(op, frame));
      return;
    }
    case Structure::kPrint: {
      const Bytes values = read(op.input(0), frame);
      printTensor(op, values.data());
      return give(op, 0, values, frame);
    }
    case Structure::kRemoteLoad: {
      Bytes values(static_cast<size_t>(op.output()->type().bytes()));
      frame.lane->remote->load(op, frame.replica, op.attr<int64_t>("remote_buffer"), remoteEntry(op, frame),
                               values.data(), static_cast<int64_t>(values.size()));
      return give(op, 0, values, frame);
    }
    case Structure::kRemoteStore: {
      const Bytes values = read(op.input(0), frame);
      frame.lane->remote->store(op, frame.replica, op.attr<int64_t>("remote_buffer"), remoteEntry(op, frame),
                                values.data(), static_cast<int64_t>(values.size()));
      return;
    }
    case Structure::kNothing:
      return;
    case Structure::kCall:
    case Structure::kRepeat:
    case Structure::kConditional:
    case Structure::kCollective:
      break;
  }
  POPXL_ASSERT(false, "{} concerns all replicas", op.name());
}

std::byte* Interpreter::nextEntry(const ir::Op& op, Frame& frame) {
  const auto& id = op.attr<std::string>("stream");
  const auto stream = std::find_if(program_.streams.begin(), program_.streams.end(),
                                   [&](const ir::Stream& s) { return s.id() == id; });
  POPXL_ASSERT(stream != program_.streams.end(), "no stream {}", id);
  const auto i = static_cast<size_t>(stream - program_.streams.begin());
  return frame.lane->streams[i].take(*stream, op, frame.replica, static_cast<int64_t>(replicas_));
}

int64_t Interpreter::remoteEntry(const ir::Op& op, Frame& frame) const {
  const ir::Tensor* offset = op.input(1);
  const ir::Number entry(offset->dtype(), loadElement(offset->dtype(), read(offset, frame).data()));
  return entry.integer();
}

void Interpreter::give(const ir::Op& op, size_t i, const Bytes& values, Frame& frame) const {
  const ir::Tensor* out = op.output(i);
  for (const ir::Alias& alias : op.aliases()) {
    const auto operand = static_cast<size_t>(alias.input);
    if (alias.output != static_cast<int32_t>(i) || !op.modifies(operand)) continue;
    const Cells same = cellsOf(op.input(operand), frame);
    frame.cells[out] = same;
    return write(out, frame, values);
  }
  frame.cells[out] = fresh(out, values);
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
  frame.cells[op.output()] = to;
  if (op.inplace()) return;
  frame.cells[op.output()] = fresh(op.output(), read(op.output(), frame));
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

// --- all replicas together

void Interpreter::runCollective(const ir::Op& op, Frames& frames) {
  POPXL_ASSERT(frames.size() == replicas_, "{} of {} replicas reach {}", frames.size(), replicas_, op.name());
  Bytes all;
  for (Frame& frame : frames) {
    const Bytes own = read(op.input(0), frame);
    all.insert(all.end(), own.begin(), own.end());
  }
  const auto bytes = static_cast<std::ptrdiff_t>(all.size() / frames.size());
  if (exchange_ != nullptr) all = exchange_->gather(op, all);
  const auto replicas = exchange_ == nullptr ? frames.size() : static_cast<size_t>(exchange_->replicas());
  std::vector<ir::Array> in, out;
  for (auto at = all.begin(); in.size() < replicas; at += bytes) {
    in.push_back(arrayOf(op.input(0)->type(), Bytes(at, at + bytes)));
    out.emplace_back(op.output()->dtype(), op.output()->shape());
  }
  ir::withPlace(op, [&] { op.def().collectiveReference(op, in, out); });
  const size_t first = exchange_ == nullptr ? 0 : static_cast<size_t>(exchange_->first());
  for (size_t r = 0; r < frames.size(); ++r)
    give(op, 0, bytesOf(out[first + r], op.output()->dtype()), frames[r]);
}

/// What the given replicas agree on; where the op holds a collective, with those of all processes.
int64_t Interpreter::agreedByAll(const ir::Op& op, const std::vector<int64_t>& values) const {
  const auto called = op.calledGraphs();
  const bool together = std::any_of(called.begin(), called.end(),
                                    [](const ir::Graph* g) { return analysis::holdsCollective(*g); });
  return together && exchange_ != nullptr ? exchange_->agree(op, values) : agreed(op, values);
}

std::vector<std::vector<Bytes>> Interpreter::runCallee(const ir::Graph& graph, const Frames& callers,
                                                       const std::vector<Inputs>& inputs) {
  Frames frames;
  for (size_t r = 0; r < callers.size(); ++r) {
    Frame& frame = frames.emplace_back(Frame{callers[r].lane, callers[r].replica, {}});
    for (size_t i = 0; i < inputs[r].size(); ++i) frame.cells[graph.inputs()[i]] = inputs[r][i];
  }
  runGraph(graph, frames);
  std::vector<std::vector<Bytes>> results;
  for (Frame& frame : frames) {
    std::vector<Bytes>& own = results.emplace_back();
    for (const ir::Tensor* t : graph.outputs()) own.push_back(read(t, frame));
  }
  return results;
}

void Interpreter::runCall(const ir::Op& op, Frames& frames) {
  std::vector<Inputs> inputs;
  for (Frame& frame : frames) {
    Inputs& own = inputs.emplace_back();
    for (size_t i = 0; i < op.inputs().size(); ++i) own.push_back(passed(op, i, frame));
  }
  const auto results = runCallee(*op.calledGraph(), frames, inputs);
  for (size_t r = 0; r < frames.size(); ++r) {
    for (size_t i = 0; i < op.outputs().size(); ++i) give(op, i, results[r][i], frames[r]);
  }
}

/// What one iteration gets: `values` of the carried ones, a slice of scanned ones, the others as they are.
Interpreter::Inputs Interpreter::iterationInputs(const ir::Op& op, const ir::Loop& loop,
                                                 const std::vector<Bytes>& values, int64_t slice,
                                                 Frame& frame) const {
  Inputs inputs;
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

void Interpreter::runRepeat(const ir::Op& op, Frames& frames) {
  const ir::Loop loop(op);
  if (frames.size() > 1 && !analysis::holdsCollective(*loop.body)) {  // each as often as it wants
    for (Frame& frame : frames) {
      Frames one;
      one.push_back(std::move(frame));
      runRepeat(op, one);
      frame = std::move(one.front());
    }
    return;
  }
  std::vector<int64_t> counts(frames.size(), loop.count);
  std::vector<std::vector<Bytes>> values(frames.size()), stacks(frames.size());
  for (size_t r = 0; r < frames.size(); ++r) {
    if (loop.trips != nullptr) {
      const DType type = loop.trips->dtype();
      const ir::Number trips(type, loadElement(type, read(loop.trips, frames[r]).data()));
      counts[r] = tripCount(op, trips.integer());
    }
    for (size_t i = loop.first; i < op.inputs().size(); ++i)
      values[r].push_back(read(op.input(i), frames[r]));
    for (size_t i = loop.carried; i < op.outputs().size(); ++i)
      stacks[r].emplace_back(static_cast<size_t>(op.output(i)->type().bytes()));
  }
  iterate(op, loop, loop.trips == nullptr ? loop.count : agreedByAll(op, counts), frames, values, stacks);
  for (size_t r = 0; r < frames.size(); ++r) {
    for (size_t i = 0; i < loop.carried; ++i) {
      give(op, i, values[r][i], frames[r]);
      if (op.modifies(loop.first + i)) write(op.input(loop.first + i), frames[r], values[r][i]);
    }
    for (size_t i = 0; i < stacks[r].size(); ++i) give(op, loop.carried + i, stacks[r][i], frames[r]);
  }
}

/// Runs the body `count` times at most: carried values change, the others are the same in every iteration.
void Interpreter::iterate(const ir::Op& op, const ir::Loop& loop, int64_t count, Frames& frames,
                          std::vector<std::vector<Bytes>>& values, std::vector<std::vector<Bytes>>& stacks) {
  for (int64_t k = 0; k < count; ++k) {
    std::vector<int64_t> goOn;
    for (const auto& own : values) goOn.push_back(loop.whileTrue ? int64_t{own[0][0] != std::byte{0}} : 1);
    if (loop.whileTrue && agreedByAll(op, goOn) == 0) break;
    const int64_t slice = loop.reverse ? count - 1 - k : k;
    std::vector<Inputs> inputs;
    for (size_t r = 0; r < frames.size(); ++r)
      inputs.push_back(iterationInputs(op, loop, values[r], slice, frames[r]));
    const auto results = runCallee(*loop.body, frames, inputs);
    for (size_t r = 0; r < frames.size(); ++r) {
      for (size_t i = 0; i < loop.carried; ++i) values[r][i] = results[r][i];
      for (size_t i = 0; i < stacks[r].size(); ++i) {
        const Bytes& result = results[r][loop.carried + i];
        std::copy(result.begin(), result.end(),
                  stacks[r][i].begin() + slice * static_cast<int64_t>(result.size()));
      }
    }
  }
}

void Interpreter::runConditional(const ir::Op& op, Frames& frames) {
  std::vector<int64_t> taken;
  for (Frame& frame : frames) taken.push_back(int64_t{read(op.input(0), frame)[0] != std::byte{0}});
  const auto branches = op.calledGraphs();
  const bool together = analysis::holdsCollective(*branches[0]) || analysis::holdsCollective(*branches[1]);
  if (together) return runBranch(op, agreedByAll(op, taken) != 0, frames);
  for (const bool isThen : {true, false}) {  // those of one branch, then those of the other
    Frames some;
    for (size_t r = 0; r < frames.size(); ++r) {
      if ((taken[r] != 0) == isThen) some.push_back(std::move(frames[r]));
    }
    if (!some.empty()) runBranch(op, isThen, some);
    size_t next = 0;
    for (size_t r = 0; r < frames.size(); ++r) {
      if ((taken[r] != 0) == isThen) frames[r] = std::move(some[next++]);
    }
  }
}

namespace {

/// Collects the ops that make a tensor of constants; false when something else is needed.
bool madeOfConstants(const ir::Tensor* t, std::unordered_set<const ir::Op*>& makers) {
  if (t == nullptr || t->kind() == ir::TensorKind::kConstant) return true;
  const ir::Op* op = t->producer();
  if (op == nullptr || op->modifiesAny() || op->def().random) return false;
  const Structure structure = op->def().structure;
  if (structure != Structure::kNone && structure != Structure::kCollective) return false;
  if (!makers.insert(op).second) return true;
  return std::all_of(op->inputs().begin(), op->inputs().end(),
                     [&](const ir::Tensor* operand) { return madeOfConstants(operand, makers); });
}

}  // namespace

std::optional<std::vector<int64_t>> Interpreter::knownCondition(const ir::Op& conditional, size_t replicas) {
  std::unordered_set<const ir::Op*> makers;
  if (!madeOfConstants(conditional.input(0), makers)) return std::nullopt;
  std::vector<const ir::Op*> ops;
  for (const ir::Op* op : conditional.graph().schedule()) {
    if (makers.contains(op)) ops.push_back(op);
  }
  // Constants are the same on all replicas; of much work the answer comes when the program runs.
  bool collective = false;
  int64_t elements = 0;
  for (const ir::Op* op : ops) {
    collective = collective || op->def().structure == Structure::kCollective;
    for (const auto& tensors : {op->inputs(), op->outputs()}) {
      for (const ir::Tensor* t : tensors) elements += t == nullptr ? 0 : t->type().numElements();
    }
  }
  constexpr int64_t kMostElements = 10'000;
  if (!collective || elements > kMostElements) return std::nullopt;
  replicas_ = replicas;
  Frames frames(replicas);
  for (const ir::Op* op : ops) {
    if (runTogether(*op, frames)) continue;
    for (Frame& frame : frames) runOp(*op, frame);
  }
  std::vector<int64_t> values;
  for (Frame& frame : frames) values.push_back(int64_t{read(conditional.input(0), frame)[0] != std::byte{0}});
  return values;
}

void checkConditions(const compile::Program& program) {
  const auto replicas = static_cast<size_t>(program.ir->replicationFactor());
  if (replicas == 1) return;
  for (const ir::Graph* graph : program.ir->graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (op->def().structure != Structure::kConditional) continue;
      const std::vector<ir::Graph*> branches = op->calledGraphs();
      if (!analysis::holdsCollective(*branches[0]) && !analysis::holdsCollective(*branches[1])) continue;
      const auto known = Interpreter(program).knownCondition(*op, replicas);
      if (known) agreed(*op, *known);
    }
  }
}

void Interpreter::runBranch(const ir::Op& op, bool isThen, Frames& frames) {
  const ir::Graph& yes = *op.calledGraphs()[0];
  const ir::Graph& graph = isThen ? yes : *op.calledGraphs()[1];
  const size_t first = isThen ? 1 : 1 + yes.inputs().size();
  std::vector<Inputs> inputs;
  for (Frame& frame : frames) {
    Inputs& own = inputs.emplace_back();
    for (size_t i = 0; i < graph.inputs().size(); ++i) own.push_back(passed(op, first + i, frame));
  }
  const auto results = runCallee(graph, frames, inputs);
  for (size_t r = 0; r < frames.size(); ++r) {
    for (size_t i = 0; i < op.outputs().size(); ++i) give(op, i, results[r][i], frames[r]);
  }
}

}  // namespace popxl::exec
