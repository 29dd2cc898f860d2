// Instructions between registers.
#include "kernels/jit_x86.h"

#include <optional>
#include <utility>

#include "base/error.h"

namespace popxl::kernels::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)
namespace I = x86::Inst;

namespace {

/// The instructions of an Op on 32-bit and on 64-bit lanes, where one of two operands gives the result.
struct BinaryCode {
  Op op;
  InstId narrow, wide;
  bool commutes;
};
constexpr BinaryCode kBinaryCodes[] = {
    {Op::kAdd, I::kIdVaddps, I::kIdVaddpd, true},
    {Op::kSub, I::kIdVsubps, I::kIdVsubpd, false},
    {Op::kMul, I::kIdVmulps, I::kIdVmulpd, true},
    {Op::kDiv, I::kIdVdivps, I::kIdVdivpd, false},
    {Op::kMin, I::kIdVminps, I::kIdVminpd, false},
    {Op::kMax, I::kIdVmaxps, I::kIdVmaxpd, false},
    {Op::kIntAdd, I::kIdVpaddd, I::kIdVpaddq, true},
    {Op::kIntSub, I::kIdVpsubd, I::kIdVpsubq, false},
    {Op::kIntMul, I::kIdVpmulld, I::kIdVpmullq, true},
    {Op::kIntMin, I::kIdVpminsd, I::kIdVpminsq, true},
    {Op::kIntMax, I::kIdVpmaxsd, I::kIdVpmaxsq, true},
    {Op::kUintMin, I::kIdVpminud, I::kIdVpminuq, true},
    {Op::kUintMax, I::kIdVpmaxud, I::kIdVpmaxuq, true},
    {Op::kShiftLeftBy, I::kIdVpsllvd, I::kIdVpsllvq, false},
    {Op::kShiftRightBy, I::kIdVpsrlvd, I::kIdVpsrlvq, false},
    {Op::kAnd, I::kIdVandps, I::kIdVandpd, true},
    {Op::kOr, I::kIdVorps, I::kIdVorpd, true},
    {Op::kXor, I::kIdVxorps, I::kIdVxorpd, true},
    {Op::kAndNot, I::kIdVandnps, I::kIdVandnpd, false},
};

const BinaryCode* binaryCode(Op op) {
  for (const BinaryCode& code : kBinaryCodes) {
    if (code.op == op) return &code;
  }
  return nullptr;
}

}  // namespace

x86::Vec X86Emitter::vec(int32_t reg) const {
  const auto id = static_cast<uint32_t>(reg);
  return avx512_ ? static_cast<x86::Vec>(x86::Zmm(id)) : static_cast<x86::Vec>(x86::Ymm(id));
}

x86::Vec X86Emitter::half(int32_t reg) const {
  const auto id = static_cast<uint32_t>(reg);
  return avx512_ ? static_cast<x86::Vec>(x86::Ymm(id)) : static_cast<x86::Vec>(x86::Xmm(id));
}

void X86Emitter::emit(int32_t at) {
  vectors_.locked = masks_.locked = 0;
  const Inst& i = inst(at);
  if (const BinaryCode* code = binaryCode(i.op)) {
    emitBinary(at, i.wide ? code->wide : code->narrow, code->commutes);
  } else if (!emitMove(at) && !emitMask(at) && !emitConversion(at)) {
    POPXL_ASSERT(false, "instruction {} has no machine code", static_cast<int>(i.op));
  }
  if (hasEffect(i.op)) return;
  const bool inRow = code_.extents[static_cast<size_t>(at)] == Extent::kRow;
  if (inRow && crossing_[static_cast<size_t>(at)]) saveHome(at);
  if (state(at).next != INT32_MAX) return;
  fileOf(at).free |= 1u << state(at).reg;
  state(at).reg = -1;
}

void X86Emitter::emitBinary(int32_t at, InstId id, bool commutes) {
  int32_t x = inst(at).a, y = inst(at).b;
  if (commutes && state(x).reg < 0 && state(y).reg >= 0) std::swap(x, y);
  const Vec first = vec(reg(x));
  const Source second = operand(y);
  retire(at);
  a_.emit(id, vec(define(at)), first, second);
}

void X86Emitter::emitUnary(int32_t at, InstId id, int imm) {
  const Vec from = vec(reg(inst(at).a));
  retire(at);
  const Vec to = vec(define(at));
  if (imm < 0) {
    a_.emit(id, to, from);
  } else {
    a_.emit(id, to, from, Imm(imm));
  }
}

