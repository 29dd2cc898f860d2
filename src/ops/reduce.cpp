#include <algorithm>

#include "ops/define.h"

// Reductions over axes, and sums over what was broadcast.
namespace popxl::ops {

namespace {

using kernels::Reduction;

void inferReduce(const Op& op, Types& out) {
  const TensorType& t = typeOf(op, 0);
  const auto axes = reductionAxes(op, static_cast<int64_t>(t.shape.size()));
  out.push_back({t.dtype, reducedShape(t.shape, axes, op.attr<bool>("keepdims")), {}});
}

std::vector<ir::AttrDef> reduceAttrs() {
  return {{"axes", AttrType::kInts, "Axes to reduce; negative counts from the last, empty reduces all.",
           intsAttr({})},
          {"keepdims", AttrType::kBool, "Whether reduced axes stay with size 1.", Attr(false)}};
}

/// A reduction of f(x) over axes.
template <typename F>
OpDef reduction(const Names& names, Reduction kind, F) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t", ir::kNumeric}};
  def.attrs = reduceAttrs();
  def.infer = inferReduce;
  def.reduction = kind;
  def.reducesAxes = true;
  def.expr = [](ExprContext& c) { store(c, F{}(c.in(0))); };
  return def;
}

Shape keptShape(const Op& op) {
  const Shape& shape = op.input(0)->shape();
  return reducedShape(shape, reductionAxes(op, static_cast<int64_t>(shape.size())), true);
}

/// Asks for the gradient with the reduced axes kept as 1, and what else the derivative reads.
template <bool kX, bool kY>
void reduceRule(GradContext& c) {
  const Shape kept = keptShape(c.op);
  std::vector<Tensor*> operands = {reshapeTo(c, c.outGrad(), kept)};
  if constexpr (kX) operands.push_back(c.input(0));
  if constexpr (kY) operands.push_back(reshapeTo(c, c.output(), kept));
  c.set(0, c.make(std::string(c.op.def().name) + "_grad", operands, {intsAttr(c.op.input(0)->shape())}));
}

void inferReduceGrad(const Op& op, Types& out) {
  for (size_t i = 1; i < op.inputs().size(); ++i) requireSameDType(op, 0, i);
  shapeOfAttr(op, out);
}

/// The entry `<name>_grad`: an elementwise op over the shape of what was reduced. x and out are given where
/// read.
template <bool kX, bool kY, typename Derivative>
OpDef reduceGrad(const OpDef& base, Derivative) {
  OpDef def;
  def.name = kept(std::string(base.name) + "_grad");
  def.type = kept(std::string(base.type) + "Grad");
  def.doc = kept("Gradient of " + std::string(base.name) +
                 ", from that of its result with the reduced axes kept as 1.");
  def.operands = {{"grad", ir::kFloats}};
  if constexpr (kX) def.operands.push_back({"t", ir::kFloats});
  if constexpr (kY) def.operands.push_back({"out", ir::kFloats});
  def.attrs = {{"shape", AttrType::kInts, "Shape of what was reduced."}};
  def.infer = inferReduceGrad;
  def.visibility = Visibility::kInternal;
  def.expr = [](ExprContext& c) {
    if constexpr (kX && kY) {
      store(c, Derivative{}(c, c.in(0), c.in(1), c.in(2)));
    } else if constexpr (kX || kY) {
      store(c, Derivative{}(c, c.in(0), c.in(1)));
    } else {
      store(c, Derivative{}(c, c.in(0)));
    }
  };
  return def;
}

template <bool kX, bool kY, typename Derivative>
OpDef& add(Defs& defs, const Names& names, Reduction kind, Derivative derivative) {
  OpDef def = reduction(names, kind, [](Val x) { return x; });
  def.grad = reduceRule<kX, kY>;
  defs.push_back(def);
  defs.push_back(reduceGrad<kX, kY>(def, derivative));
  return defs.back();
}

void sums(Defs& defs) {
  OpDef& sumGrad = add<false, false>(defs, {"sum", "ReduceSum", "Sum over axes."}, Reduction::kSum,
                                     [](ExprContext&, Val dy) { return dy; });
  sumGrad.grad = [](GradContext& c) { c.set(0, reduceTo(c, c.outGrad(), *c.op.input(0))); };
  add<false, false>(defs, {"mean", "ReduceMean", "Mean over axes."}, Reduction::kMean,
                    [](ExprContext& c, Val dy) {
                      const int64_t results = std::max<int64_t>(c.op.input(0)->type().numElements(), 1);
                      const int64_t shared = numElements(ints(c.op, "shape")) / results;
                      return dy / static_cast<double>(shared);
                    });
  add<true, false>(defs, {"sumsquare", "ReduceSumSquare", "Sum of squares over axes."}, Reduction::kSumSquare,
                   [](ExprContext&, Val dy, Val x) { return 2.0 * x * dy; });
  add<true, false>(defs, {"l1", "ReduceL1", "Sum of absolute values over axes."}, Reduction::kL1,
                   [](ExprContext&, Val dy, Val x) { return dy * kernels::unary(Prim::kSign, x); });
  add<true, true>(defs, {"l2", "ReduceL2", "Square root of the sum of squares over axes."}, Reduction::kL2,
                  [](ExprContext&, Val dy, Val x, Val y) {
                    return select(eq(y, y.constant(0)), dy.constant(0), dy * x / y);
                  });
  add<false, true>(defs, {"logsum", "ReduceLogSum", "Logarithm of the sum over axes."}, Reduction::kLogSum,
                   [](ExprContext&, Val dy, Val y) { return dy * exp(-y); });
  add<true, true>(defs, {"logsumexp", "ReduceLogSumExp", "Logarithm of the sum of exponentials over axes."},
                  Reduction::kLogSumExp, [](ExprContext&, Val dy, Val x, Val y) { return dy * exp(x - y); });
  defs[defs.size() - 2].operands = {{"t", ir::kFloats}};  // exponentials of integers would not fit
}

void extrema(Defs& defs) {
  const auto mask = [](ExprContext&, Val dy, Val x, Val y) { return select(eq(x, y), dy, dy.constant(0)); };
  add<true, true>(defs, {"max", "ReduceMax", "Largest element over axes."}, Reduction::kMax, mask);
  add<true, true>(defs, {"min", "ReduceMin", "Smallest element over axes."}, Reduction::kMin, mask);
}

/// The product of the other factors: result / x where no factor is 0; with exactly one 0, that one has the
/// product of the rest, and the others have 0.
void productRule(GradContext& c) {
  const Shape kept = keptShape(c.op);
  std::vector<Attr> reduceAll = {intsAttr(reductionAxes(c.op, c.op.input(0)->rank())), Attr(true)};
  Tensor* rest = c.make("prod_of_nonzero", {c.input(0)}, reduceAll);
  Tensor* zeros = c.make("count_of_zeros", {c.input(0)}, reduceAll);
  c.set(0, c.make("prod_grad", {reshapeTo(c, c.outGrad(), kept), c.input(0), rest, zeros},
                  {intsAttr(c.op.input(0)->shape())}));
}

/// With the product P(j) of all factors but j, the gradient is dy P(j) at j. dy receives sum(v P), and x
/// receives what prod_grad_t_grad says, of sums over the factors that are 0 and of those that are not.
void productGradRule(GradContext& c) {
  Tensor *v = c.outGrad(), *x = c.input(1);
  const Attr kept = intsAttr(c.op.input(0)->shape());
  const auto sum = [&](Tensor* t) { return c.make("reduce_to", {t}, {kept}); };
  if (c.wants(0)) {
    Tensor* one = c.constant(x->dtype(), c.op.input(0)->shape(), 1);
    Tensor* others = c.make("prod_grad", {one, x, c.input(2), c.input(3)}, c.op.attrs());
    c.set(0, sum(c.make("mul", {v, others})));
  }
  if (!c.wants(1)) return;
  Tensor *zero = c.constant(x->dtype(), {}, 0), *one = c.constant(x->dtype(), {}, 1);
  Tensor* isZero = c.make("equal", {x, zero});
  Tensor* quotient = c.make("div", {v, c.make("where", {isZero, one, x})});
  Tensor* ofOthers = sum(c.make("where", {isZero, zero, quotient}));
  Tensor* ofZeros = sum(c.make("where", {isZero, v, zero}));
  c.set(1, c.make("prod_grad_t_grad", {c.input(0), x, c.input(2), c.input(3), v, ofOthers, ofZeros}));
}

/// How dy P(j) at all j, weighted by v, changes with x(j): the sum over i of v(i) and the product of all
/// factors but i and j. Of more than one 0 besides j nothing is left, of one only i = that one.
OpDef productGradGrad() {
  OpDef def;
  def.name = "prod_grad_t_grad";
  def.type = "ReduceProdGradGrad";
  def.doc = "Gradient of prod_grad with respect to `t`.";
  def.operands = {{"grad", ir::kFloats},
                  {"t", ir::kFloats},
                  {"rest", ir::kFloats, "Product of the factors that are not 0."},
                  {"zeros", ir::kFloats, "Number of those that are."},
                  {"grad2", ir::kFloats, "Gradient of the result of prod_grad."},
                  {"others", ir::kFloats, "Sum of grad2 / t over factors that are not 0."},
                  {"at_zeros", ir::kFloats, "Sum of grad2 over those that are."}};
  def.infer = likeOperandOfOneDType<1>;
  def.visibility = Visibility::kInternal;
  def.expr = [](ExprContext& c) {
    const Val x = c.in(1), rest = c.in(2), zeros = c.in(3), v = c.in(4), others = c.in(5), atZeros = c.in(6);
    const Val none = x.constant(0), one = x.constant(1), two = x.constant(2);
    const Val ofZero =
        select(eq(zeros, one), rest * others, select(eq(zeros, two), rest * (atZeros - v), none));
    const Val rest1 = rest / x;
    const Val ofOther =
        select(eq(zeros, none), rest1 * (others - v / x), select(eq(zeros, one), rest1 * atZeros, none));
    store(c, c.in(0) * select(eq(x, none), ofZero, ofOther));
  };
  return def;
}

void product(Defs& defs) {
  OpDef def =
      reduction({"prod", "ReduceProd", "Product over axes."}, Reduction::kProd, [](Val x) { return x; });
  def.grad = productRule;
  defs.push_back(def);

  OpDef rest =
      reduction({"prod_of_nonzero", "ReduceProdNonzero", "Product over axes of the elements that are not 0."},
                Reduction::kProd, [](Val x) { return select(eq(x, x.constant(0)), x.constant(1), x); });
  OpDef zeros = reduction({"count_of_zeros", "ReduceCountZeros", "Number of elements over axes that are 0."},
                          Reduction::kSum,
                          [](Val x) { return select(eq(x, x.constant(0)), x.constant(1), x.constant(0)); });
  for (OpDef* helper : {&rest, &zeros}) {
    helper->visibility = Visibility::kInternal;
    helper->stopsGradient = true;  // prod_grad says what depends on t through them too
    defs.push_back(*helper);
  }

  OpDef grad;
  grad.name = "prod_grad";
  grad.type = "ReduceProdGrad";
  grad.doc = "Gradient of prod, from that of its result with the reduced axes kept as 1.";
  grad.operands = {{"grad", ir::kFloats}, {"t", ir::kFloats}, {"rest", ir::kFloats}, {"zeros", ir::kFloats}};
  grad.attrs = {{"shape", AttrType::kInts, "Shape of what was reduced."}};
  grad.infer = inferReduceGrad;
  grad.visibility = Visibility::kInternal;
  grad.grad = productGradRule;
  grad.expr = [](ExprContext& c) {
    const Val dy = c.in(0), x = c.in(1), rest = c.in(2), zeros = c.in(3);
    const Val none = dy.constant(0);
    const Val isZero = eq(x, none);
    const Val single = select(isZero, dy * rest, none);
    store(c, select(eq(zeros, none), dy * rest / x, select(eq(zeros, dy.constant(1)), single, none)));
  };
  defs.push_back(grad);
  defs.push_back(productGradGrad());
}

void reduceToOp(Defs& defs) {
  OpDef def;
  def.name = "reduce_to";
  def.type = "ReduceTo";
  def.doc = "Sum over the axes on which a tensor of the given shape was broadcast.";
  def.operands = {{"t", ir::kNumeric}};
  def.attrs = {{"shape", AttrType::kInts, "Shape of the result; it broadcasts to that of the operand."}};
  def.infer = [](const Op& op, Types& out) {
    Shape joint;
    if (!broadcastShapes(ints(op, "shape"), typeOf(op, 0).shape, joint) || joint != typeOf(op, 0).shape) {
      fail(ErrorKind::kGraph, "shape {} does not broadcast to that of {}", toString(ints(op, "shape")),
           describe(op, 0));
    }
    shapeOfAttr(op, out);
  };
  def.visibility = Visibility::kInternal;
  def.grad = [](GradContext& c) {
    const Shape& shape = c.op.input(0)->shape();
    Tensor* dy = c.outGrad();
    c.set(0, dy->shape() == shape ? dy : c.make("sum_grad", {dy}, {intsAttr(shape)}));
  };
  def.reducesToOutput = true;
  def.expr = [](ExprContext& c) { store(c, c.in(0)); };
  defs.push_back(def);
}

}  // namespace

void reduce(Defs& defs) {
  sums(defs);
  extrema(defs);
  product(defs);
  reduceToOp(defs);
}

}  // namespace popxl::ops
