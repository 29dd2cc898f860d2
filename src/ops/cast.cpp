#include "ops/define.h"

namespace popxl::ops {

namespace {

void inferCast(const Op& op, Types& out) {
  sameType(op, out);
  out.back().dtype = op.attr<DType>("data_type");
}

}  // namespace

void cast(Defs& defs) {
  OpDef def;
  def.name = "cast";
  def.type = "Cast";
  def.doc = "Every element converted to another dtype.";
  def.operands = {{"t", ir::kNumeric | ir::kBools | ir::kFloat8s}};
  def.attrs = {{"data_type", AttrType::kDType, "The dtype of the result."}};
  def.infer = inferCast;
  def.visibility = Visibility::kManual;
  def.grad = [](GradContext& c) { c.set(0, c.make("cast", {c.outGrad()}, {c.op.input(0)->dtype()})); };
  def.expr = [](ExprContext& c) {
    const Val x = c.in(0);
    const bool toBool = c.op.output()->dtype() == DType::kBool;
    store(c, toBool ? kernels::binary(Prim::kNe, x, x.constant(0)) : x);
  };
  defs.push_back(def);
}

}  // namespace popxl::ops
