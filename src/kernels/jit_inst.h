#pragma once

#include <cstdint>

#include "popxl/dtype.h"

namespace popxl::kernels::jit {

enum class Isa : uint8_t { kAvx2, kAvx512 };

/// Positions that one pass through the code computes: the 32-bit lanes of a vector. A 64-bit value is two
/// vectors, its parts.
constexpr int64_t lanesOf(Isa isa) { return isa == Isa::kAvx512 ? 16 : 8; }

/// How the positions of a row read or write an operand.
enum class Access : uint8_t {
  kDense,    ///< side by side
  kUniform,  ///< all the same element; inputs only
  kStrided,  ///< a fixed distance apart, known when the code runs
  kElement,  ///< one element of the whole operand; inputs only
};

/// One use of an operand by the code: a pointer that is handed over when it runs.
struct Slot {
  int32_t operand = 0;
  DType dtype = DType::kFloat32;
  Access access = Access::kDense;
  int64_t element = 0;  ///< kElement
  /// Dense outputs of 32 or 64 bits: written past the caches. Such rows start at a cache line and are whole
  /// vectors long.
  bool streams = false;

  bool operator==(const Slot&) const = default;
};

/// Instructions on vectors; `wide` means lanes of 64 bits instead of 32. Those marked (mask) give a mask, one
/// truth value a lane.
enum class Op : uint8_t {
  kConst,  ///< `bits` in every lane
  kLoad,   ///< part `imm` of `slot` in the operand's compute type (float16: converted, bool: as it is)
  kStore,  ///< a to part `imm` of `slot`; integers of less than 32 bits are cut, float16 comes from kToHalf
  // A call of tile code on one block: operands are put into its buffers and the result is taken from one.
  kPut,        ///< part `imm` of operand buffer `slot`
  kInvoke,     ///< tile code `slot` of Code::calls
  kTake,       ///< part `imm` of the result
  kLoadCall,   ///< the slot's LoadFn into the result buffer
  kStoreCall,  ///< the slot's StoreFn from operand buffer 0
  // Floats.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,  ///< a < b ? a : b, as the machine does it
  kMax,  ///< a > b ? a : b
  kSqrt,
  kRound,    ///< imm: 0 to nearest even, 1 down, 2 up, 3 to zero
  kFma,      ///< a * b + c
  kFnma,     ///< c - a * b
  kCompare,  ///< (mask) imm: a Predicate
  // Integers.
  kIntAdd,
  kIntSub,
  kIntMul,
  kIntMin,
  kIntMax,
  kUintMin,
  kUintMax,
  kIntAbs,
  kIntEqual,     ///< (mask)
  kIntGreater,   ///< (mask) signed
  kUintGreater,  ///< (mask) AVX-512
  kShiftLeft,    ///< by imm
  kShiftRight,   ///< by imm, unsigned
  kShiftRightSigned,
  kShiftLeftBy,  ///< by b; 0 for counts beyond the width
  kShiftRightBy,
  // Bits.
  kAnd,
  kOr,
  kXor,
  kAndNot,  ///< ~a & b
  // Masks: operands and results.
  kMaskAnd,
  kMaskOr,
  kMaskXor,
  kMaskNot,
  kMaskPart,  ///< of 32-bit lanes to that of part `imm`'s 64-bit lanes
  kMaskJoin,  ///< of both parts' 64-bit lanes to that of the 32-bit lanes
  kBlend,     ///< a ? b : c
  // Between widths and types.
  kHigh,      ///< the upper half of a's 32-bit lanes, as the lower half
  kJoin,      ///< the lower halves of a and b
  kF32ToF64,  ///< of the lower half
  kF64ToF32,  ///< into the lower half
  kI32ToF64,  ///< of the lower half
  kI32ToI64,  ///< of the lower half
  kU32ToU64,  ///< of the lower half
  kNarrow64,  ///< the lower 32 bits of the 64-bit lanes of a and b
  kI32ToF32,
  kU32ToF32,   ///< AVX-512
  kF32ToI32,   ///< towards zero; INT_MIN out of range
  kF32ToU32,   ///< AVX-512; UINT_MAX out of range
  kF32ToHalf,  ///< 16-bit lanes in the lower half
  kHalfToF32,
};

/// Of kCompare, as the machine encodes them; quiet.
enum Predicate : uint8_t { kLessThan = 17, kLessEqual = 18, kEqualTo = 0, kNotEqualTo = 4, kUnordered = 3 };

struct Inst {
  Op op;
  bool wide = false;
  uint8_t imm = 0;
  int32_t a = -1, b = -1, c = -1;  ///< values: indices of the instructions that make them
  int32_t slot = -1;
  uint64_t bits = 0;

  bool operator==(const Inst&) const = default;
};

bool givesMask(Op op);
/// Whether the instruction is kept even if nothing uses its value.
bool hasEffect(Op op);

}  // namespace popxl::kernels::jit
