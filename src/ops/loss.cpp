#include "kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/define.h"

namespace popxl::ops {

namespace {

using kernels::LossReduction;

LossReduction reductionOf(const Op& op) {
  const auto& text = op.attr<std::string>("reduction");
  if (text == "none") return LossReduction::kNone;
  if (text == "sum") return LossReduction::kSum;
  if (text == "mean") return LossReduction::kMean;
  fail(ErrorKind::kValue, "`reduction` is \"{}\"; it must be \"mean\", \"sum\" or \"none\"", text);
}

void checkLabels(const Op& op) {
  if (op.input(0)->rank() < 1) {
    fail(ErrorKind::kGraph, "{} must have one dimension or more, the classes last", describe(op, 0));
  }
  Shape rows = typeOf(op, 0).shape;
  rows.pop_back();
  if (typeOf(op, 1).shape == rows) return;
  fail(ErrorKind::kGraph, "{} must have shape {}: one label for each row of {}", describe(op, 1),
       toString(rows), describe(op, 0));
}

void inferLoss(const Op& op, Types& out) {
  const LossReduction reduction = reductionOf(op);
  checkLabels(op);
  out.push_back({typeOf(op, 0).dtype, reduction == LossReduction::kNone ? typeOf(op, 1).shape : Shape(), {}});
}

kernels::NllSpec specOf(const Op& op, const Layout& probs, const Layout& labels, const Layout& loss) {
  kernels::NllSpec spec{probs, labels, loss, reductionOf(op), std::nullopt, false};
  if (op.hasAttr("ignore_index")) spec.ignoreIndex = integer(op, "ignore_index");
  if (op.def().attrIndex("log_prob") >= 0) spec.logProb = op.attr<bool>("log_prob");
  return spec;
}

/// y = -dy / p at the label of each row, 0 elsewhere; with `log_prob` y = -dy there. Linear in dy; in p it
/// gives -g y / p for the gradient g of y.
void nllGradRule(GradContext& c) {
  Tensor *probs = c.input(0), *labels = c.input(1), *g = c.outGrad();
  const DType dtype = probs->dtype();
  if (c.wants(2)) {
    const Shape& shape = c.op.input(2)->shape();
    Tensor* unit = c.make("nll_loss_grad", {probs, labels, c.constant(dtype, shape, 1)}, c.op.attrs());
    const bool each = reductionOf(c.op) == LossReduction::kNone;
    c.set(2, c.make("sum", {c.make("mul", {g, unit})}, {intsAttr(each ? Shape{-1} : Shape{}), Attr(false)}));
  }
  if (!c.wants(0) || c.op.attr<bool>("log_prob")) return;
  constexpr double kTiny = 0x1p-24;  // keeps 0 / 0 out where a class other than the label has no probability
  Tensor* ratio = c.make("div", {c.output(), c.make("maximum", {probs, c.constant(dtype, {}, kTiny)})});
  c.set(0, c.make("negate", {c.make("mul", {g, ratio})}));
}

/// What a row of `probs` contributes.
struct LossRow {
  int64_t label;
  bool ignored, valid;
};

LossRow rowOf(const ReferenceContext& c, int64_t row) {
  const int64_t label = c.in[1][row].integer();
  const bool ignored = c.op.hasAttr("ignore_index") && label == integer(c.op, "ignore_index");
  return {label, ignored, label >= 0 && label < c.in[0].shape().back()};
}

/// What a mean divides by: the rows that are not ignored, at least 1.
double rowsThatCount(const ReferenceContext& c) {
  if (reductionOf(c.op) != LossReduction::kMean) return 1;
  int64_t count = 0;
  for (int64_t row = 0; row < c.in[1].size(); ++row) count += rowOf(c, row).ignored ? 0 : 1;
  return static_cast<double>(std::max<int64_t>(count, 1));
}

/// A probability at least the smallest positive normal number of its dtype; NaN stays.
double positive(const Array& probs, int64_t i) {
  const double p = probs[i].real();
  const double smallest = probs.dtype() == DType::kFloat16   ? 0x1p-14
                          : probs.dtype() == DType::kFloat32 ? double{std::numeric_limits<float>::min()}
                                                             : std::numeric_limits<double>::min();
  return p < smallest ? smallest : p;
}

bool isLogProb(const Op& op) { return op.def().attrIndex("log_prob") >= 0 && op.attr<bool>("log_prob"); }

void lossReference(ReferenceContext& c) {
  const Array& probs = c.in[0];
  const bool reduces = reductionOf(c.op) != LossReduction::kNone;
  const double divisor = rowsThatCount(c);
  double sum = 0;
  for (int64_t row = 0; row < c.in[1].size(); ++row) {
    const LossRow r = rowOf(c, row);
    const int64_t at = row * probs.shape().back() + r.label;
    double loss = 0;
    if (!r.ignored)
      loss = !r.valid ? NAN : isLogProb(c.op) ? -probs[at].real() : -std::log(positive(probs, at));
    if (!reduces) c.out[0][row] = loss;
    sum += loss;
  }
  if (reduces) c.out[0][0] = sum / divisor;
}

/// f(first element of a row, its label, scale of its gradient) for rows that count; a label out of range
/// makes its row of `dx` NaN.
template <typename F>
void forLossRows(ReferenceContext& c, Array& dx, const F& f) {
  const Array& dy = c.in[2];
  const double divisor = rowsThatCount(c);
  const int64_t classes = c.in[0].shape().back();
  for (int64_t row = 0; row < c.in[1].size(); ++row) {
    const LossRow r = rowOf(c, row);
    if (r.ignored) continue;
    const double scale = dy[dy.size() == 1 ? 0 : row].real() / divisor;
    if (r.valid) {
      f(row * classes, r.label, scale);
    } else {
      for (int64_t i = 0; i < classes; ++i) dx[row * classes + i] = NAN;
    }
  }
}

void nllGradReference(ReferenceContext& c) {
  forLossRows(c, c.out[0], [&](int64_t first, int64_t label, double scale) {
    const int64_t at = first + label;
    c.out[0][at] = isLogProb(c.op) ? -scale : -scale / positive(c.in[0], at);
  });
}

void nllWithSoftmaxGradReference(ReferenceContext& c) {
  lossReference(c);
  forLossRows(c, c.out[1], [&](int64_t first, int64_t label, double scale) {
    for (int64_t i = 0; i < c.in[0].shape().back(); ++i) {
      c.out[1][first + i] = (c.in[0][first + i].real() - (i == label ? 1 : 0)) * scale;
    }
  });
}

constexpr ir::DTypes kLabels = ir::kNumeric;

void nll(Defs& defs) {
  OpDef def;
  def.name = "nll_loss";
  def.type = "Nll";
  def.doc = "Negative log likelihood of labels under probabilities.";
  def.operands = {{"probs", ir::kFloats, "Probabilities, the classes in the last dimension."},
                  {"labels", kLabels, "The true class of each row."}};
  def.attrs = {{"ignore_index", AttrType::kInt, "Rows with this label do not count.", {}, true},
               {"reduction", AttrType::kString, "\"mean\", \"sum\" or \"none\".", textAttr("mean")},
               {"log_prob", AttrType::kBool, "Whether `probs` are logarithms.", Attr(false)}};
  def.results = {
      {"loss", "A scalar, or with reduction \"none\" a loss for each row; of the dtype of `probs`."}};
  def.infer = inferLoss;
  def.grad = [](GradContext& c) {
    c.set(0, c.make("nll_loss_grad", {c.input(0), c.input(1), c.outGrad()}, c.op.attrs()));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeNll(specOf(c.op, c.inputs[0], c.inputs[1], c.outputs[0]));
  };
  def.reference = lossReference;
  defs.push_back(def);

  OpDef grad;
  grad.name = "nll_loss_grad";
  grad.type = "NllGrad";
  grad.doc = "Gradient of nll_loss with respect to `probs`.";
  grad.operands = {{"probs", ir::kFloats}, {"labels", kLabels}, {"grad", ir::kFloats}};
  grad.attrs = def.attrs;
  grad.infer = sameType;
  grad.visibility = Visibility::kInternal;
  grad.grad = nllGradRule;
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeNllGrad(specOf(c.op, c.inputs[0], c.inputs[1], c.inputs[2]), c.outputs[0]);
  };
  grad.reference = nllGradReference;
  defs.push_back(grad);
}

void nllWithSoftmaxGrad(Defs& defs) {
  OpDef def;
  def.name = "nll_loss_with_softmax_grad";
  def.type = "NlllWithSoftmaxGradDirect";
  def.doc =
      "Negative log likelihood of labels under a softmax, and the gradient with respect to what the softmax "
      "was of.";
  def.operands = {{"probs", ir::kFloats, "Result of the softmax, the classes in the last dimension."},
                  {"labels", kLabels, "The true class of each row."},
                  {"loss_grad", ir::kFloats, "Gradient of the loss."}};
  def.attrs = {{"ignore_index", AttrType::kInt, "Rows with this label do not count.", {}, true},
               {"reduction", AttrType::kString, "\"mean\", \"sum\" or \"none\".", textAttr("mean")}};
  def.results = {{"loss"}, {"dx", "Gradient with respect to the operand of the softmax."}};
  def.infer = [](const Op& op, Types& out) {
    inferLoss(op, out);
    if (typeOf(op, 2).numElements() != 1 && typeOf(op, 2).shape != out.back().shape) {
      fail(ErrorKind::kGraph, "{} must be a scalar or have the shape {} of the loss", describe(op, 2),
           toString(out.back().shape));
    }
    sameType(op, out);
  };
  def.visibility = Visibility::kManual;
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeNllWithSoftmaxGrad(specOf(c.op, c.inputs[0], c.inputs[1], c.outputs[0]), c.inputs[2],
                                           c.outputs[1]);
  };
  def.reference = nllWithSoftmaxGradReference;
  defs.push_back(def);
}

}  // namespace

void loss(Defs& defs) {
  nll(defs);
  nllWithSoftmaxGrad(defs);
}

}  // namespace popxl::ops
