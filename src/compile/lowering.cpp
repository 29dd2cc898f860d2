#include "compile/lowering.h"

#include <algorithm>

#include "algo/offsets.h"
#include "base/error.h"
#include "kernels/copy.h"

namespace popxl::compile {
namespace {

std::vector<ir::Op*> liveOrder(const ir::Graph& graph, const analysis::Liveness& liveness) {
  std::vector<ir::Op*> order = graph.schedule();
  std::erase_if(order, [&](const ir::Op* op) { return !liveness.live(*op); });
  return order;
}

/// Whether running the graph writes the memory of its input.
bool isWritten(const ir::Tensor* input) {
  std::vector<const ir::Tensor*> sharing = {input};
  while (!sharing.empty()) {
    const ir::Tensor* t = sharing.back();
    sharing.pop_back();
    for (const ir::Use& use : t->uses()) {
      if (use.op->modifies(static_cast<size_t>(use.index))) return true;
      if (use.op->def().view != nullptr) {
        sharing.push_back(use.op->output());
        continue;
      }
      for (const ir::Alias& alias : use.op->aliases()) {
        if (alias.input == use.index) sharing.push_back(use.op->output(static_cast<size_t>(alias.output)));
      }
    }
  }
  return false;
}

}  // namespace

GraphLowering::GraphLowering(const ir::Graph& graph, const LowerContext& context)
    : graph_(graph),
      context_(context),
      order_(liveOrder(graph, context.liveness)),
      storageMap_(std::in_place, graph, order_, context.liveness, context.channelsLast),
      storages_(*storageMap_),
      steps_(fuse(graph, order_, storages_, context.liveness)) {
  writeCopiesAtOnce(steps_, storages_);
  mergedInto_.assign(storages_.buffers().size(), -1);
}

Code GraphLowering::run() {
  findBufferUses();
  chooseResultBuffers();
  for (const Step& step : steps_) {
    lowerStep(step);
    ++step_;
  }
  emitResultCopies();
  Code code;
  code.graph = &graph_;
  for (const ir::Tensor* t : graph_.inputs()) code.writesInput.push_back(isWritten(t));
  planMemory(code);
  return code;
}

void GraphLowering::findBufferUses() {
  lastRead_.assign(storages_.buffers().size(), -1);
  const auto touch = [&](const ir::Tensor* t, int32_t step) {
    if (!storages_.has(t)) return;
    int32_t& last = lastRead_[static_cast<size_t>(storages_.at(t).buffer)];
    last = std::max(last, step);
  };
  for (size_t s = 0; s < steps_.size(); ++s) {
    std::vector<const ir::Op*> ops = steps_[s].ops;
    if (steps_[s].producer != nullptr) ops.push_back(steps_[s].producer);
    for (const ir::Op* op : ops) {
      for (size_t i = 0; i < op->inputs().size(); ++i) {
        if (op->input(i) != nullptr && context_.liveness.reads(*op, i))
          touch(op->input(i), static_cast<int32_t>(s));
      }
    }
  }
  for (const ir::Tensor* t : graph_.outputs()) {
    if (context_.liveness.returned(*t)) touch(t, kForever);
  }
}

/// A result that fills a local buffer of its own is written straight to where the caller wants it.
void GraphLowering::chooseResultBuffers() {
  const auto inputs = static_cast<int32_t>(graph_.inputs().size());
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ir::Tensor* t = graph_.outputs()[i];
    if (graph_.isMain() || !context_.liveness.returns(graph_, i) || !storages_.has(t)) continue;
    Buffer& buffer = storages_.buffers()[static_cast<size_t>(storages_.at(t).buffer)];
    if (buffer.kind != Buffer::Kind::kLocal || buffer.bytes != t->type().bytes()) continue;
    if (!context_.channelsLast.matches(t, storages_.at(t).layout) || storages_.at(t).elementOffset != 0)
      continue;
    buffer.kind = Buffer::Kind::kArgumentOut;
    buffer.argument = inputs + static_cast<int32_t>(i);
  }
}

