#include <limits>

#include "ops/define.h"

namespace popxl::ops {

namespace {

void inferCast(const Op& op, Types& out) {
  sameType(op, out);
  out.back().dtype = op.attr<DType>("data_type");
}

// --- float8 with a scale that is a power of two

/// 2^exponent in kF32; exact for exponents in [-126, 127], and the nearest of those beyond.
Val powerOfTwo(Val exponent) {
  const Val inside = max(min(exponent, exponent.constant(127)), exponent.constant(-126));
  const Val bits = (inside + 127.0).convert(VType::kU32);
  return kernels::binary(Prim::kShl, bits, bits.constant(23)).bitcast(VType::kF32);
}

/// A kF32 value that rounds to any shorter format as the kF64 value does: rounded to odd.
Val shortened(Val x) {
  const Val nearest = x.convert(VType::kF32);
  const Val back = nearest.convert(VType::kF64), bits = nearest.bitcast(VType::kU32);
  const Val towardsZero = select(abs(back) > abs(x), bits - 1.0, bits);
  const Val odd = kernels::binary(Prim::kOr, towardsZero, bits.constant(1)).bitcast(VType::kF32);
  return select(kernels::binary(Prim::kNe, back, x), odd, nearest);
}

/// The first magnitude that rounds to more than the largest number of a float8 format: it becomes NaN.
double overflowOf(DType format) { return format == DType::kFloat8_143 ? 248.0 : 61440.0; }

void toFloat8Expr(ExprContext& c) {
  Val x = c.in(0);
  x = x * powerOfTwo(c.element(1, 0)).convert(x.type());
  if (x.type() == VType::kF64) x = shortened(x);
  const double limit = overflowOf(c.op.output()->dtype());
  store(c, select(abs(x) >= limit, x.constant(std::numeric_limits<double>::quiet_NaN()), x));
}

void fromFloat8Expr(ExprContext& c) { store(c, c.in(0) * powerOfTwo(c.element(1, 0))); }

OpDef scaledCast(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t"}, {"log2_scale", ir::bit(DType::kInt32), "The power."}};
  def.attrs = {{"data_type", AttrType::kDType, "The dtype of the result."}};
  def.visibility = Visibility::kManual;
  def.log2ScaleOperand = 1;
  return def;
}

void requireResult(const Op& op, ir::DTypes allowed, std::string_view names) {
  const auto dtype = op.attr<DType>("data_type");
  if ((ir::bit(dtype) & allowed) != 0) return;
  fail(ErrorKind::kType, "the result can't be {}: it must be {}", nameOf(dtype), names);
}

void scaledCasts(Defs& defs) {
  OpDef to = scaledCast({"pow2scale_cast_to_fp8", "Pow2ScaleThenCast",
                         "Every element times a power of two, as float8; what is too large becomes NaN."});
  to.operands[0].dtypes = ir::kFloats;
  to.infer = [](const Op& op, Types& out) {
    requireResult(op, ir::kFloat8s, "float8_143 or float8_152");
    requireScalar(op, 1);
    inferCast(op, out);
  };
  to.expr = toFloat8Expr;
  defs.push_back(to);

  OpDef from = scaledCast(
      {"pow2scale_cast_from_fp8", "CastThenPow2Scale", "Every float8 element times a power of two."});
  from.operands[0].dtypes = ir::kFloat8s;
  from.infer = [](const Op& op, Types& out) {
    requireResult(op, ir::kFloats, "float16, float32 or float64");
    requireScalar(op, 1);
    inferCast(op, out);
  };
  from.expr = fromFloat8Expr;
  defs.push_back(from);
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
  scaledCasts(defs);
}

}  // namespace popxl::ops
