// Which value is in which register.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "kernels/jit_x86.h"

namespace popxl::kernels::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)

namespace {
constexpr int32_t kNever = INT32_MAX;
}  // namespace

/// What is needed, in two sections. A store moves up to where its value is known and every operand was
/// loaded, as operands may share memory with results.
void X86Emitter::findSections() {
  const auto count = static_cast<int32_t>(code_.insts.size());
  std::vector<bool> needed(code_.insts.size(), false);
  crossing_.assign(code_.insts.size(), false);
  int32_t lastLoad = -1;
  for (int32_t i = count; i-- > 0;) {
    const auto at = static_cast<size_t>(i);
    needed[at] = needed[at] || hasEffect(inst(i).op);
    if (!needed[at]) continue;
    const bool inLoop = code_.extents[at] == Extent::kPosition;
    if (inLoop && (inst(i).op == Op::kLoad || inst(i).op == Op::kLoadCall)) lastLoad = std::max(lastLoad, i);
    for (const int32_t operand : {inst(i).a, inst(i).b, inst(i).c}) {
      if (operand < 0) continue;
      const auto from = static_cast<size_t>(operand);
      needed[from] = true;
      if (inLoop && code_.extents[from] == Extent::kRow) crossing_[from] = true;
    }
  }
  std::vector<std::pair<int32_t, int32_t>> order;  // (after which instruction, instruction)
  for (int32_t i = 0; i < count; ++i) {
    if (!needed[static_cast<size_t>(i)] || isConstant(i)) continue;
    if (code_.extents[static_cast<size_t>(i)] == Extent::kRow) {
      rowSection_.push_back(i);
    } else {
      order.emplace_back(inst(i).op == Op::kStore ? std::max(inst(i).a, lastLoad) : i, i);
    }
  }
  std::sort(order.begin(), order.end());
  for (const auto& [after, i] : order) loopSection_.push_back(i);
}

void X86Emitter::findNextUses(const std::vector<int32_t>& section) {
  for (State& s : states_) s.next = kNever;
  for (auto p = static_cast<int32_t>(section.size()); p-- > 0;) {
    const Inst& i = inst(section[static_cast<size_t>(p)]);
    auto& next = nextUses_[static_cast<size_t>(section[static_cast<size_t>(p)])];
    const int32_t operands[] = {i.a, i.b, i.c};
    for (size_t k = 0; k < 3; ++k) {
      if (operands[k] >= 0) next[k] = state(operands[k]).next;
    }
    for (const int32_t operand : operands) {
      if (operand >= 0) state(operand).next = p;
    }
  }
}

/// Most values of the loop that live at once.
int32_t X86Emitter::peakOfLoop() const {
  int32_t live = 0, peak = 0;
  for (const int32_t at : loopSection_) {
    const Inst& i = inst(at);
    const int32_t operands[] = {i.a, i.b, i.c};
    if (!hasEffect(i.op) && !isMask(at)) peak = std::max(peak, ++live);
    for (size_t k = 0; k < 3; ++k) {
      const int32_t v = operands[k];
      if (v < 0 || isMask(v) || code_.extents[static_cast<size_t>(v)] != Extent::kPosition) continue;
      const bool again = std::find(operands, operands + k, v) != operands + k;
      if (!again && nextUses_[static_cast<size_t>(at)][k] == kNever) --live;
    }
  }
  return peak;
}

/// Gives registers that the loop does not need to what it reads most often from memory.
void X86Emitter::pinInvariants() {
  if (callsInLoop_) return;
  constexpr int32_t kMargin = 3;  // operands that have to be in a register for one instruction
  const int32_t room = std::popcount(vectors_.usable) - peakOfLoop() - kMargin;
  if (room <= 0) return;
  std::vector<std::pair<int32_t, int32_t>> uses;  // (minus the number, value)
  std::vector<int32_t> count(code_.insts.size(), 0);
  for (const int32_t at : loopSection_) {
    for (const int32_t v : {inst(at).a, inst(at).b, inst(at).c}) {
      if (v >= 0 && !isMask(v) && code_.extents[static_cast<size_t>(v)] != Extent::kPosition)
        ++count[static_cast<size_t>(v)];
    }
  }
  for (size_t v = 0; v < count.size(); ++v) {
    if (count[v] > 0) uses.emplace_back(-count[v], static_cast<int32_t>(v));
  }
  std::sort(uses.begin(), uses.end());
  for (const auto& [number, v] : uses) {
    if (static_cast<int32_t>(pins_.size()) == room) break;
    pins_.push_back(v);
  }
}

int32_t X86Emitter::acquire(RegisterFile& file) {
  if (file.free == 0) {
    int32_t farthest = -1, distance = -1;
    for (uint32_t rest = file.usable & ~file.locked & ~file.pinned; rest != 0; rest &= rest - 1) {
      const int32_t r = std::countr_zero(rest);
      const int32_t next = state(file.holder[static_cast<size_t>(r)]).next;
      if (next > distance) farthest = r, distance = next;
    }
    POPXL_ASSERT(farthest >= 0, "no register left");
    evict(file, farthest);
  }
  const int32_t r = std::countr_zero(file.free);
  file.free &= ~(1u << r);
  file.locked |= 1u << r;
  return r;
}

