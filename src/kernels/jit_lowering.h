#pragma once

#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "kernels/jit_lower.h"

namespace popxl::kernels::jit {

inline constexpr int32_t kNone = -1;

/// A node of the expression in vectors.
struct Value {
  int32_t part[2] = {kNone, kNone};  // the second of 64-bit types only
  int32_t mask = kNone;              // whether it is not 0, once somebody asked
  bool isTruth = false;              // it is 0 or 1, so that the mask says it all
};

inline bool isWide(VType t) { return sizeOf(t) == 8; }

/// The work of lowerExpr. Functions that return a bool or a value give false or kNone where there is no
/// vector code.
class Lowering {
 public:
  Lowering(Isa isa, const Expr& expr, std::span<const Operand> inputs, std::span<const Operand> outputs)
      : b_(isa, {}), avx512_(isa == Isa::kAvx512), expr_(expr), inputs_(inputs), outputs_(outputs) {}

  Code run() {
    values_.resize(expr_.nodes().size());
    const std::vector<bool> used = usedNodes(expr_);
    addSlots(used);
    for (size_t id = 0; id < used.size(); ++id) {
      if (used[id]) lower(static_cast<int32_t>(id));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) store(i);
    return std::move(b_.code());
  }

 private:
  const Node& node(int32_t id) const { return expr_.nodes()[static_cast<size_t>(id)]; }
  Value& value(int32_t id) { return values_[static_cast<size_t>(id)]; }

  void addSlots(const std::vector<bool>& used);
  void lower(int32_t id);
  void lowerInput(int32_t id);
  void lowerConstant(int32_t id);
  bool lowerFloat(int32_t id);
  int32_t floatPart(const Node& n, bool wide, int32_t x, int32_t y);
  int32_t function(Prim prim, int32_t x);
  void lowerTruth(int32_t id);
  int32_t greater(bool isUnsigned, bool wide, int32_t x, int32_t y);
  int32_t truthPart(const Node& n, VType type, int32_t x, int32_t y);
  bool lowerMaskLogic(int32_t id);
  bool lowerInteger(int32_t id);
  int32_t integerPart(const Node& n, bool wide, int32_t x, int32_t y);
  int32_t integerMinMax(const Node& n, bool wide, int32_t x, int32_t y);
  int32_t integerSign(bool isSigned, bool wide, int32_t x);
  void lowerSelect(int32_t id);
  bool lowerConvert(int32_t id);
  bool convertWidth(int32_t id, VType from, VType to);
  int32_t saturate(int32_t x);
  bool lowerRound(int32_t id);
  void callTile(int32_t id);
  void store(size_t i);

  int parts(VType t) const { return isWide(t) ? 2 : 1; }
  /// The node as numbers; a mask becomes 0 and 1.
  int32_t number(int32_t id, int part = 0);
  int32_t numberOf(int32_t mask) {
    return b_.ternary(Op::kBlend, false, mask, b_.constant(1, false), zero(false));
  }
  /// The node as a mask of 32-bit lanes: whether it is not 0.
  int32_t truth(int32_t id);
  int32_t zero(bool wide) { return b_.constant(0, wide); }
  int32_t ones(bool wide) { return b_.constant(~uint64_t{0}, wide); }
  int32_t f32(float number) { return b_.constant(std::bit_cast<uint32_t>(number), false); }
  int32_t maskNot(int32_t mask, bool wide) { return b_.unary(Op::kMaskNot, wide, mask); }
  int32_t maskPart(int32_t mask, int part) { return b_.unary(Op::kMaskPart, true, mask, part); }
  void setParts(int32_t id, int32_t low, int32_t high = kNone) {
    value(id).part[0] = low;
    value(id).part[1] = high;
  }

  void setTruth(int32_t id, int32_t mask) { value(id) = {.mask = mask, .isTruth = true}; }

  Builder b_;
  bool avx512_;
  const Expr& expr_;
  std::span<const Operand> inputs_, outputs_;
  std::vector<Value> values_;
  std::vector<std::pair<std::pair<int32_t, int64_t>, int32_t>> slotOf_;  // of (input, element)
  int32_t firstOutput_ = 0;
};

}  // namespace popxl::kernels::jit
