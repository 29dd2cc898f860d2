// Operands in memory, and calls of tile code.
#include <bit>

#include "base/error.h"
#include "kernels/jit_x86.h"

namespace popxl::kernels::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)
namespace I = x86::Inst;

namespace {

constexpr auto kIndex = x86::r12;    // of the first position of this pass, along the row
constexpr auto kColumns = x86::r13;  // of the row
constexpr auto kBlockArgument = x86::rbx;
constexpr auto kTemporary = x86::rax;

int bytesOf(DType t) { return static_cast<int>(popxl::sizeOf(t)); }
uint32_t shiftOf(DType t) {
  return static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(bytesOf(t))));
}

/// Instruction that brings dense elements into compute lanes.
InstId loadCode(DType t) {
  switch (t) {
    case DType::kFloat16:
      return I::kIdVcvtph2ps;
    case DType::kInt8:
      return I::kIdVpmovsxbd;
    case DType::kUInt8:
    case DType::kBool:
      return I::kIdVpmovzxbd;
    case DType::kInt16:
      return I::kIdVpmovsxwd;
    case DType::kUInt16:
      return I::kIdVpmovzxwd;
    default:
      return bytesOf(t) == 8 ? I::kIdVmovupd : I::kIdVmovups;
  }
}

}  // namespace

x86::Mem X86Emitter::frame(int32_t offset) const { return x86::ptr(x86::rsp, offset); }

/// A constant in the pool: one lane that the instruction spreads, or a whole vector.
x86::Mem X86Emitter::pool(uint64_t bits, bool wide) {
  size_t index = 0;
  while (index < constants_.size() && constants_[index] != std::pair(bits, wide)) ++index;
  if (index == constants_.size()) constants_.emplace_back(bits, wide);
  const int32_t step = avx512_ ? 8 : 32;
  Mem at = x86::ptr(pool_, static_cast<int32_t>(index) * step);
  if (avx512_) at.setBroadcast(wide ? Mem::Broadcast::k1To8 : Mem::Broadcast::k1To16);
  return at;
}

/// The pointer of a slot for this row.
x86::Gp X86Emitter::slotPointer(int32_t slot) {
  if (const int32_t r = pointerRegisters_[static_cast<size_t>(slot)]; r >= 0)
    return x86::gpq(static_cast<uint32_t>(r));
  a_.mov(kTemporary, x86::qword_ptr(x86::rsp, kPointers + 8 * slot));
  return kTemporary;
}

x86::Mem X86Emitter::address(int32_t slot, int part) {
  const Slot& s = code_.slots[static_cast<size_t>(slot)];
  return x86::ptr(slotPointer(slot), kIndex, shiftOf(s.dtype), part * vectorBytes());
}

/// The lanes of a part that exist.
x86::KReg X86Emitter::lanes(int part) { return part == 0 ? x86::k1 : x86::k2; }

void X86Emitter::emitLoad(int32_t at) {
  const Inst& i = inst(at);
  const Slot& slot = code_.slots[static_cast<size_t>(i.slot)];
  const int32_t to = define(at);
  if (slot.access != Access::kDense) return emitUniform(slot, i.slot, to);
  const Mem from = address(i.slot, i.imm);
  if (avx512_) a_.k(lanes(i.imm)).z();
  a_.emit(loadCode(slot.dtype), vec(to), from);
}

/// One element in every lane.
void X86Emitter::emitUniform(const Slot& slot, int32_t index, int32_t to) {
  const int bytes = bytesOf(slot.dtype);
  a_.mov(kTemporary, x86::qword_ptr(x86::rsp, kPointers + 8 * index));
  const Mem from = x86::ptr(kTemporary);
  const x86::Xmm low(static_cast<uint32_t>(to));
  if (bytes == 8) {
    a_.emit(I::kIdVbroadcastsd, vec(to), from);
  } else if (bytes == 4) {
    a_.emit(I::kIdVbroadcastss, vec(to), from);
  } else if (slot.dtype == DType::kFloat16) {
    a_.emit(I::kIdVpbroadcastw, half(to), from);
    a_.emit(I::kIdVcvtph2ps, vec(to), half(to));
  } else {
    const bool isSigned = slot.dtype == DType::kInt8 || slot.dtype == DType::kInt16;
    Mem element = from;
    element.setSize(static_cast<uint32_t>(bytes));
    a_.emit(isSigned ? I::kIdMovsx : I::kIdMovzx, x86::eax, element);
    if (avx512_) {
      a_.emit(I::kIdVpbroadcastd, vec(to), x86::eax);
    } else {
      a_.vmovd(low, x86::eax);
      a_.emit(I::kIdVpbroadcastd, vec(to), low);
    }
  }
}

void X86Emitter::emitStore(int32_t at) {
  const Inst& i = inst(at);
  const Slot& slot = code_.slots[static_cast<size_t>(i.slot)];
  const int bytes = bytesOf(slot.dtype);
  const int32_t from = reg(i.a);
  const Mem to = address(i.slot, i.imm);
  const bool isHalf = slot.dtype == DType::kFloat16;
  if (bytes < 4 && !isHalf) {
    emitNarrowStore(to, from, bytes);
  } else if (slot.streams) {
    a_.emit(bytes == 8 ? I::kIdVmovntpd : I::kIdVmovntps, to, vec(from));
  } else if (avx512_) {
    a_.k(lanes(i.imm));
    if (isHalf) {
      a_.emit(I::kIdVmovdqu16, to, half(from));
    } else {
      a_.emit(bytes == 8 ? I::kIdVmovupd : I::kIdVmovups, to, vec(from));
    }
  } else {
    a_.emit(I::kIdVmovups, to, isHalf ? half(from) : vec(from));
  }
  retire(at);
}

