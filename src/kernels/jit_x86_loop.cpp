// The loops around the straight-line code.
#include <algorithm>

#include "kernels/jit_x86.h"

namespace popxl::kernels::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)

X86Emitter::X86Emitter(const Code& code, x86::Assembler& assembler)
    : code_(code),
      a_(assembler),
      avx512_(code.isa == Isa::kAvx512),
      states_(code.insts.size()),
      nextUses_(code.insts.size()),
      pointerRegisters_(code.slots.size(), -1) {
  vectors_.usable = vectors_.free = avx512_ ? 0xffffffffu : 0xffffu;
  masks_.usable = masks_.free = avx512_ ? 0xf8u : 0;  // k1 and k2 are the lanes that exist
  frameBytes_ = (kPointers + 8 * static_cast<int32_t>(code.slots.size()) + 63) / 64 * 64;
}

Label X86Emitter::run() {
  const Label entry = a_.newLabel(), body = a_.newLabel(), row = a_.newLabel();
  pool_ = a_.newLabel();
  table_ = a_.newLabel();
  findSections();
  const auto isCall = [&](int32_t at) {
    return inst(at).op == Op::kInvoke || inst(at).op == Op::kLoadCall || inst(at).op == Op::kStoreCall;
  };
  callsInLoop_ = std::any_of(loopSection_.begin(), loopSection_.end(), isCall);
  calls_ = callsInLoop_ || std::any_of(rowSection_.begin(), rowSection_.end(), isCall);
  choosePointerRegisters();
  findNextUses(loopSection_);
  pinInvariants();

  a_.bind(body);
  emitSetup();
  a_.bind(row);
  findNextUses(rowSection_);
  for (const int32_t at : rowSection_) emit(at);
  dropAll();
  for (size_t slot = 0; slot < code_.slots.size(); ++slot) {
    if (pointerRegisters_[slot] < 0) continue;
    a_.mov(x86::gpq(static_cast<uint32_t>(pointerRegisters_[slot])),
           x86::qword_ptr(x86::rsp, kPointers + 8 * static_cast<int32_t>(slot)));
  }
  emitColumns();
  emitRowEnd(row);
  emitEntry(entry, body);
  emitPool();
  return entry;
}

/// Emitted last, when the size of the frame is known.
void X86Emitter::emitEntry(const Label& entry, const Label& body) {
  a_.align(AlignMode::kCode, 16);
  a_.bind(entry);
  a_.push(x86::rbp);
  a_.mov(x86::rbp, x86::rsp);
  for (const x86::Gp& saved : {x86::rbx, x86::r12, x86::r13, x86::r14, x86::r15}) a_.push(saved);
  a_.sub(x86::rsp, Imm(frameBytes_));
  a_.and_(x86::rsp, Imm(-64));
  a_.mov(x86::rbx, x86::rdi);
  a_.jmp(body);
}

/// Copies what changes from row to row into the frame, and prepares what calls need.
void X86Emitter::emitSetup() {
  const auto argument = [](size_t offset) { return x86::qword_ptr(x86::rbx, static_cast<int32_t>(offset)); };
  a_.mov(x86::rax, argument(offsetof(Block, pointers)));
  for (size_t slot = 0; slot < code_.slots.size(); ++slot) {
    const auto offset = 8 * static_cast<int32_t>(slot);
    const Slot& s = code_.slots[slot];
    a_.mov(x86::rcx, x86::qword_ptr(x86::rax, offset));
    if (s.element != 0) a_.add(x86::rcx, Imm(s.element * popxl::sizeOf(s.dtype)));
    a_.mov(x86::qword_ptr(x86::rsp, kPointers + offset), x86::rcx);
  }
  a_.mov(x86::rax, argument(offsetof(Block, rows)));
  a_.mov(x86::qword_ptr(x86::rsp, kRows), x86::rax);
  a_.mov(x86::rax, argument(offsetof(Block, position)));
  a_.mov(x86::qword_ptr(x86::rsp, kPosition), x86::rax);
  a_.mov(x86::r13, argument(offsetof(Block, columns)));
  if (!calls_) return;
  for (int32_t buffer = 0; buffer < 4; ++buffer) {
    a_.lea(x86::rax, frame(kOperandBuffers + buffer * kBufferBytes));
    a_.mov(x86::qword_ptr(x86::rsp, kTable + 8 * buffer), x86::rax);
  }
  a_.lea(x86::rax, frame(kTable));
  a_.mov(x86::qword_ptr(x86::rsp, kContext + static_cast<int32_t>(offsetof(TileContext, slots))), x86::rax);
  a_.mov(x86::qword_ptr(x86::rsp, kContext + static_cast<int32_t>(offsetof(TileContext, n))), Imm(kBlock));
}

