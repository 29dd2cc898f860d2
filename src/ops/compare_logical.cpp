#include "ops/define.h"

// Comparisons, logic on booleans and selection.
namespace popxl::ops {

namespace {

template <typename F>
OpDef comparison(const Names& names, std::vector<ir::OperandDef> operands, F) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = std::move(operands);
  def.infer = broadcastToBool;
  def.stopsGradient = true;
  def.expr = [](ExprContext& c) {
    if (c.op.inputs().size() == 1) {
      store(c, F{}(c.in(0), c.in(0)));
    } else {
      store(c, F{}(c.in(0), c.in(1)));
    }
  };
  return def;
}

void inferWhere(const Op& op, Types& out) {
  requireSameDType(op, 1, 2);
  Shape arms, all;
  if (!broadcastShapes(typeOf(op, 1).shape, typeOf(op, 2).shape, arms)) {
    fail(ErrorKind::kGraph,
         "{} and {} do not broadcast: dimensions, counted from the last, must be equal or 1", describe(op, 1),
         describe(op, 2));
  }
  if (!broadcastShapes(typeOf(op, 0).shape, arms, all)) {
    fail(ErrorKind::kGraph, "{} does not broadcast with the shape {} of the two choices", describe(op, 0),
         toString(arms));
  }
  out.push_back({typeOf(op, 1).dtype, all, {}});
}

void whereRule(GradContext& c) {
  if (c.wants(1))
    c.set(1, c.make("where_lhs_grad", {c.outGrad(), c.input(0)}, {intsAttr(c.op.input(1)->shape())}));
  if (c.wants(2))
    c.set(2, c.make("where_rhs_grad", {c.outGrad(), c.input(0)}, {intsAttr(c.op.input(2)->shape())}));
}

OpDef whereGrad(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"grad", ir::kFloats}, {"condition", ir::kBools}};
  def.attrs = {{"shape", AttrType::kInts, "Shape of the operand."}};
  def.infer = shapeOfAttr;
  def.visibility = Visibility::kInternal;
  def.reducesToOutput = true;
  return def;
}

void where(Defs& defs) {
  OpDef def;
  def.name = "where";
  def.type = "Where";
  def.doc = "Elements of `lhs` where the condition is true and of `rhs` elsewhere, with NumPy broadcasting.";
  def.operands = {{"condition", ir::kBools}, {"lhs", ir::kAny}, {"rhs", ir::kAny}};
  def.infer = inferWhere;
  def.grad = whereRule;
  def.visibility = Visibility::kManual;
  def.expr = [](ExprContext& c) { store(c, select(c.in(0), c.in(1), c.in(2))); };
  defs.push_back(def);

  OpDef lhs = whereGrad({"where_lhs_grad", "WhereXGrad", "Gradient of where with respect to `lhs`."});
  lhs.expr = [](ExprContext& c) { store(c, select(c.in(1), c.in(0), c.in(0).constant(0))); };
  defs.push_back(lhs);
  OpDef rhs = whereGrad({"where_rhs_grad", "WhereYGrad", "Gradient of where with respect to `rhs`."});
  rhs.expr = [](ExprContext& c) { store(c, select(c.in(1), c.in(0).constant(0), c.in(0))); };
  defs.push_back(rhs);
}

}  // namespace

void compareLogical(Defs& defs) {
  constexpr ir::DTypes kComparable = ir::kNumeric | ir::kBools;
  defs.push_back(comparison({"equal", "Equal", "Whether two elements are equal, with NumPy broadcasting."},
                            {{"lhs", kComparable}, {"rhs", kComparable}},
                            [](Val a, Val b) { return eq(a, b); }));
  defs.push_back(
      comparison({"greater", "Greater", "Whether `input` is greater than `other`, with NumPy broadcasting."},
                 {{"input", kComparable}, {"other", kComparable}}, [](Val a, Val b) { return a > b; }));

  const std::vector<ir::OperandDef> two = {{"lhs", ir::kBools}, {"rhs", ir::kBools}};
  OpDef both = comparison({"logical_and", "And", "Whether both elements are true, with NumPy broadcasting."},
                          two, [](Val a, Val b) { return kernels::binary(Prim::kAnd, a, b); });
  OpDef either =
      comparison({"logical_or", "Or", "Whether one or both elements are true, with NumPy broadcasting."}, two,
                 [](Val a, Val b) { return kernels::binary(Prim::kOr, a, b); });
  OpDef neither = comparison({"logical_not", "Not", "Whether the element is false."}, {{"t", ir::kBools}},
                             [](Val a, Val) { return eq(a, a.constant(0)); });
  for (OpDef* def : {&both, &either, &neither}) {
    def->visibility = Visibility::kManual;  // Python casts operands of other dtypes to bool
    defs.push_back(*def);
  }
  where(defs);
}

}  // namespace popxl::ops