void GraphLowering::emitResultCopies() {
  const auto inputs = static_cast<int32_t>(graph_.inputs().size());
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ir::Tensor* t = graph_.outputs()[i];
    if (graph_.isMain() || !context_.liveness.returns(graph_, i)) continue;
    const int32_t argument = inputs + static_cast<int32_t>(i);
    if (!storages_.has(t)) {  // a constant or variable of this graph that no op reads
      POPXL_ASSERT(t->kind() == ir::TensorKind::kConstant, "output {} has no storage", t->id());
      const int32_t source = storages_.addBuffer({Buffer::Kind::kConstant, t->type().bytes(), 0, t});
      mergedInto_.push_back(-1);
      lastRead_.push_back(kForever);
      const int32_t to = storages_.addBuffer({Buffer::Kind::kArgumentOut, t->type().bytes(), argument, t});
      mergedInto_.push_back(-1);
      lastRead_.push_back(kForever);
      emitCopy({source, Layout(t->dtype(), t->shape()), 0}, {to, 0}, nullptr);
      continue;
    }
    const Buffer& own = storages_.buffers()[static_cast<size_t>(storages_.at(t).buffer)];
    if (own.kind == Buffer::Kind::kArgumentOut && own.argument == argument) continue;
    const Storage from = storages_.at(t);
    const int32_t to = storages_.addBuffer({Buffer::Kind::kArgumentOut, t->type().bytes(), argument, t});
    mergedInto_.push_back(-1);
    lastRead_.push_back(kForever);
    emitCopy(from, {to, 0}, context_.channelsLast.layoutOf(t), t->producer());
  }
}

Ref GraphLowering::refOf(const ir::Tensor* t) const {
  const Storage& storage = storages_.at(t);
  const Buffer& buffer = storages_.buffers()[static_cast<size_t>(storage.buffer)];
  return {storage.buffer, storage.byteOffset(), std::min(t->type().bytes(), buffer.bytes)};
}

Ref GraphLowering::temporary(int64_t bytes) {
  const int32_t buffer = storages_.addBuffer({Buffer::Kind::kLocal, bytes, 0, nullptr});
  mergedInto_.push_back(-1);
  lastRead_.push_back(step_);
  return {buffer, 0, bytes};
}

/// Room for a callee's frame, for one instruction: for that which the replicas do not share where it has
/// collectives.
Ref GraphLowering::frameFor(int32_t code) {
  const Code& callee = context_.program.codes[static_cast<size_t>(code)];
  const Ref frame = temporary(callee.cuts.empty() ? callee.frameBytes : callee.laneBytes);
  storages_.buffers()[static_cast<size_t>(frame.buffer)].frameOf = code;
  return frame;
}

/// The tensor as dense row-major memory: where it lies, or a copy made now.
Ref GraphLowering::contiguous(const ir::Tensor* t) {
  const Storage& storage = storages_.at(t);
  if (storage.layout.isContiguous()) return refOf(t);
  const Ref copy = temporary(t->type().bytes());
  emitCopy(storage, copy, t->producer());
  return copy;
}

/// The tensor as a called graph takes it: where it lies, or a copy made now.
Ref GraphLowering::asPassed(const ir::Tensor* t) {
  const Storage& storage = storages_.at(t);
  if (context_.channelsLast.matches(t, storage.layout)) return refOf(t);
  const Ref copy = temporary(t->type().bytes());
  emitCopy(storage, copy, context_.channelsLast.layoutOf(t), t->producer());
  return copy;
}

void GraphLowering::emit(Instruction instruction, std::vector<Ref> refs) {
  drafts_.push_back({std::move(instruction), std::move(refs)});
}

void GraphLowering::emitKernel(kernels::KernelPtr kernel, std::vector<Ref> refs,
                               std::vector<const ir::Op*> ops) {
  const double flops = kernel->flops();
  emitKernel(std::move(kernel), std::move(refs), std::move(ops), flops);
}

