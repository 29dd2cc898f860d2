#include "ops/define.h"

// Elementwise arithmetic of two or more operands.
namespace popxl::ops {

namespace {

Val zero(Val like) { return like.constant(0); }
Val power(Val a, Val b) { return binary(Prim::kPow, a, b); }

void arithmetic(Defs& defs) {
  OpDef inplace;
  inplace.inplaceOperand = 0;
  inplace.inplaceType = "AddLhsInplace";
  addBinary(
      defs, {"add", "Add", "Sum of two tensors with NumPy broadcasting."}, "Add",
      [](Val a, Val b) { return a + b; },  //
      [](Val dy, Val, Val, Val) { return dy; }, [](Val dy, Val, Val, Val) { return dy; }, inplace);
  OpDef sub;
  sub.className = "SubtractOp";
  addBinary(
      defs, {"sub", "Sub", "Difference of two tensors with NumPy broadcasting."}, "Subtract",
      [](Val a, Val b) { return a - b; },  //
      [](Val dy, Val, Val, Val) { return dy; }, [](Val dy, Val, Val, Val) { return -dy; }, sub);
  addBinary(
      defs, {"mul", "Mul", "Product of two tensors with NumPy broadcasting."}, "Mul",
      [](Val a, Val b) { return a * b; },  //
      [](Val dy, Val, Val b, Val) { return dy * b; }, [](Val dy, Val a, Val, Val) { return dy * a; });
  addBinary(
      defs, {"div", "Div", "Quotient of two tensors with NumPy broadcasting; of integers it is truncated."},
      "Div", [](Val a, Val b) { return a / b; },  //
      [](Val dy, Val, Val b, Val) { return dy / b; },
      [](Val dy, Val a, Val b, Val) { return -(dy * a) / (b * b); });
}

void powers(Defs& defs) {
  OpDef pow;
  pow.visibility = Visibility::kManual;
  pow.operands = {{"t", ir::kNumeric, "Base."}, {"e", ir::kNumeric, "Exponent."}};
  // A base of 0 has gradient 0 in both: the limits that matter, where the formulas give 0 * inf.
  addBinary(
      defs, {"pow", "Pow", "One tensor to the power of another with NumPy broadcasting."}, "Pow",
      [](Val a, Val b) { return power(a, b); },
      [](Val dy, Val a, Val b, Val) { return select(eq(b, zero(b)), zero(dy), dy * b * power(a, b - 1.0)); },
      [](Val dy, Val a, Val b, Val out) {
        const Val vanishes = binary(Prim::kAnd, eq(a, zero(a)), b >= 0.0);
        return select(vanishes, zero(dy), dy * out * log(a));
      },
      pow);
  addBinary(
      defs,
      {"fmod", "Fmod",
       "Remainder of a truncated division with NumPy broadcasting; it has the sign of `lhs`."},
      "Fmod", [](Val a, Val b) { return binary(Prim::kMod, a, b); },  //
      [](Val dy, Val, Val, Val) { return dy; },
      [](Val dy, Val a, Val b, Val) { return -(dy * kernels::unary(Prim::kTrunc, a / b)); });
}

/// Folds the operands with f, left to right.
template <typename F>
void foldExpr(ExprContext& c) {
  Val acc = c.in(0);
  for (size_t i = 1; i < c.op.inputs().size(); ++i) acc = F{}(acc, c.in(i));
  store(c, acc);
}

void maximumRule(GradContext& c) {
  for (size_t i = 0; i < c.op.inputs().size(); ++i) {
    if (c.wants(i)) c.set(i, c.make("maximum_arg_grad", {c.outGrad(), c.input(i), c.output()}));
  }
}

void sumRule(GradContext& c) {
  for (size_t i = 0; i < c.op.inputs().size(); ++i) {
    if (c.wants(i)) c.set(i, reduceTo(c, c.outGrad(), *c.op.input(i)));
  }
}

void variadic(Defs& defs) {
  OpDef maximum;
  maximum.name = "maximum";
  maximum.type = "Max";
  maximum.doc = "Largest of the elements of several tensors with NumPy broadcasting.";
  maximum.operands = {{"ts", ir::kNumeric, "One or more tensors.", Arity::kVariadic}};
  maximum.infer = broadcastAll;
  maximum.grad = maximumRule;
  maximum.expr = foldExpr<decltype([](Val a, Val b) { return max(a, b); })>;
  defs.push_back(maximum);

  OpDef grad;
  grad.name = "maximum_arg_grad";
  grad.type = "MaxArgGrad";
  grad.doc =
      "Gradient of maximum with respect to one operand: every operand that equals the result receives it.";
  grad.operands = {{"grad", ir::kFloats}, {"arg", ir::kFloats}, {"out", ir::kFloats}};
  grad.infer = likeOperandOfOneDType<1>;
  grad.visibility = Visibility::kInternal;
  grad.reducesToOutput = true;
  grad.expr = [](ExprContext& c) { store(c, select(eq(c.in(1), c.in(2)), c.in(0), zero(c.in(0)))); };
  defs.push_back(grad);

  OpDef sum;
  sum.name = "add_n";
  sum.type = "Sum";
  sum.doc = "Sum of several tensors with NumPy broadcasting, added up from the first to the last.";
  sum.operands = {{"ts", ir::kNumeric, "One or more tensors.", Arity::kVariadic}};
  sum.infer = broadcastAll;
  sum.grad = sumRule;
  sum.visibility = Visibility::kManual;
  sum.expr = foldExpr<decltype([](Val a, Val b) { return a + b; })>;
  defs.push_back(sum);
}

void scaledAddRule(GradContext& c) {
  const size_t scales[] = {2, 3};
  for (size_t arg = 0; arg < 2; ++arg) {
    if (!c.wants(arg)) continue;
    const bool byTensor = c.op.input(scales[arg]) != nullptr;
    std::vector<Tensor*> operands = {c.outGrad(), byTensor ? c.input(scales[arg]) : nullptr};
    c.set(arg, c.make("scale", operands, {c.op.attrValue(arg == 0 ? "a_value" : "b_value")}));
  }
}

void inferScaledAdd(const Op& op, Types& out) {
  requireSameShape(op, 0, 1);
  for (size_t i : {2, 3}) {
    if (op.input(i) != nullptr) requireScalar(op, i);
  }
  sameType(op, out);
}

/// The operand when it is there, else the attribute, as a number of type `type`.
Val factor(ExprContext& c, size_t operand, std::string_view attr, VType type) {
  if (c.has(operand)) return c.element(operand, 0).convert(type);
  return c.constant(type, c.op.attr<double>(attr));
}

void scaled(Defs& defs) {
  OpDef def;
  def.name = "scaled_add";
  def.type = "ScaledAdd";
  def.doc = "a * X + b * Y for tensors of one shape.";
  def.operands = {{"X", ir::kNumeric},
                  {"Y", ir::kNumeric},
                  {"a", ir::kNumeric, "Scale of X as a tensor.", Arity::kOptional},
                  {"b", ir::kNumeric, "Scale of Y as a tensor.", Arity::kOptional}};
  def.attrs = {{"a_value", AttrType::kFloat, "Scale of X when there is no tensor for it.", Attr(1.0)},
               {"b_value", AttrType::kFloat, "Scale of Y when there is no tensor for it.", Attr(1.0)}};
  def.infer = inferScaledAdd;
  def.grad = scaledAddRule;
  def.visibility = Visibility::kManual;
  def.inplaceOperand = 0;
  def.inplaceType = "ScaledAddLhsInplace";
  def.expr = [](ExprContext& c) {
    const VType type = commonReal(c.in(0), c.in(1));
    const Val x = c.in(0).convert(type) * factor(c, 2, "a_value", type);
    store(c, x + c.in(1).convert(type) * factor(c, 3, "b_value", type));
  };
  defs.push_back(def);

  OpDef scale;
  scale.name = "scale";
  scale.type = "Scale";
  scale.doc = "A tensor times one number.";
  scale.operands = {{"t", ir::kNumeric}, {"f", ir::kNumeric, "The number as a tensor.", Arity::kOptional}};
  scale.attrs = {{"factor", AttrType::kFloat, "The number when there is no tensor for it.", Attr(1.0)}};
  scale.infer = sameType;
  scale.visibility = Visibility::kInternal;
  scale.grad = [](GradContext& c) {
    Tensor* f = c.op.input(1) != nullptr ? c.input(1) : nullptr;
    c.set(0, c.make("scale", {c.outGrad(), f}, c.op.attrs()));
  };
  scale.expr = [](ExprContext& c) {
    const Val x = real(c.in(0));
    store(c, x * factor(c, 1, "factor", x.type()));
  };
  defs.push_back(scale);
}

}  // namespace

void binary(Defs& defs) {
  arithmetic(defs);
  powers(defs);
  variadic(defs);
  scaled(defs);
}

}  // namespace popxl::ops
