#pragma once

#include <asmjit/x86.h>

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/jit.h"

namespace popxl::kernels::jit {

/// Turns Code into x86-64 instructions. Registers are given out in one pass over the straight-line code; the
/// value whose next use is farthest makes room. Constants and values of the row are memory operands, or stay
/// in registers that the code leaves over.
class X86Emitter {
 public:
  X86Emitter(const Code& code, asmjit::x86::Assembler& assembler);
  /// Emits everything; returns the entry point.
  asmjit::Label run();
  /// The table of `outside` addresses, zeros yet.
  asmjit::Label table() const { return table_; }
  const std::vector<Address>& outside() const { return outside_; }

 private:
  // The frame: bytes above the stack pointer. Spilled values come after the pointers.
  static constexpr int32_t kRows = 0;      // that are left
  static constexpr int32_t kPosition = 8;  // of the row's first element
  static constexpr int32_t kLanes = 16;    // saved masks
  static constexpr int32_t kContext = 32;  // TileContext
  static constexpr int32_t kTable = 64;    // its slots: three operands and a result
  static constexpr int32_t kOperandBuffers = 128;
  static constexpr int32_t kBufferBytes = kBlock * 8;
  static constexpr int32_t kResultBuffer = kOperandBuffers + 3 * kBufferBytes;
  static constexpr int32_t kPointers = kResultBuffer + kBufferBytes;  // of every slot, to this row

  using Source = asmjit::Operand;
  using Mem = asmjit::x86::Mem;
  using Vec = asmjit::x86::Vec;
  using InstId = asmjit::InstId;

  struct State {
    int32_t reg = -1;   // that holds it now
    int32_t home = -1;  // place in the frame
    int32_t next = 0;   // the next instruction of this section that uses it
  };
  struct RegisterFile {
    uint32_t usable = 0, free = 0, locked = 0, pinned = 0;
    std::array<int32_t, 32> holder = {};
  };

  // jit_x86_registers.cpp
  void findSections();
  void findNextUses(const std::vector<int32_t>& section);
  void pinInvariants();
  int32_t peakOfLoop() const;
  RegisterFile& fileOf(int32_t value) { return isMask(value) ? masks_ : vectors_; }
  int32_t acquire(RegisterFile& file);
  void evict(RegisterFile& file, int32_t reg);
  void spillAll();
  void dropAll();
  int32_t reg(int32_t value);
  int32_t define(int32_t value);
  int32_t scratch();
  Source operand(int32_t value);
  bool dies(int32_t at, int operand) const;
  void retire(int32_t at);
  void takeOver(int32_t value, int32_t from);
  void loadInto(int32_t value, int32_t reg);
  void saveHome(int32_t value);
  int32_t reserve(int32_t bytes);

  // jit_x86.cpp
  void emit(int32_t at);
  bool emitMove(int32_t at);
  bool emitMask(int32_t at);
  void emitMaskUnary(int32_t at);
  bool emitConversion(int32_t at);
  bool emitWidening(int32_t at);
  void emitBinary(int32_t at, InstId id, bool commutes);
  void emitUnary(int32_t at, InstId id, int imm = -1);
  void emitFma(int32_t at);
  void emitCompare(int32_t at);
  void emitBlend(int32_t at);
  void emitNarrow(int32_t at);

  // jit_x86_memory.cpp
  void emitLoad(int32_t at);
  void emitUniform(const Slot& slot, int32_t index, int32_t to);
  void emitStore(int32_t at);
  void emitNarrowStore(const Mem& to, int32_t from, int bytes);
  void emitPut(int32_t at);
  void emitInvoke(const Inst& inst);
  void emitMemoryCall(const Inst& inst);
  Mem tableEntry(const Address& address);
  void call(const Address& function);
  asmjit::x86::Gp slotPointer(int32_t slot);
  Mem address(int32_t slot, int part);
  static asmjit::x86::KReg lanes(int part);

  // jit_x86_loop.cpp
  void emitEntry(const asmjit::Label& entry, const asmjit::Label& body);
  void emitSetup();
  void emitColumns();
  void emitRowEnd(const asmjit::Label& row);
  void emitPool();
  void choosePointerRegisters();

  const Inst& inst(int32_t at) const { return code_.insts[static_cast<size_t>(at)]; }
  State& state(int32_t value) { return states_[static_cast<size_t>(value)]; }
  bool isMask(int32_t value) const { return avx512_ && givesMask(inst(value).op); }
  bool isConstant(int32_t value) const { return inst(value).op == Op::kConst; }
  Vec vec(int32_t reg) const;
  Vec half(int32_t reg) const;
  static asmjit::x86::KReg mask(int32_t reg) { return asmjit::x86::KReg(static_cast<uint32_t>(reg)); }
  Mem pool(uint64_t bits, bool wide);
  Mem frame(int32_t offset) const;
  int32_t vectorBytes() const { return avx512_ ? 64 : 32; }

  const Code& code_;
  asmjit::x86::Assembler& a_;
  bool avx512_;
  std::vector<State> states_;
  std::vector<std::array<int32_t, 3>> nextUses_;  // of every instruction's operands, after it
  std::vector<int32_t> rowSection_, loopSection_;
  std::vector<bool> crossing_;  // row values that the loop uses
  RegisterFile vectors_, masks_;
  std::vector<int32_t> pins_;
  std::vector<int32_t> pointerRegisters_;  // of every slot, or -1
  bool callsInLoop_ = false, calls_ = false;
  asmjit::Label pool_, table_;
  std::vector<Address> outside_;
  std::vector<std::pair<uint64_t, bool>> constants_;
  uint32_t scratch_ = 0;  // registers that hold no value, for this instruction
  int32_t frameBytes_ = 0;
};

}  // namespace popxl::kernels::jit
