#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernels/jit_inst.h"
#include "kernels/tile_ops.h"

namespace popxl::kernels::jit {

/// Where a value is the same.
enum class Extent : uint8_t { kConstant, kRow, kPosition };

/// A primitive that calls tile code on one block, and what its code is found by.
struct Call {
  Prim prim;
  VType type, operand;  ///< of the result and, as tileFn wants it, of an operand
  DType dtype;          ///< kRoundTo
  uint32_t stream;      ///< kPhilox
  bool oneSeed;         ///< kPhilox: its operands are the same everywhere

  bool drawsBits() const { return prim == Prim::kPhilox; }
};

/// Straight-line code for one row of positions: what is the same along it first, the rest once a vector.
struct Code {
  Isa isa;
  std::vector<Slot> slots;  ///< inputs, then outputs
  size_t outputs = 0;
  std::vector<Inst> insts;  ///< in dependence order; effects in this order
  std::vector<Extent> extents;
  std::vector<Call> calls;
};

/// Appends instructions, sharing equal ones.
class Builder {
 public:
  Builder(Isa isa, std::vector<Slot> slots) : code_{isa, std::move(slots), 0, {}, {}, {}} {}

  int32_t add(const Inst& inst);
  int32_t constant(uint64_t bits, bool wide) {
    return add({.op = Op::kConst, .wide = wide, .bits = wide ? bits : bits & 0xffffffffu});
  }
  int32_t unary(Op op, bool wide, int32_t a, int imm = 0) {
    return add({.op = op, .wide = wide, .imm = static_cast<uint8_t>(imm), .a = a});
  }
  int32_t binary(Op op, bool wide, int32_t a, int32_t b, int imm = 0) {
    return add({.op = op, .wide = wide, .imm = static_cast<uint8_t>(imm), .a = a, .b = b});
  }
  int32_t ternary(Op op, bool wide, int32_t a, int32_t b, int32_t c) {
    return add({.op = op, .wide = wide, .a = a, .b = b, .c = c});
  }
  Extent extent(int32_t value) const { return code_.extents[static_cast<size_t>(value)]; }
  /// An instruction that is like no other: with an effect, or after one; it runs for `extent` at least.
  int32_t addEffect(const Inst& inst, Extent least) { return append(inst, least); }
  Isa isa() const { return code_.isa; }
  Code& code() { return code_; }

 private:
  int32_t append(const Inst& inst, Extent least);

  Code code_;
  std::unordered_multimap<uint64_t, int32_t> known_;
};

}  // namespace popxl::kernels::jit
