#include "kernels/jit_code.h"

#include <algorithm>

namespace popxl::kernels::jit {
namespace {

uint64_t hashOf(const Inst& i) {
  uint64_t h = i.bits;
  const auto mix = [&h](uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15u + (h >> 29); };
  mix(static_cast<uint64_t>(i.op) | static_cast<uint64_t>(i.wide) << 8 | static_cast<uint64_t>(i.imm) << 16);
  mix(static_cast<uint64_t>(i.a) << 32 ^ static_cast<uint32_t>(i.b));
  mix(static_cast<uint64_t>(i.c) << 32 ^ static_cast<uint32_t>(i.slot));
  return h;
}

}  // namespace

bool givesMask(Op op) {
  switch (op) {
    case Op::kCompare:
    case Op::kIntEqual:
    case Op::kIntGreater:
    case Op::kUintGreater:
    case Op::kMaskAnd:
    case Op::kMaskOr:
    case Op::kMaskXor:
    case Op::kMaskNot:
    case Op::kMaskPart:
    case Op::kMaskJoin:
      return true;
    default:
      return false;
  }
}

bool hasEffect(Op op) {
  return op == Op::kStore || op == Op::kPut || op == Op::kInvoke || op == Op::kLoadCall ||
         op == Op::kStoreCall;
}

int32_t Builder::append(const Inst& inst, Extent least) {
  Extent extent = least;
  for (const int32_t operand : {inst.a, inst.b, inst.c}) {
    if (operand >= 0) extent = std::max(extent, this->extent(operand));
  }
  code_.insts.push_back(inst);
  code_.extents.push_back(extent);
  return static_cast<int32_t>(code_.insts.size()) - 1;
}

int32_t Builder::add(const Inst& inst) {
  // A value that was just rounded to half is exact in it.
  if (inst.op == Op::kF32ToHalf) {
    const Inst& from = code_.insts[static_cast<size_t>(inst.a)];
    if (from.op == Op::kHalfToF32) return from.a;
  }
  const uint64_t hash = hashOf(inst);
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (code_.insts[static_cast<size_t>(it->second)] == inst) return it->second;
  }
  Extent least = inst.op == Op::kConst ? Extent::kConstant : Extent::kRow;
  if (inst.op == Op::kLoad) {
    const Access access = code_.slots[static_cast<size_t>(inst.slot)].access;
    if (access == Access::kDense || access == Access::kStrided) least = Extent::kPosition;
  }
  const int32_t value = append(inst, least);
  known_.emplace(hash, value);
  return value;
}

}  // namespace popxl::kernels::jit
