#include "kernels/jit_lower.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/jit_lowering.h"

namespace popxl::kernels::jit {
namespace {

bool isPredicate(Prim p) {
  return p == Prim::kLt || p == Prim::kLe || p == Prim::kEq || p == Prim::kNe || p == Prim::kIsNan ||
         p == Prim::kIsInf;
}

}  // namespace

void Lowering::addSlots(const std::vector<bool>& used) {
  std::vector<Slot>& slots = b_.code().slots;
  for (size_t id = 0; id < used.size(); ++id) {
    const Node& n = expr_.nodes()[id];
    if (!used[id] || n.prim != Prim::kInput) continue;
    const Operand& operand = inputs_[static_cast<size_t>(n.index)];
    slotOf_.push_back({{n.index, n.element}, static_cast<int32_t>(slots.size())});
    slots.push_back({.operand = n.index,
                     .dtype = operand.dtype,
                     .access = n.element >= 0 ? Access::kElement : operand.access,
                     .element = std::max<int64_t>(n.element, 0)});
  }
  firstOutput_ = static_cast<int32_t>(slots.size());
  b_.code().outputs = outputs_.size();
  const auto inputs = static_cast<int32_t>(inputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    slots.push_back({.operand = inputs + static_cast<int32_t>(i),
                     .dtype = outputs_[i].dtype,
                     .access = outputs_[i].access,
                     .streams = outputs_[i].streams});
  }
}

int32_t Lowering::number(int32_t id, int part) {
  Value& v = value(id);
  if (v.part[part] == kNone) {
    POPXL_ASSERT(part == 0 && v.mask != kNone, "node {} has no value", id);
    v.part[0] = numberOf(v.mask);
  }
  return v.part[part];
}

int32_t Lowering::truth(int32_t id) {
  Value& v = value(id);
  if (v.mask == kNone) {
    v.mask = maskNot(b_.binary(Op::kIntEqual, false, number(id), zero(false)), false);
  }
  return v.mask;
}

void Lowering::lower(int32_t id) {
  const Node& n = node(id);
  switch (n.prim) {
    case Prim::kInput:
      return lowerInput(id);
    case Prim::kConst:
      return lowerConstant(id);
    case Prim::kSelect:
      return lowerSelect(id);
    case Prim::kBitcast:
      value(id) = value(n.a);
      return;
    case Prim::kConvert:
      if (lowerConvert(id)) return;
      break;
    case Prim::kRoundTo:
      if (lowerRound(id)) return;
      break;
    default:
      if (isPredicate(n.prim)) return lowerTruth(id);
      if (n.prim == Prim::kPhilox) break;
      if (isFloatType(node(n.a).type) ? lowerFloat(id) : lowerInteger(id)) return;
      break;
  }
  callTile(id);
}

void Lowering::lowerInput(int32_t id) {
  const Node& n = node(id);
  const auto found = std::find_if(slotOf_.begin(), slotOf_.end(), [&](const auto& entry) {
    return entry.first == std::pair(n.index, n.element);
  });
  const int32_t slot = found->second;
  const Slot& s = b_.code().slots[static_cast<size_t>(slot)];
  const bool isFloat8 = s.dtype == DType::kFloat8_143 || s.dtype == DType::kFloat8_152;
  const bool far = s.access == Access::kStrided || isFloat8;
  const Extent extent =
      s.access == Access::kDense || s.access == Access::kStrided ? Extent::kPosition : Extent::kRow;
  if (far) b_.addEffect({.op = Op::kLoadCall, .slot = slot}, extent);
  for (int part = 0; part < parts(n.type); ++part) {
    const Inst inst{.op = far ? Op::kTake : Op::kLoad,
                    .wide = isWide(n.type),
                    .imm = static_cast<uint8_t>(part),
                    .slot = far ? kNone : slot};
    value(id).part[part] = far ? b_.addEffect(inst, extent) : b_.add(inst);
  }
  if (s.dtype == DType::kBool && !far) {
    setTruth(id, truth(id));
  }
}

void Lowering::lowerConstant(int32_t id) {
  const Node& n = node(id);
  switch (n.type) {
    case VType::kF32:
      return setParts(id, f32(static_cast<float>(n.number)));
    case VType::kF64: {
      const int32_t both = b_.constant(std::bit_cast<uint64_t>(n.number), true);
      return setParts(id, both, both);
    }
    case VType::kI32:
    case VType::kU32:
      return setParts(id, b_.constant(static_cast<uint64_t>(n.integer), false));
    case VType::kI64:
    case VType::kU64:
      break;
  }
  const int32_t both = b_.constant(static_cast<uint64_t>(n.integer), true);
  setParts(id, both, both);
}

/// Runs the tile code of a primitive on one block.
void Lowering::callTile(int32_t id) {
  const Node& n = node(id);
  const int32_t operands[] = {n.a, n.b, n.c};
  const int32_t typed = n.prim == Prim::kSelect ? n.b : n.a;
  Extent extent = Extent::kRow;
  std::vector<Inst> puts;
  for (int i = 0; i < arity(n.prim); ++i) {
    for (int part = 0; part < parts(node(operands[i]).type); ++part) {
      const int32_t operand = number(operands[i], part);
      extent = std::max(extent, b_.extent(operand));
      puts.push_back({.op = Op::kPut,
                      .wide = isWide(node(operands[i]).type),
                      .imm = static_cast<uint8_t>(part),
                      .a = operand,
                      .slot = i});
    }
  }
  const bool draws = n.prim == Prim::kPhilox;
  std::vector<Call>& calls = b_.code().calls;
  calls.push_back({.prim = n.prim,
                   .type = n.type,
                   .operand = node(typed).type,
                   .dtype = n.dtype,
                   .stream = static_cast<uint32_t>(n.index),
                   .oneSeed = draws && extent != Extent::kPosition});
  if (draws) extent = Extent::kPosition;
  for (const Inst& put : puts) b_.addEffect(put, extent);
  b_.addEffect({.op = Op::kInvoke, .slot = static_cast<int32_t>(calls.size()) - 1}, extent);
  for (int part = 0; part < parts(n.type); ++part) {
    value(id).part[part] =
        b_.addEffect({.op = Op::kTake, .wide = isWide(n.type), .imm = static_cast<uint8_t>(part)}, extent);
  }
}

void Lowering::store(size_t i) {
  const int32_t id = expr_.outputs()[i];
  const DType dtype = outputs_[i].dtype;
  const VType type = node(id).type;
  POPXL_ASSERT(computeType(dtype) == type, "output {} of type {} stored as {}", i, static_cast<int>(type),
               nameOf(dtype));
  const int32_t slot = firstOutput_ + static_cast<int32_t>(i);
  const bool isFloat8 = dtype == DType::kFloat8_143 || dtype == DType::kFloat8_152;
  const bool far = outputs_[i].access != Access::kDense || isFloat8;
  for (int part = 0; part < parts(type); ++part) {
    int32_t x = dtype == DType::kBool && !value(id).isTruth ? numberOf(truth(id)) : number(id, part);
    if (dtype == DType::kFloat16 && !far) x = b_.unary(Op::kF32ToHalf, false, x);
    b_.addEffect({.op = far ? Op::kPut : Op::kStore,
                  .wide = isWide(type),
                  .imm = static_cast<uint8_t>(part),
                  .a = x,
                  .slot = far ? 0 : slot},
                 Extent::kPosition);
  }
  if (far) b_.addEffect({.op = Op::kStoreCall, .slot = slot}, Extent::kPosition);
}

Code lowerExpr(Isa isa, const Expr& expr, std::span<const Operand> inputs, std::span<const Operand> outputs) {
  POPXL_ASSERT(outputs.size() == expr.outputs().size(), "{} outputs for {} results", outputs.size(),
               expr.outputs().size());
  return Lowering(isa, expr, inputs, outputs).run();
}

}  // namespace popxl::kernels::jit