void X86Emitter::evict(RegisterFile& file, int32_t reg) {
  const int32_t value = file.holder[static_cast<size_t>(reg)];
  if (state(value).home < 0 && !isConstant(value)) saveHome(value);
  state(value).reg = -1;
  file.free |= 1u << reg;
}

void X86Emitter::saveHome(int32_t value) {
  State& s = state(value);
  if (s.home < 0) s.home = reserve(vectorBytes());
  if (isMask(value)) {
    a_.kmovw(frame(s.home), mask(s.reg));
  } else {
    a_.vmovaps(frame(s.home), vec(s.reg));
  }
}

/// Before a call, which keeps no vector register.
void X86Emitter::spillAll() {
  for (RegisterFile* file : {&vectors_, &masks_}) {
    for (uint32_t held = file->usable & ~file->free; held != 0; held &= held - 1) {
      evict(*file, std::countr_zero(held));
    }
  }
}

/// At the end of a section, whose values nobody needs.
void X86Emitter::dropAll() {
  for (RegisterFile* file : {&vectors_, &masks_}) {
    file->free = file->usable;
    file->pinned = file->locked = 0;
  }
  for (State& s : states_) s.reg = -1;
}

void X86Emitter::loadInto(int32_t value, int32_t reg) {
  if (isMask(value)) {
    a_.kmovw(mask(reg), frame(state(value).home));
    return;
  }
  if (!isConstant(value)) {
    a_.vmovaps(vec(reg), frame(state(value).home));
    return;
  }
  const Inst& c = inst(value);
  const uint64_t all = c.wide ? ~uint64_t{0} : uint64_t{0xffffffff};
  if (c.bits == 0) {
    const x86::Vec low = x86::Xmm(static_cast<uint32_t>(reg));
    if (reg < 16) {
      a_.emit(x86::Inst::kIdVxorps, low, low, low);
    } else {
      a_.emit(x86::Inst::kIdVpxord, vec(reg), vec(reg), vec(reg));
    }
  } else if (c.bits == all && !avx512_) {
    a_.emit(x86::Inst::kIdVpcmpeqd, vec(reg), vec(reg), vec(reg));
  } else {
    Mem from = pool(c.bits, c.wide);
    from.setBroadcast(Mem::Broadcast::kNone);
    a_.emit(c.wide ? x86::Inst::kIdVbroadcastsd : x86::Inst::kIdVbroadcastss, vec(reg), from);
  }
}

int32_t X86Emitter::reg(int32_t value) {
  RegisterFile& file = fileOf(value);
  State& s = state(value);
  if (s.reg < 0) {
    const int32_t r = acquire(file);
    loadInto(value, r);
    s.reg = r;
    file.holder[static_cast<size_t>(r)] = value;
  }
  file.locked |= 1u << s.reg;
  return s.reg;
}

int32_t X86Emitter::define(int32_t value) {
  RegisterFile& file = fileOf(value);
  const int32_t r = acquire(file);
  state(value).reg = r;
  file.holder[static_cast<size_t>(r)] = value;
  return r;
}

/// A vector register for this instruction alone. It holds no value: whoever asks gives it back by retire().
int32_t X86Emitter::scratch() {
  const int32_t r = acquire(vectors_);
  scratch_ |= 1u << r;
  return r;
}

/// A register, or the memory that the value is in.
X86Emitter::Source X86Emitter::operand(int32_t value) {
  State& s = state(value);
  if (s.reg < 0 && isConstant(value)) return pool(inst(value).bits, inst(value).wide);
  if (s.reg < 0 && s.home >= 0) return frame(s.home);
  return vec(reg(value));
}

bool X86Emitter::dies(int32_t at, int operand) const {
  return nextUses_[static_cast<size_t>(at)][static_cast<size_t>(operand)] == kNever;
}

/// The instruction's operands are read: registers of those that nobody needs again are free.
void X86Emitter::retire(int32_t at) {
  const Inst& i = inst(at);
  const int32_t operands[] = {i.a, i.b, i.c};
  for (size_t k = 0; k < 3; ++k) {
    if (operands[k] < 0) continue;
    State& s = state(operands[k]);
    s.next = nextUses_[static_cast<size_t>(at)][k];
    RegisterFile& file = fileOf(operands[k]);
    if (s.next != kNever || s.reg < 0 || (file.pinned >> s.reg & 1) != 0) continue;
    file.free |= 1u << s.reg;
    s.reg = -1;
  }
  vectors_.free |= scratch_;
  scratch_ = 0;
}

/// `value` is made in the register of operand `from`, which dies.
void X86Emitter::takeOver(int32_t value, int32_t from) {
  state(value).reg = state(from).reg;
  state(from).reg = -1;
  vectors_.holder[static_cast<size_t>(state(value).reg)] = value;
}

int32_t X86Emitter::reserve(int32_t bytes) {
  const int32_t at = frameBytes_;
  frameBytes_ += bytes;
  return at;
}

}  // namespace popxl::kernels::jit
