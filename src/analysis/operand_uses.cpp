#include "analysis/operand_uses.h"

#include <algorithm>
#include <unordered_map>

#include "ir/grad_context.h"

namespace popxl::analysis {
namespace {

using kernels::Val;

/// Builds the expression of one op with operand i in slot i.
class OperandSlots final : public ir::ExprContext {
 public:
  explicit OperandSlots(const ir::Op& op) : ExprContext(op) {}
  Val in(size_t i) override { return input(i, -1); }
  Val element(size_t i, int64_t element) override { return input(i, element); }
  bool has(size_t i) const override { return op.input(i) != nullptr; }
  Val constant(kernels::VType type, double number) override { return kernels::constant(expr, type, number); }
  void out(Val value, size_t i) override {
    expr.outputs().resize(std::max(expr.outputs().size(), i + 1));
    expr.outputs()[i] = value.id;
  }

  kernels::Expr expr;

 private:
  Val input(size_t i, int64_t element) {
    return kernels::input(expr, static_cast<int32_t>(i), kernels::computeType(op.input(i)->dtype()), element);
  }
};

class ReadOperands {
 public:
  bool operator()(const ir::Op& op, size_t i) {
    if (op.modifies(i)) return true;
    const ir::Structure structure = op.def().structure;
    const bool loads = structure == ir::Structure::kHostLoad || structure == ir::Structure::kRemoteLoad;
    if (loads && i == 0) return false;  // the operand only gives the shape
    if (op.def().expr == nullptr || !computes(op)) return true;
    auto it = uses_.find(&op);
    if (it == uses_.end()) it = uses_.emplace(&op, operandUses(op)).first;
    return it->second[i].value || it->second[i].element;
  }

 private:
  /// Whether there is arithmetic for the op's dtypes; there is none for complex numbers.
  static bool computes(const ir::Op& op) {
    const auto complex = [](const ir::Tensor* t) { return t != nullptr && isComplex(t->dtype()); };
    return std::none_of(op.inputs().begin(), op.inputs().end(), complex) &&
           std::none_of(op.outputs().begin(), op.outputs().end(), complex);
  }

  std::unordered_map<const ir::Op*, std::vector<OperandUse>> uses_;
};

}  // namespace

std::vector<OperandUse> slotUses(const kernels::Expr& expr, size_t slots) {
  const auto& nodes = expr.nodes();
  std::vector<bool> needed(nodes.size(), false);
  for (const int32_t id : expr.outputs()) needed[static_cast<size_t>(id)] = true;
  std::vector<OperandUse> uses(slots);
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int32_t operand : {nodes[i].a, nodes[i].b, nodes[i].c}) {
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
    }
    if (nodes[i].prim != kernels::Prim::kInput) continue;
    OperandUse& use = uses[static_cast<size_t>(nodes[i].index)];
    (nodes[i].element >= 0 ? use.element : use.value) = true;
  }
  return uses;
}

kernels::Expr operandExpr(const ir::Op& op) {
  OperandSlots slots(op);
  op.def().expr(slots);
  return std::move(slots.expr);
}

std::vector<OperandUse> operandUses(const ir::Op& op) {
  std::vector<OperandUse> uses = slotUses(operandExpr(op), op.inputs().size());
  for (size_t i = 0; i < uses.size(); ++i) {  // a tensor that is several operands is one
    for (size_t j = 0; j < uses.size(); ++j) {
      if (op.input(i) != op.input(j)) continue;
      uses[i].value = uses[i].value || uses[j].value;
      uses[i].element = uses[i].element || uses[j].element;
    }
  }
  return uses;
}

Liveness::Reads readOperands() {
  auto reads = std::make_shared<ReadOperands>();
  return [reads](const ir::Op& op, size_t i) { return (*reads)(op, i); };
}

}  // namespace popxl::analysis