bool X86Emitter::emitMove(int32_t at) {
  const Inst& i = inst(at);
  const bool wide = i.wide;
  switch (i.op) {
    case Op::kLoad:
      emitLoad(at);
      return true;
    case Op::kStore:
      emitStore(at);
      return true;
    case Op::kPut:
      emitPut(at);
      return true;
    case Op::kInvoke:
      emitInvoke(i);
      return true;
    case Op::kLoadCall:
    case Op::kStoreCall:
      emitMemoryCall(i);
      return true;
    case Op::kTake:
      a_.vmovaps(vec(define(at)), frame(kResultBuffer + i.imm * vectorBytes()));
      return true;
    case Op::kFma:
    case Op::kFnma:
      emitFma(at);
      return true;
    case Op::kSqrt:
      emitUnary(at, wide ? I::kIdVsqrtpd : I::kIdVsqrtps);
      return true;
    case Op::kRound: {
      const InstId id =
          avx512_ ? (wide ? I::kIdVrndscalepd : I::kIdVrndscaleps) : (wide ? I::kIdVroundpd : I::kIdVroundps);
      emitUnary(at, id, i.imm | 8);  // 8: no exception for inexact results
      return true;
    }
    case Op::kIntAbs:
      emitUnary(at, wide ? I::kIdVpabsq : I::kIdVpabsd);
      return true;
    case Op::kShiftLeft:
      emitUnary(at, wide ? I::kIdVpsllq : I::kIdVpslld, i.imm);
      return true;
    case Op::kShiftRight:
      emitUnary(at, wide ? I::kIdVpsrlq : I::kIdVpsrld, i.imm);
      return true;
    case Op::kShiftRightSigned:
      emitUnary(at, wide ? I::kIdVpsraq : I::kIdVpsrad, i.imm);
      return true;
    default:
      return false;
  }
}

/// The result is in the register of one of the operands: of one that dies, else of a copy.
void X86Emitter::emitFma(int32_t at) {
  const Inst& i = inst(at);
  const bool negate = i.op == Op::kFnma;
  const auto id = [&](InstId narrow, InstId wide, InstId negNarrow, InstId negWide) {
    return negate ? (i.wide ? negWide : negNarrow) : (i.wide ? wide : narrow);
  };
  const auto free = [&](int32_t value, int operand) {
    const State& s = state(value);
    return s.reg >= 0 && dies(at, operand) && (vectors_.pinned >> s.reg & 1) == 0;
  };
  int32_t x = i.a, y = i.b;
  const InstId accumulate = id(I::kIdVfmadd231ps, I::kIdVfmadd231pd, I::kIdVfnmadd231ps, I::kIdVfnmadd231pd);
  if (!free(i.c, 2) && (free(x, 0) || free(y, 1))) {
    if (!free(x, 0)) std::swap(x, y);
    const Vec to = vec(reg(x));
    // x * y + c with one of y and c in memory.
    if (state(y).reg < 0 && state(i.c).reg >= 0) {
      const InstId form = id(I::kIdVfmadd132ps, I::kIdVfmadd132pd, I::kIdVfnmadd132ps, I::kIdVfnmadd132pd);
      a_.emit(form, to, vec(reg(i.c)), operand(y));
    } else {
      const InstId form = id(I::kIdVfmadd213ps, I::kIdVfmadd213pd, I::kIdVfnmadd213ps, I::kIdVfnmadd213pd);
      const Vec second = vec(reg(y));
      a_.emit(form, to, second, operand(i.c));
    }
    takeOver(at, x);
    retire(at);
    return;
  }
  if (state(x).reg < 0 && state(y).reg >= 0) std::swap(x, y);
  const Vec first = vec(reg(x));
  if (free(i.c, 2)) {
    const Vec to = vec(reg(i.c));
    a_.emit(accumulate, to, first, operand(y));
    takeOver(at, i.c);
    retire(at);
    return;
  }
  const Source second = operand(y);
  const int32_t copy = acquire(vectors_);
  if (state(i.c).reg >= 0) {
    a_.vmovaps(vec(copy), vec(state(i.c).reg));
  } else {
    loadInto(i.c, copy);
  }
  a_.emit(accumulate, vec(copy), first, second);
  retire(at);
  state(at).reg = copy;
  vectors_.holder[static_cast<size_t>(copy)] = at;
}

