#include "ops/second_order.h"

#include <algorithm>
#include <array>

#include "kernels/expr_derivative.h"
#include "ops/ops.h"

namespace popxl::ops {

namespace {

constexpr std::string_view kSuffix = "_wrt_";

/// Runs an entry's arithmetic in an expression of its own, in which every operand is a leaf.
class Recording final : public ExprContext {
 public:
  explicit Recording(const Op& op) : ExprContext(op) {}

  Val in(size_t i) override { return element(i, -1); }
  Val element(size_t i, int64_t at) override {
    return kernels::input(expr_, static_cast<int32_t>(i), kernels::computeType(op.input(i)->dtype()), at);
  }
  bool has(size_t i) const override { return op.input(i) != nullptr; }
  Val constant(VType type, double number) override { return kernels::constant(expr_, type, number); }
  void out(Val value, size_t) override { result_ = value; }

  /// The derivative with respect to operand k, times operand `seed`.
  Val derivative(ir::ExprFn arithmetic, size_t k, size_t seed) {
    const Val x = in(k), dy = in(seed);  // leaves come before what reads them
    arithmetic(*this);
    return kernels::derivative(result_, x, dy.convert(result_.type()));
  }

 private:
  kernels::Expr expr_;
  Val result_;
};

/// A value of a recording, in the expression of another context.
Val replay(ExprContext& c, Val value) {
  const auto& nodes = value.expr->nodes();
  std::vector<bool> needed(static_cast<size_t>(value.id) + 1, false);
  needed.back() = true;
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int32_t operand : {nodes[i].a, nodes[i].b, nodes[i].c}) {
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
    }
  }
  kernels::Expr& to = *c.constant(value.type(), 0).expr;
  std::vector<int32_t> made(needed.size(), -1);
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    kernels::Node n = nodes[i];
    if (n.prim == Prim::kInput) {
      const auto operand = static_cast<size_t>(n.index);
      made[i] = (n.element < 0 ? c.in(operand) : c.element(operand, n.element)).id;
      continue;
    }
    for (int32_t* operand : {&n.a, &n.b, &n.c}) {
      if (*operand >= 0) *operand = made[static_cast<size_t>(*operand)];
    }
    made[i] = to.add(n);
  }
  return {&to, made.back()};
}

/// The gradient op that an op of this file differentiates.
const OpDef& differentiated(const OpDef& def) {
  return ops::def(def.name.substr(0, def.name.rfind(kSuffix)));
}

template <size_t K>
void derivativeExpr(ExprContext& c) {
  Recording recording(c.op);
  const Val value = recording.derivative(differentiated(c.op.def()).expr, K, c.op.inputs().size() - 1);
  const VType type = kernels::computeType(c.op.output()->dtype());
  store(c, value.id < 0 ? c.constant(type, 0) : replay(c, value));
}

bool isFloatOperand(const ir::OperandDef& operand) { return operand.dtypes == ir::kFloats; }

/// The result is like operand K; all floating-point operands have its dtype.
template <size_t K>
void inferDerivative(const Op& op, Types& out) {
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (isFloatOperand(op.def().operands[i])) requireSameDType(op, K, i);
  }
  likeOperand<K>(op, out);
}

template <size_t K>
OpDef derivativeOf(const OpDef& base) {
  const std::string operand(base.operands[K].name);
  OpDef def;
  def.name = kept(std::string(base.name) + std::string(kSuffix) + operand);
  def.type = kept(std::string(base.type) + "Grad" + std::to_string(K));
  def.doc = kept("Gradient of " + std::string(base.name) + " with respect to `" + operand + "`.");
  def.operands = base.operands;
  def.operands.push_back({"grad2", ir::kFloats});
  def.attrs = base.attrs;
  def.infer = inferDerivative<K>;
  def.visibility = Visibility::kInternal;
  def.derived = true;
  def.reducesToOutput = true;
  def.expr = derivativeExpr<K>;
  return def;
}

constexpr std::array kDerivativeOf = {derivativeOf<0>, derivativeOf<1>, derivativeOf<2>, derivativeOf<3>,
                                      derivativeOf<4>};

/// Operands on which the result does not depend smoothly get nothing.
void secondOrderRule(GradContext& c) {
  std::vector<Tensor*> operands;
  for (size_t i = 0; i < c.op.inputs().size(); ++i) operands.push_back(c.input(i));
  operands.push_back(c.outGrad());
  for (size_t k = 0; k < c.op.inputs().size(); ++k) {
    Recording recording(c.op);
    if (!c.wants(k) || recording.derivative(c.op.def().expr, k, 0).id < 0) continue;
    const std::string name =
        std::string(c.op.def().name) + std::string(kSuffix) + std::string(c.op.def().operands[k].name);
    c.set(k, c.make(name, operands, c.op.attrs()));
  }
}

/// Elementwise ops that other ops' gradients are made of.
bool isGradient(const OpDef& def) {
  return def.expr != nullptr && def.grad == nullptr && !def.stopsGradient && !def.reducesAxes &&
         def.visibility == Visibility::kInternal && def.results.size() == 1 &&
         def.operands.size() <= kDerivativeOf.size() &&
         std::any_of(def.operands.begin(), def.operands.end(), isFloatOperand) &&
         std::all_of(def.operands.begin(), def.operands.end(),
                     [](const ir::OperandDef& operand) { return operand.arity == Arity::kOne; });
}

}  // namespace

void addSecondOrder(Defs& defs) {
  const size_t first = defs.size();
  for (size_t i = 0; i < first; ++i) {
    if (!isGradient(defs[i])) continue;
    defs[i].grad = secondOrderRule;
    const OpDef base = defs[i];  // the list grows
    for (size_t k = 0; k < base.operands.size(); ++k) {
      if (isFloatOperand(base.operands[k])) defs.push_back(kDerivativeOf[k](base));
    }
  }
}

}  // namespace popxl::ops
