#pragma once

#include <memory>
#include <vector>

#include "analysis/live.h"
#include "ir/op.h"
#include "kernels/expr.h"

namespace popxl::analysis {

/// How an expression uses an operand.
struct OperandUse {
  bool value = false;    ///< at every position
  bool element = false;  ///< single elements, the same for all positions
};

/// What the outputs of an expression need of each of its operand slots.
std::vector<OperandUse> slotUses(const kernels::Expr& expr, size_t slots);

/// The arithmetic of an elementwise op by itself: operand i in slot i, result i as output i.
kernels::Expr operandExpr(const ir::Op& op);

/// Which operands of an elementwise op its arithmetic uses.
std::vector<OperandUse> operandUses(const ir::Op& op);

/// Operands whose value an op's kernel looks at; works every op out once.
Liveness::Reads readOperands();

}  // namespace popxl::analysis