bool X86Emitter::emitMask(int32_t at) {
  const Inst& i = inst(at);
  switch (i.op) {
    case Op::kCompare:
    case Op::kIntEqual:
    case Op::kIntGreater:
    case Op::kUintGreater:
      emitCompare(at);
      return true;
    case Op::kBlend:
      emitBlend(at);
      return true;
    case Op::kMaskAnd:
    case Op::kMaskOr:
    case Op::kMaskXor:
    case Op::kMaskJoin:
      break;
    case Op::kMaskNot:
    case Op::kMaskPart: {
      emitMaskUnary(at);
      return true;
    }
    default:
      return false;
  }
  if (!avx512_ && i.op == Op::kMaskJoin) {
    emitNarrow(at);
    return true;
  }
  const int32_t x = reg(i.a), y = reg(i.b);
  retire(at);
  const int32_t to = define(at);
  if (avx512_) {
    const InstId id = i.op == Op::kMaskAnd   ? I::kIdKandw
                      : i.op == Op::kMaskOr  ? I::kIdKorw
                      : i.op == Op::kMaskXor ? I::kIdKxorw
                                             : I::kIdKunpckbw;
    const bool join = i.op == Op::kMaskJoin;  // the upper half comes first
    a_.emit(id, mask(to), mask(join ? y : x), mask(join ? x : y));
  } else {
    const InstId id = i.op == Op::kMaskAnd ? I::kIdVandps : i.op == Op::kMaskOr ? I::kIdVorps : I::kIdVxorps;
    a_.emit(id, vec(to), vec(x), vec(y));
  }
  return true;
}

void X86Emitter::emitMaskUnary(int32_t at) {
  const Inst& i = inst(at);
  const int32_t from = reg(i.a);
  retire(at);
  const int32_t to = define(at);
  if (i.op == Op::kMaskNot) {
    if (avx512_) {
      a_.knotw(mask(to), mask(from));
    } else {
      a_.emit(I::kIdVxorps, vec(to), vec(from), pool(~uint64_t{0}, true));
    }
  } else if (avx512_) {
    if (i.imm == 0) {
      a_.kmovw(mask(to), mask(from));
    } else {
      a_.kshiftrw(mask(to), mask(from), 8);
    }
  } else if (i.imm == 0) {
    a_.emit(I::kIdVpmovsxdq, vec(to), half(from));
  } else {
    a_.emit(I::kIdVextracti128, half(to), vec(from), Imm(1));
    a_.emit(I::kIdVpmovsxdq, vec(to), half(to));
  }
}

void X86Emitter::emitCompare(int32_t at) {
  const Inst& i = inst(at);
  const Vec x = vec(reg(i.a));
  if (avx512_ && i.op == Op::kIntEqual && isConstant(i.b) && inst(i.b).bits == 0) {
    retire(at);
    a_.emit(i.wide ? I::kIdVptestnmq : I::kIdVptestnmd, mask(define(at)), x, x);
    return;
  }
  const Source y = operand(i.b);
  retire(at);
  const int32_t to = define(at);
  if (i.op == Op::kCompare) {
    const InstId id = i.wide ? I::kIdVcmppd : I::kIdVcmpps;
    if (avx512_) {
      a_.emit(id, mask(to), x, y, Imm(i.imm));
    } else {
      a_.emit(id, vec(to), x, y, Imm(i.imm));
    }
  } else if (avx512_) {
    const bool isSigned = i.op != Op::kUintGreater;
    const InstId id =
        isSigned ? (i.wide ? I::kIdVpcmpq : I::kIdVpcmpd) : (i.wide ? I::kIdVpcmpuq : I::kIdVpcmpud);
    a_.emit(id, mask(to), x, y, Imm(i.op == Op::kIntEqual ? 0 : 6));
  } else {
    const InstId id = i.op == Op::kIntEqual ? (i.wide ? I::kIdVpcmpeqq : I::kIdVpcmpeqd)
                                            : (i.wide ? I::kIdVpcmpgtq : I::kIdVpcmpgtd);
    a_.emit(id, vec(to), x, y);
  }
}