/// The lower 8 or 16 bits of 32-bit lanes.
void X86Emitter::emitNarrowStore(const Mem& to, int32_t from, int bytes) {
  if (avx512_) {
    a_.k(lanes(0));
    a_.emit(bytes == 1 ? I::kIdVpmovdb : I::kIdVpmovdw, to, vec(from));
    return;
  }
  // Gather the bytes of each half in its low end, then both halves.
  const int32_t packed = scratch(), upper = scratch();
  const x86::Xmm low(static_cast<uint32_t>(packed)), high(static_cast<uint32_t>(upper));
  if (bytes == 1) {
    a_.emit(I::kIdVpand, vec(packed), vec(from), pool(0x000000ff000000ff, true));
    a_.emit(I::kIdVextracti128, high, vec(packed), Imm(1));
    a_.emit(I::kIdVpackusdw, low, low, high);
    a_.emit(I::kIdVpackuswb, low, low, low);
    a_.emit(I::kIdVmovq, to, low);
  } else {
    a_.emit(I::kIdVpand, vec(packed), vec(from), pool(0x0000ffff0000ffff, true));
    a_.emit(I::kIdVextracti128, high, vec(packed), Imm(1));
    a_.emit(I::kIdVpackusdw, low, low, high);
    a_.emit(I::kIdVmovups, to, low);
  }
}

void X86Emitter::emitPut(int32_t at) {
  const Inst& i = inst(at);
  a_.vmovaps(frame(kOperandBuffers + i.slot * kBufferBytes + i.imm * vectorBytes()), vec(reg(i.a)));
  retire(at);
}

/// An address outside the code, which is in the table once the code has its place.
x86::Mem X86Emitter::tableEntry(const Address& address) {
  outside_.push_back(address);
  return x86::qword_ptr(table_, static_cast<int32_t>(sizeof(void*) * (outside_.size() - 1)));
}

/// Calls a function whose arguments are in place. It keeps no vector and no mask register.
void X86Emitter::call(const Address& function) {
  if (avx512_) {
    a_.kmovw(frame(kLanes), x86::k1);
    a_.kmovw(frame(kLanes + 8), x86::k2);
  }
  a_.call(tableEntry(function));
  if (avx512_) {
    a_.kmovw(x86::k1, frame(kLanes));
    a_.kmovw(x86::k2, frame(kLanes + 8));
  }
}

void X86Emitter::emitInvoke(const Inst& i) {
  spillAll();
  if (code_.calls[static_cast<size_t>(i.slot)].drawsBits()) {
    a_.mov(kTemporary, x86::qword_ptr(x86::rsp, kPosition));
    a_.add(kTemporary, kIndex);
    a_.mov(x86::qword_ptr(x86::rsp, kContext + static_cast<int32_t>(offsetof(TileContext, position))),
           kTemporary);
  }
  const auto index = static_cast<uint32_t>(i.slot);
  a_.mov(x86::rdi, tableEntry({Address::Kind::kStep, index}));
  a_.lea(x86::rsi, frame(kContext));
  call({Address::Kind::kStepFunction, index});
}

/// Elements one by one: those a distance apart, and types that no instruction converts.
void X86Emitter::emitMemoryCall(const Inst& i) {
  const Slot& slot = code_.slots[static_cast<size_t>(i.slot)];
  const bool isLoad = i.op == Op::kLoadCall;
  const x86::Gp memory = isLoad ? x86::rdi : x86::rdx, stride = isLoad ? x86::rsi : x86::rcx;
  const x86::Gp count = isLoad ? x86::rdx : x86::rsi, values = isLoad ? x86::rcx : x86::rdi;
  spillAll();
  a_.mov(memory, x86::qword_ptr(x86::rsp, kPointers + 8 * i.slot));
  if (slot.access == Access::kUniform || slot.access == Access::kElement) {
    a_.xor_(stride.r32(), stride.r32());
    a_.mov(count.r32(), Imm(kBlock));
  } else {
    if (slot.access == Access::kDense) {
      a_.mov(stride.r32(), Imm(1));
    } else {
      a_.mov(kTemporary, x86::qword_ptr(kBlockArgument, static_cast<int32_t>(offsetof(Block, strides))));
      a_.mov(stride, x86::qword_ptr(kTemporary, 8 * i.slot));
    }
    a_.mov(kTemporary, stride);
    a_.imul(kTemporary, kIndex);
    if (const uint32_t shift = shiftOf(slot.dtype); shift > 0) a_.shl(kTemporary, shift);
    a_.add(memory, kTemporary);
    a_.mov(kTemporary, kColumns);
    a_.sub(kTemporary, kIndex);
    a_.mov(count.r32(), Imm(lanesOf(code_.isa)));
    a_.cmp(kTemporary, count);
    a_.cmovb(count, kTemporary);
  }
  a_.lea(values, frame(isLoad ? kResultBuffer : kOperandBuffers));
  call({isLoad ? Address::Kind::kLoad : Address::Kind::kStore, static_cast<uint32_t>(i.slot)});
}

}  // namespace popxl::kernels::jit