void GraphLowering::emitKernel(kernels::KernelPtr kernel, std::vector<Ref> refs,
                               std::vector<const ir::Op*> ops, double flops) {
  Instruction instruction;
  instruction.cost.flops = flops;
  for (const Ref& ref : refs) instruction.cost.bytes += static_cast<double>(ref.bytes);
  if (kernel->scratchBytes() > 0) refs.push_back(temporary(kernel->scratchBytes()));
  instruction.what = RunKernel{std::move(kernel), {}};
  instruction.ops = std::move(ops);
  emit(std::move(instruction), std::move(refs));
}

void GraphLowering::emitCopy(const Storage& from, Ref to, const ir::Op* op) {
  emitCopy(from, to, Layout(from.layout.dtype, from.layout.shape), op);
}

void GraphLowering::emitCopy(const Storage& from, Ref to, const Layout& layout, const ir::Op* op) {
  auto kernel = kernels::makeCopy(from.layout, layout);
  std::vector<const ir::Op*> ops;
  if (op != nullptr) ops.push_back(op);
  const Ref source = {from.buffer, from.byteOffset(), from.layout.bytes()};
  emitKernel(std::move(kernel), {source, {to.buffer, to.offset, source.bytes}}, std::move(ops));
}

/// Whether the memory is the same in all runs.
bool GraphLowering::isFixed(const Buffer& buffer) {
  if (buffer.kind == Buffer::Kind::kConstant) return true;
  if (buffer.kind != Buffer::Kind::kVariable) return false;
  if (!written_.has_value()) written_.emplace(graph_);
  return !(*written_)(buffer.root);
}

/// Takes out of a kernel what it does with one operand alone: done when the variables come from the host
/// where the operand never changes, else as an instruction of its own.
void GraphLowering::emitPreparation(kernels::Kernel& kernel, const ir::Op& op, std::vector<Ref>& refs) {
  kernels::Preparation work = kernel.takePreparation();
  if (work.kernel == nullptr) return;
  Ref& operand = refs[work.operand];
  if (!isFixed(storages_.buffers()[static_cast<size_t>(operand.buffer)])) {
    const Ref result = temporary(work.bytes);
    emitKernel(std::move(work.kernel), {operand, result}, {&op});
    operand = result;
    return;
  }
  Program& program = context_.program;
  const Address from = addressOf(operand, {});
  const bool shared = program.ir->instanceReplicationFactor() > 1 && from.base != Address::Base::kVariable;
  int64_t& end = shared ? program.sharedBytes : program.variableBytes;
  const Address to{shared ? Address::Base::kShared : Address::Base::kVariable, 0, end, nullptr};
  const int64_t unit = algo::kOffsetAlignment;
  end += (work.bytes + unit - 1) / unit * unit;
  const int64_t scratch = work.kernel->scratchBytes();
  Instruction instruction;
  instruction.what = RunKernel{std::move(work.kernel), {from, to, {Address::Base::kFrame, 0, 0, nullptr}}};
  instruction.ops = {&op};
  instruction.cost.bytes = static_cast<double>(operand.bytes + work.bytes);
  Code& preparation = shared ? program.sharedPreparation : program.preparation;
  preparation.instructions.push_back(std::move(instruction));
  preparation.frameBytes = std::max(preparation.frameBytes, scratch);
  const auto kind = shared ? Buffer::Kind::kPreparedShared : Buffer::Kind::kPrepared;
  operand = {storages_.addBuffer({kind, work.bytes, 0, nullptr, -1, to.offset}), 0, work.bytes};
  mergedInto_.push_back(-1);
  lastRead_.push_back(step_);
}

/// Whether nothing after this step touches a local buffer.
bool GraphLowering::diesHere(int32_t buffer) const {
  return storages_.buffers()[static_cast<size_t>(buffer)].kind == Buffer::Kind::kLocal &&
         lastRead_[static_cast<size_t>(buffer)] == step_;
}

int32_t GraphLowering::resolve(int32_t buffer) const {
  while (mergedInto_[static_cast<size_t>(buffer)] >= 0) buffer = mergedInto_[static_cast<size_t>(buffer)];
  return buffer;
}

Code lowerGraph(const ir::Graph& graph, const LowerContext& context) {
  return GraphLowering(graph, context).run();
}

}  // namespace popxl::compile