void X86Emitter::emitBlend(int32_t at) {
  const Inst& i = inst(at);
  const auto isZero = [&](int32_t v) { return isConstant(v) && inst(v).bits == 0; };
  const int32_t m = reg(i.a);
  if (!avx512_) {
    if (isZero(i.c)) {
      const Source yes = operand(i.b);
      retire(at);
      a_.emit(I::kIdVandps, vec(define(at)), vec(m), yes);
    } else if (isZero(i.b)) {
      const Source no = operand(i.c);
      retire(at);
      a_.emit(I::kIdVandnps, vec(define(at)), vec(m), no);
    } else {
      const Vec no = vec(reg(i.c));
      const Source yes = operand(i.b);
      retire(at);
      a_.emit(i.wide ? I::kIdVblendvpd : I::kIdVblendvps, vec(define(at)), no, yes, vec(m));
    }
    return;
  }
  if (isZero(i.c)) {
    Source yes = operand(i.b);
    InstId id = i.wide ? I::kIdVmovapd : I::kIdVmovaps;
    if (yes.isMem() && yes.as<Mem>().hasBroadcast()) {
      yes.as<Mem>().setBroadcast(Mem::Broadcast::kNone);
      id = i.wide ? I::kIdVbroadcastsd : I::kIdVbroadcastss;
    }
    retire(at);
    const Vec to = vec(define(at));
    a_.k(mask(m)).z();
    a_.emit(id, to, yes);
    return;
  }
  const Vec no = vec(reg(i.c));
  const Source yes = operand(i.b);
  retire(at);
  const Vec to = vec(define(at));
  a_.k(mask(m));
  a_.emit(i.wide ? I::kIdVblendmpd : I::kIdVblendmps, to, no, yes);
}

/// The lower 32 bits of 64-bit lanes of two vectors, in one.
void X86Emitter::emitNarrow(int32_t at) {
  const Inst& i = inst(at);
  const int32_t low = reg(i.a), high = reg(i.b);
  if (!avx512_) {
    retire(at);
    const Vec to = vec(define(at));
    a_.emit(I::kIdVshufps, to, vec(low), vec(high), Imm(0x88));
    a_.emit(I::kIdVpermq, to, to, Imm(0xd8));
    return;
  }
  const int32_t upper = scratch();
  a_.emit(I::kIdVpmovqd, half(upper), vec(high));
  const int32_t lower = scratch();
  a_.emit(I::kIdVpmovqd, half(lower), vec(low));
  retire(at);
  a_.emit(I::kIdVinserti32x8, vec(define(at)), vec(lower), half(upper), Imm(1));
}

/// The wider values of the lower half.
bool X86Emitter::emitWidening(int32_t at) {
  const Inst& i = inst(at);
  const auto id = [&]() -> std::optional<X86Emitter::InstId> {
    switch (i.op) {
      case Op::kF32ToF64:
        return I::kIdVcvtps2pd;
      case Op::kI32ToF64:
        return I::kIdVcvtdq2pd;
      case Op::kI32ToI64:
        return I::kIdVpmovsxdq;
      case Op::kU32ToU64:
        return I::kIdVpmovzxdq;
      case Op::kHalfToF32:
        return I::kIdVcvtph2ps;
      default:
        return std::nullopt;
    }
  }();
  if (!id) return false;
  const Vec from = half(reg(i.a));
  retire(at);
  a_.emit(*id, vec(define(at)), from);
  return true;
}

bool X86Emitter::emitConversion(int32_t at) {
  const Inst& i = inst(at);
  switch (i.op) {
    case Op::kHigh: {
      const Vec from = vec(reg(i.a));
      retire(at);
      a_.emit(avx512_ ? I::kIdVextractf32x8 : I::kIdVextractf128, half(define(at)), from, Imm(1));
      return true;
    }
    case Op::kJoin: {
      const Vec low = vec(reg(i.a)), high = half(reg(i.b));
      retire(at);
      a_.emit(avx512_ ? I::kIdVinsertf32x8 : I::kIdVinsertf128, vec(define(at)), low, high, Imm(1));
      return true;
    }
    case Op::kNarrow64:
      emitNarrow(at);
      return true;
    case Op::kF64ToF32: {
      const Vec from = vec(reg(i.a));
      retire(at);
      a_.emit(I::kIdVcvtpd2ps, half(define(at)), from);
      return true;
    }
    case Op::kF32ToHalf: {
      const Vec from = vec(reg(i.a));
      retire(at);
      a_.emit(I::kIdVcvtps2ph, half(define(at)), from, Imm(0));
      return true;
    }
    case Op::kI32ToF32:
      emitUnary(at, I::kIdVcvtdq2ps);
      return true;
    case Op::kU32ToF32:
      emitUnary(at, I::kIdVcvtudq2ps);
      return true;
    case Op::kF32ToI32:
      emitUnary(at, I::kIdVcvttps2dq);
      return true;
    case Op::kF32ToU32:
      emitUnary(at, I::kIdVcvttps2udq);
      return true;
    default:
      return emitWidening(at);
  }
}

}  // namespace popxl::kernels::jit
