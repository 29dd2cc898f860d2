#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "analysis/operand_uses.h"
#include "ir/grad_context.h"
#include "kernels/expr.h"

namespace popxl::compile {

using analysis::OperandUse;
using analysis::operandUses;

/// The operand whose values the only result of an elementwise op has, shape and dtype included; -1: none.
int32_t copiedOperand(const ir::Op& op);

/// The same of an op that leaves its operands alone: its result may be the operand.
int32_t passedOperand(const ir::Op& op);

/// Builds the arithmetic of a group of elementwise ops as one expression. Values made inside the group are
/// used directly, rounded to their tensor's dtype as if they had been stored.
class GroupExpr {
 public:
  /// Appends an op; producers in the group come first.
  void add(const ir::Op& op);
  bool has(const ir::Tensor* t) const { return values_.contains(t); }
  /// Makes a tensor of the group an output of the expression.
  void store(const ir::Tensor* t) { expr_.outputs().push_back(values_.at(t).id); }

  kernels::Expr& expr() { return expr_; }
  const std::vector<const ir::Tensor*>& inputs() const {
    return inputs_;
  }  ///< operand slots of the expression
  bool readsElements(size_t slot) const { return elements_[slot]; }
  /// What the outputs stored so far need of each operand slot.
  std::vector<OperandUse> slotUses() const { return analysis::slotUses(expr_, inputs_.size()); }

 private:
  friend class OpContext;
  int32_t slot(const ir::Tensor* t);
  void define(const ir::Op& op, const ir::Tensor* result, kernels::Val value);

  kernels::Expr expr_;
  std::unordered_map<const ir::Tensor*, kernels::Val> values_;
  std::unordered_map<const ir::Tensor*, const ir::Tensor*> roots_;  // in-place results: whose memory they are
  std::unordered_map<const ir::Tensor*, int32_t> slots_;
  std::vector<const ir::Tensor*> inputs_;
  std::vector<bool> elements_;
};

}  // namespace popxl::compile
