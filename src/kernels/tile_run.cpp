#include <algorithm>
#include <cstring>

#include "kernels/tile_program.h"

namespace popxl::kernels {
namespace {

constexpr int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Pointers of constants and uniforms; they do not change during a run.
void setFixedSlots(const TileProgram& p, std::byte** slots, std::byte* uniforms) {
  // Steps only read constants.
  auto* constants = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(p.constants.data()));
  size_t slot = 0;
  for (const int64_t offset : p.constantOffsets) slots[slot++] = constants + offset;
  for (const int64_t offset : p.uniformOffsets) slots[slot++] = uniforms + offset;
}

}  // namespace

TileInvocation::TileInvocation(const TileProgram& program, std::byte* const* operands,
                               UniformBuffer& uniforms)
    : program_(program),
      operands_(operands),
      inputs_(static_cast<size_t>(program.inputCount)),
      uniforms_(uniforms) {
  if (!program.uniformLoads.empty() || !program.prologue.empty()) {
    std::byte* slots[kUniformBufferBytes / 64 + kMaxConstants];
    setFixedSlots(program, slots, uniforms.bytes);
    for (const TileProgram::Uniform& u : program.uniformLoads) {
      u.fn(operands[u.operand] + u.element * u.elementBytes, 0, kBlock, slots[u.slot]);
    }
    const TileContext context{slots, kBlock, 0};
    for (const TileStep& step : program.prologue) step.fn(step, context);
  }
  for (size_t i = 0; i < program.stores.size(); ++i) {
    const TileProgram::Store& store = program.stores[i];
    if (!store.inPlace) continue;
    const std::byte* begin = output(i);
    const std::byte* end = begin + program.positions * store.elementBytes;
    const bool overlaps = std::any_of(store.readLater.begin(), store.readLater.end(), [&](int32_t index) {
      const TileProgram::Load& load = program.loads[static_cast<size_t>(index)];
      const std::byte* base = operands[load.operand];
      return base + load.walk.lowest() * load.elementBytes < end &&
             begin < base + (load.walk.highest() + 1) * load.elementBytes;
    });
    if (!overlaps) inPlace_ |= uint64_t{1} << i;
  }
}

TileRunner::TileRunner(const TileInvocation& invocation, TileBuffer& buffer) : invocation_(invocation) {
  const TileProgram& p = invocation.program();
  slots_ = reinterpret_cast<std::byte**>(buffer.bytes);
  registers_ = buffer.bytes + roundUp(static_cast<int64_t>(p.slotCount() * sizeof(std::byte*)), 64);
  setFixedSlots(p, slots_, invocation.uniforms());
  std::byte** slot = slots_ + p.constantOffsets.size() + p.uniformOffsets.size();
  for (const int32_t r : p.registers) *slot++ = registers_ + r * p.registerBytes;
}

std::byte* TileRunner::home(uint32_t slot) const {
  const TileProgram& p = invocation_.program();
  return registers_ +
         p.registers[slot - p.constantOffsets.size() - p.uniformOffsets.size()] * p.registerBytes;
}

void TileRunner::load(const TileProgram::Load& load, int64_t start, int64_t n, bool inPlace) {
  const std::byte* base = invocation_.operand(load.operand);
  std::byte* target = home(load.slot);
  int64_t done = 0;
  const int64_t valueBytes = load.valueBytes;
  load.walk.forRuns(start, n, [&](int64_t element, int64_t stride, int64_t count) {
    const std::byte* source = base + element * load.elementBytes;
    if (inPlace && load.inPlace && count == n && stride == 1) {
      target = const_cast<std::byte*>(source);
    } else {
      load.fn(source, stride, count, target + done * valueBytes);
    }
    done += count;
  });
  slots_[load.slot] = target;
  // Defined values in the padding: the steps run over it.
  if (const int64_t padded = roundUp(n, kBlock); padded != n && target == home(load.slot)) {
    std::memset(target + n * valueBytes, 0, static_cast<size_t>((padded - n) * valueBytes));
  }
}

void TileRunner::run(int64_t start, int64_t n) {
  const TileProgram& p = invocation_.program();
  // Steps run over whole blocks; loads alone may stop anywhere.
  const bool inPlace = n % kBlock == 0 || p.body.size() == p.loads.size();
  for (size_t i = 0; i < p.stores.size(); ++i) {
    const TileProgram::Store& store = p.stores[i];
    if (!store.inPlace) continue;
    slots_[store.slot] = inPlace && invocation_.storesInPlace(i)
                             ? invocation_.output(i) + start * store.elementBytes
                             : home(store.slot);
  }
  const TileContext context{slots_, roundUp(n, kBlock), static_cast<uint64_t>(start)};
  for (const TileProgram::Instruction& instruction : p.body) {
    if (instruction.load < 0) {
      instruction.step.fn(instruction.step, context);
      continue;
    }
    const TileProgram::Load& l = p.loads[static_cast<size_t>(instruction.load)];
    if (!l.once || first_ || start % p.tile != 0) load(l, start, n, inPlace);
  }
  first_ = false;
  for (size_t i = 0; i < p.stores.size(); ++i) {
    const TileProgram::Store& store = p.stores[i];
    if (store.inPlace && inPlace && invocation_.storesInPlace(i)) continue;
    const std::byte* value = slots_[store.slot];
    store.walk.forRuns(start, n, [&](int64_t element, int64_t stride, int64_t count) {
      store.fn(value, count, invocation_.output(i) + element * store.elementBytes, stride);
      value += count * store.valueBytes;
    });
  }
}

}  // namespace popxl::kernels
