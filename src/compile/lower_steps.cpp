#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/lowering.h"
#include "compile/memory_order.h"
#include "kernels/check.h"
#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "kernels/expr_cost.h"

namespace popxl::compile {

using ir::Structure;

void GraphLowering::lowerStep(const Step& step) {
  const ir::Op& op = *step.ops.front();
  if (step.producer != nullptr) lowerScaleCheck(*step.producer);
  for (const ir::Op* member : step.ops) lowerScaleCheck(*member);
  if (step.elementwise) return lowerElementwise(step);
  Instruction instruction;
  instruction.ops = {&op};
  switch (op.def().structure) {
    case Structure::kNone:
      break;
    case Structure::kNothing:
      return;
    case Structure::kCall:
      return lowerCall(op);
    case Structure::kRepeat:
      return lowerRepeat(op);
    case Structure::kConditional:
      return lowerConditional(op);
    case Structure::kInit:
      return emitKernel(kernels::makeFill(storages_.at(op.output()).layout, 0.0), {refOf(op.output())},
                        {&op});
    case Structure::kHostLoad: {
      const auto stream = context_.streams.find(op.attr<std::string>("stream"));
      POPXL_ASSERT(stream != context_.streams.end(), "no stream {}", op.attr<std::string>("stream"));
      instruction.what = RunHostLoad{stream->second, {}, op.output()->type().bytes()};
      instruction.cost.bytes = 2.0 * static_cast<double>(op.output()->type().bytes());
      return emit(std::move(instruction), {refOf(op.output())});
    }
    case Structure::kHostStore: {
      const auto stream = context_.streams.find(op.attr<std::string>("stream"));
      POPXL_ASSERT(stream != context_.streams.end(), "no stream {}", op.attr<std::string>("stream"));
      instruction.what = RunHostStore{stream->second, {}, op.input(0)->type().bytes()};
      instruction.cost.bytes = 2.0 * static_cast<double>(op.input(0)->type().bytes());
      const Ref from = contiguous(op.input(0));
      return emit(std::move(instruction), {from});
    }
    case Structure::kPrint: {
      const Ref from = contiguous(op.input(0));
      if (storages_.has(op.output()) && context_.liveness.live(*op.output())) {
        emitCopy(storages_.at(op.input(0)), refOf(op.output()), &op);
      }
      instruction.what = RunPrint{};
      return emit(std::move(instruction), {from});
    }
    case Structure::kRemoteLoad:
    case Structure::kRemoteStore:
      return lowerRemote(op);
    case Structure::kCollective:
      return lowerCollective(op);
  }
  if (op.def().expr != nullptr) return lowerReduction(op);
  if (op.def().view != nullptr) return lowerView(op);
  POPXL_ASSERT(op.def().kernel != nullptr, "op {} has no way to run", op.name());
  lowerKernel(op);
}

void GraphLowering::lowerRemote(const ir::Op& op) {
  // The buffer may have been given another type since the op was made.
  std::vector<ir::TensorType> types;
  ir::withPlace(op, [&] { op.def().infer(op, types); });
  const bool stores = op.def().structure == Structure::kRemoteStore;
  const ir::Tensor* t = stores ? op.input(0) : op.output();
  const Storage& storage = storages_.at(t);
  // Into memory with gaps, as a view made in place may have, an entry comes by way of dense memory.
  const bool scatters = !stores && !storage.layout.isContiguous();
  const Ref entry = contiguous(op.input(1));
  const Ref data = stores ? contiguous(t) : scatters ? temporary(t->type().bytes()) : refOf(t);
  Instruction instruction;
  instruction.ops = {&op};
  instruction.what =
      RunRemote{stores, op.attr<int64_t>("remote_buffer"), op.input(1)->dtype(), {}, {}, t->type().bytes()};
  instruction.cost.bytes = 2.0 * static_cast<double>(t->type().bytes());
  emit(std::move(instruction), {entry, data});
  if (!scatters) return;
  emitKernel(kernels::makeCopy(Layout(t->dtype(), t->shape()), storage.layout), {data, refOf(t)}, {&op});
}

/// Results of a group that something outside it reads, and memory that it changes; the last name of each
/// memory.
std::vector<const ir::Tensor*> GraphLowering::storedResults(const Step& step) const {
  const std::set<const ir::Op*> members(step.ops.begin(), step.ops.end());
  std::vector<const ir::Tensor*> stored;
  for (const ir::Op* op : step.ops) {
    for (const ir::Tensor* t : op->outputs()) {
      const Storage& storage = storages_.at(t);
      const Buffer& buffer = storages_.buffers()[static_cast<size_t>(storage.buffer)];
      bool needed = buffer.root != t;  // written in place
      for (const ir::Use& use : t->uses()) {
        needed = needed || (!members.contains(use.op) && context_.liveness.live(*use.op) &&
                            context_.liveness.reads(*use.op, static_cast<size_t>(use.index)));
      }
      needed = needed || context_.liveness.returned(*t);
      if (!needed) continue;
      std::erase_if(stored,
                    [&](const ir::Tensor* other) { return storages_.at(other).buffer == storage.buffer; });
      stored.push_back(t);
    }
  }
  return stored;
}

/// Lets a result take over the memory of an operand of the same layout that dies in this step.
void GraphLowering::reuseDyingOperand(const ir::Tensor* result,
                                      const std::vector<const ir::Tensor*>& operands) {
  const Storage& to = storages_.at(result);
  const Buffer& own = storages_.buffers()[static_cast<size_t>(to.buffer)];
  if (own.kind != Buffer::Kind::kLocal || own.root != result) return;
  for (const ir::Tensor* t : operands) {
    const Storage& from = storages_.at(t);
    if (from.buffer == to.buffer || !diesHere(from.buffer) || !(from.layout == to.layout)) continue;
    if (from.elementOffset != 0 || storages_.buffers()[static_cast<size_t>(from.buffer)].bytes != own.bytes)
      continue;
    const bool readOtherwise = std::any_of(operands.begin(), operands.end(), [&](const ir::Tensor* other) {
      return storages_.at(other).buffer == from.buffer && !(storages_.at(other) == from);
    });
    if (readOtherwise) continue;
    mergedInto_[static_cast<size_t>(to.buffer)] = from.buffer;
    lastRead_[static_cast<size_t>(from.buffer)] =
        INT32_MAX;  // taken; the lifetimes themselves come from the drafts
    return;
  }
}

kernels::KernelPtr makeScaleCheck(const ir::Op& op) {
  const int32_t operand = op.def().log2ScaleOperand;
  if (operand < 0 || !op.graph().ir().options().throwIfLog2ScaleTensorNotInRange) return nullptr;
  const ir::Tensor* t = op.input(static_cast<size_t>(operand));
  if (t == nullptr) return nullptr;
  constexpr int32_t kLow = -32, kEnd = 32;
  return kernels::makeRangeCheck(
      kLow, kEnd, fmt::format("`{}` at {}: the power of two `{}`", op.name(), op.loc().str(), t->name()));
}

/// A check, made when the program runs, that a power of two is one that float8 arithmetic has.
void GraphLowering::lowerScaleCheck(const ir::Op& op) {
  kernels::KernelPtr check = makeScaleCheck(op);
  if (check == nullptr) return;
  emitKernel(std::move(check), {refOf(op.input(static_cast<size_t>(op.def().log2ScaleOperand)))}, {&op});
}

/// Operands that the op changes before its arithmetic reads them.
void GraphLowering::lowerUpdate(const ir::Op& op) {
  if (op.def().update == nullptr) return;
  for (const int32_t operand : op.def().alsoModifies) {
    const ir::Tensor* t = op.input(static_cast<size_t>(operand));
    if (t == nullptr) continue;
    kernels::ElementwiseSpec spec;
    const kernels::Val old = kernels::input(spec.expr, 0, kernels::computeType(t->dtype()));
    spec.expr.outputs() = {op.def().update(old).id};
    spec.space = t->shape();
    spec.inputs = {storages_.at(t).layout};
    spec.outputs = spec.inputs;
    emitKernel(kernels::makeElementwise(std::move(spec)), {refOf(t), refOf(t)}, {&op});
  }
}

/// Layout of a dense operand of which single elements are read: it need not broadcast to the space.
static Layout elementsOf(const ir::Tensor* t, const Shape& space) {
  Shape joint;
  const bool fits = broadcastShapes(t->shape(), space, joint) && joint == space;
  return {t->dtype(), fits ? t->shape() : Shape()};
}

/// Layouts and places of a group's operands; nothing for one that the arithmetic names but does not need.
/// Returns those that are read only at the position that is being computed.
std::vector<const ir::Tensor*> GraphLowering::addOperands(const GroupExpr& group, const Shape& space,
                                                          std::vector<Layout>& layouts,
                                                          std::vector<Ref>& refs) {
  const std::vector<OperandUse> uses = group.slotUses();
  std::vector<const ir::Tensor*> read;
  std::set<int32_t> readAnywhere;
  for (size_t i = 0; i < uses.size(); ++i) {
    const ir::Tensor* t = group.inputs()[i];
    if (uses[i].element) {
      layouts.push_back(elementsOf(t, space));
      refs.push_back(contiguous(t));
      readAnywhere.insert(refs.back().buffer);
    } else if (uses[i].value) {
      layouts.push_back(storages_.at(t).layout);
      refs.push_back(refOf(t));
      read.push_back(t);
    } else {
      layouts.push_back(elementsOf(t, space));
      refs.push_back({});
    }
  }
  std::erase_if(read, [&](const ir::Tensor* t) { return readAnywhere.contains(storages_.at(t).buffer); });
  return read;
}

/// Operands that are other elements of memory that the step writes are copied before: a position would find
/// them changed.
void GraphLowering::copyOverlapping(const GroupExpr& group, const std::vector<const ir::Tensor*>& stored,
                                    std::vector<Layout>& layouts, std::vector<Ref>& refs) {
  std::map<int32_t, const ir::Tensor*> written;
  for (const ir::Tensor* t : stored) written.emplace(storages_.at(t).buffer, t);
  for (size_t i = 0; i < group.inputs().size(); ++i) {
    const auto to = refs[i].buffer < 0 ? written.end() : written.find(refs[i].buffer);
    if (to == written.end()) continue;
    const ir::Tensor* t = group.inputs()[i];
    if (!group.readsElements(i) && storages_.at(t) == storages_.at(to->second)) continue;
    refs[i] = temporary(t->type().bytes());
    emitCopy(storages_.at(t), refs[i], t->producer());
    if (!group.readsElements(i)) layouts[i] = Layout(t->dtype(), t->shape());
  }
}

void GraphLowering::lowerElementwise(const Step& step) {
  for (const ir::Op* op : step.ops) lowerUpdate(*op);
  GroupExpr group;
  for (const ir::Op* op : step.ops) group.add(*op);
  const std::vector<const ir::Tensor*> stored = storedResults(step);
  if (stored.empty()) {
    if (step.producer != nullptr) lowerKernel(*step.producer);
    return;
  }
  kernels::ElementwiseSpec spec;
  spec.space = spaceOf(*step.ops.front());
  std::vector<Ref> refs;
  for (const ir::Tensor* t : stored) group.store(t);
  std::vector<const ir::Tensor*> operands = addOperands(group, spec.space, spec.inputs, refs);
  copyOverlapping(group, stored, spec.inputs, refs);
  // Memory that the step writes in place is not free for another result, even when nothing reads it
  // afterwards.
  std::set<int32_t> written;
  for (const ir::Tensor* t : stored) written.insert(storages_.at(t).buffer);
  // Nor is what an op that runs first reads while other pieces of its result are already used.
  if (step.producer != nullptr) {
    for (const ir::Tensor* t : step.producer->inputs()) {
      if (t != nullptr) written.insert(storages_.at(t).buffer);
    }
  }
  std::erase_if(operands, [&](const ir::Tensor* t) { return written.contains(storages_.at(t).buffer); });
  for (const ir::Tensor* t : stored) {
    spec.outputs.push_back(storages_.at(t).layout);
    reuseDyingOperand(t, operands);
    refs.push_back(refOf(t));
  }
  const double flops = kernels::flopsOf(group.expr()) * static_cast<double>(numElements(spec.space));
  spec.expr = std::move(group.expr());
  if (step.producer != nullptr) {
    std::vector<Ref> all;
    const ir::KernelContext context = kernelContext(*step.producer, all);
    if (auto kernel = step.producer->def().groupKernel(context, spec)) {
      emitPreparation(*kernel, *step.producer, all);
      all.insert(all.end(), refs.begin(), refs.end());
      std::vector<const ir::Op*> ops = {step.producer};
      ops.insert(ops.end(), step.ops.begin(), step.ops.end());
      return emitKernel(std::move(kernel), std::move(all), std::move(ops));
    }
    emitKernelOf(*step.producer, context, std::move(all));
  }
  // Random bits are counted by positions, in their order.
  const bool random =
      std::any_of(step.ops.begin(), step.ops.end(), [](const ir::Op* op) { return op->def().random; });
  if (!random) walkInMemoryOrder(spec);
  emitKernel(kernels::makeElementwise(std::move(spec)), std::move(refs), step.ops, flops);
}

void GraphLowering::lowerReduction(const ir::Op& op) {
  GroupExpr group;
  group.add(op);
  group.store(op.output());
  kernels::ReduceSpec spec;
  spec.kind = op.def().reduction;
  spec.space = spaceOf(op);
  const auto rank = static_cast<int64_t>(spec.space.size());
  const Shape& result = op.output()->shape();
  Shape kept = spec.space;
  if (op.def().reducesAxes) {
    for (const int64_t axis : op.attr<std::vector<int64_t>>("axes")) {
      spec.axes.push_back(normalizeAxis(axis, rank, "reduction axis"));
    }
    if (spec.axes.empty()) {
      for (int64_t a = 0; a < rank; ++a) spec.axes.push_back(a);
    }
    std::sort(spec.axes.begin(), spec.axes.end());
  } else {
    for (int64_t a = 0; a < rank; ++a) {
      const int64_t own = a - (rank - static_cast<int64_t>(result.size()));
      const int64_t size = own < 0 ? 1 : result[static_cast<size_t>(own)];
      if (size == 1 && spec.space[static_cast<size_t>(a)] != 1) spec.axes.push_back(a);
    }
  }
  for (const int64_t a : spec.axes) kept[static_cast<size_t>(a)] = 1;
  spec.out = Layout(op.output()->dtype(), kept);
  std::vector<Ref> refs;
  addOperands(group, spec.space, spec.inputs, refs);
  refs.push_back(refOf(op.output()));
  // One operation more for folding each value into the result.
  const double flops = (kernels::flopsOf(group.expr()) + 1) * static_cast<double>(numElements(spec.space));
  spec.expr = std::move(group.expr());
  walkInMemoryOrder(spec);
  emitKernel(kernels::makeReduce(std::move(spec)), std::move(refs), {&op}, flops);
}

/// A view that has to move data: another layout of the operand, copied to dense memory.
void GraphLowering::lowerView(const ir::Op& op) {
  Storage from = storages_.at(op.input(0));
  ir::View view;
  if (!op.def().view(op, from.layout, view)) {
    const Layout dense(from.layout.dtype, from.layout.shape);
    POPXL_ASSERT(op.def().view(op, dense, view), "view {} of dense memory", op.name());
    if (view.layout.isContiguous() && view.layout.numElements() == dense.numElements()) {
      return emitCopy(from, refOf(op.output()), &op);  // a reshape keeps the order of the elements
    }
    from = {contiguous(op.input(0)).buffer, dense, 0};
  }
  emitCopy({from.buffer, view.layout, from.elementOffset + view.elementOffset}, refOf(op.output()), &op);
}

/// Layouts of an op's operands and results, and their places.
ir::KernelContext GraphLowering::kernelContext(const ir::Op& op, std::vector<Ref>& refs) {
  ir::KernelContext context{op, {}, {}, {}};
  const auto changes = [&](size_t operand) {  // through another operand
    for (size_t i = 0; i < op.inputs().size(); ++i) {
      if (i == operand || op.input(i) == nullptr || !op.modifies(i)) continue;
      if (storages_.at(op.input(i)).buffer == storages_.at(op.input(operand)).buffer) return true;
    }
    return false;
  };
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    const ir::Tensor* t = op.input(i);
    if (t == nullptr) continue;
    if (changes(i)) {
      context.inputs.emplace_back(t->dtype(), t->shape());
      refs.push_back(temporary(t->type().bytes()));
      emitCopy(storages_.at(t), refs.back(), &op);
    } else if (op.def().stridedInputs) {
      context.inputs.push_back(storages_.at(t).layout);
      refs.push_back(refOf(t));
    } else {
      context.inputs.emplace_back(t->dtype(), t->shape());
      refs.push_back(contiguous(t));
    }
    context.fixed.push_back(isFixed(storages_.buffers()[static_cast<size_t>(refs.back().buffer)]));
  }
  for (const ir::Tensor* t : op.outputs()) {
    context.outputs.push_back(storages_.at(t).layout);
    refs.push_back(refOf(t));
  }
  return context;
}

void GraphLowering::emitKernelOf(const ir::Op& op, const ir::KernelContext& context, std::vector<Ref> refs) {
  kernels::KernelPtr kernel = ir::withPlace(op, [&] { return op.def().kernel(context); });
  emitPreparation(*kernel, op, refs);
  emitKernel(std::move(kernel), std::move(refs), {&op});
}

void GraphLowering::lowerKernel(const ir::Op& op) {
  std::vector<Ref> refs;
  const ir::KernelContext context = kernelContext(op, refs);
  emitKernelOf(op, context, std::move(refs));
}

}  // namespace popxl::compile