/// Dense operands of the loop keep their pointers in registers as long as there are some.
void X86Emitter::choosePointerRegisters() {
  std::vector<uint32_t> free = {x86::Gp::kIdR14, x86::Gp::kIdR15};
  if (!calls_) {
    free.insert(free.end(), {x86::Gp::kIdCx, x86::Gp::kIdDx, x86::Gp::kIdSi, x86::Gp::kIdDi, x86::Gp::kIdR8,
                             x86::Gp::kIdR9, x86::Gp::kIdR10, x86::Gp::kIdR11});
  }
  size_t next = 0;
  for (size_t slot = 0; slot < code_.slots.size() && next < free.size(); ++slot) {
    if (code_.slots[slot].access == Access::kDense)
      pointerRegisters_[slot] = static_cast<int32_t>(free[next++]);
  }
}

void X86Emitter::emitColumns() {
  const auto lanes = static_cast<int32_t>(lanesOf(code_.isa));
  const Label loop = a_.newLabel(), body = a_.newLabel(), tail = a_.newLabel(), end = a_.newLabel();
  for (const int32_t value : pins_) {
    const int32_t r = reg(value);
    vectors_.pinned |= 1u << r;
  }
  a_.xor_(x86::r12d, x86::r12d);
  if (avx512_) {
    a_.kxnorw(x86::k1, x86::k1, x86::k1);
    a_.kxnorw(x86::k2, x86::k2, x86::k2);
  }
  a_.bind(loop);
  if (avx512_) {
    a_.lea(x86::rax, x86::ptr(x86::r12, lanes));
    a_.cmp(x86::rax, x86::r13);
    a_.ja(tail);
  }
  a_.bind(body);
  findNextUses(loopSection_);
  for (const int32_t at : loopSection_) emit(at);
  a_.add(x86::r12, Imm(lanes));
  a_.cmp(x86::r12, x86::r13);
  a_.jb(loop);
  dropAll();
  a_.jmp(end);
  if (avx512_) {
    // The last lanes, fewer than a vector has.
    a_.bind(tail);
    a_.mov(x86::eax, x86::r13d);
    a_.sub(x86::eax, x86::r12d);
    Mem ones = pool(~uint64_t{0}, true);
    ones.setBroadcast(Mem::Broadcast::kNone);
    ones.setSize(4);
    a_.bzhi(x86::eax, ones, x86::eax);
    a_.kmovw(x86::k1, x86::eax);
    a_.kshiftrw(x86::k2, x86::k1, 8);
    a_.jmp(body);
  }
  a_.bind(end);
}

void X86Emitter::emitRowEnd(const Label& row) {
  const Label exit = a_.newLabel();
  a_.dec(x86::qword_ptr(x86::rsp, kRows));
  a_.jz(exit);
  a_.mov(x86::rax, x86::qword_ptr(x86::rbx, static_cast<int32_t>(offsetof(Block, rowPositions))));
  a_.add(x86::qword_ptr(x86::rsp, kPosition), x86::rax);
  a_.mov(x86::rax, x86::qword_ptr(x86::rbx, static_cast<int32_t>(offsetof(Block, rowStrides))));
  for (size_t slot = 0; slot < code_.slots.size(); ++slot) {
    if (code_.slots[slot].access == Access::kElement) continue;
    const auto offset = 8 * static_cast<int32_t>(slot);
    a_.mov(x86::rcx, x86::qword_ptr(x86::rax, offset));
    a_.add(x86::qword_ptr(x86::rsp, kPointers + offset), x86::rcx);
  }
  a_.jmp(row);
  a_.bind(exit);
  if (std::any_of(code_.slots.begin(), code_.slots.end(), [](const Slot& s) { return s.streams; }))
    a_.sfence();  // before others are told
  a_.lea(x86::rsp, x86::ptr(x86::rbp, -40));
  for (const x86::Gp& saved : {x86::r15, x86::r14, x86::r13, x86::r12, x86::rbx, x86::rbp}) a_.pop(saved);
  a_.vzeroupper();
  a_.ret();
}

void X86Emitter::emitPool() {
  a_.align(AlignMode::kData, 64);
  a_.bind(pool_);
  for (const auto& [bits, wide] : constants_) {
    const uint64_t lane = wide ? bits : bits << 32 | bits;
    for (int copies = avx512_ ? 1 : 4; copies > 0; --copies) a_.embed(&lane, sizeof(lane));
  }
  a_.bind(table_);
  for (size_t i = 0; i < outside_.size(); ++i) a_.embedUInt64(0);
}

}  // namespace popxl::kernels::jit
