#include "kernels/norm.h"

#include <cmath>

#include "ops/define.h"
#include "ops/window.h"

namespace popxl::ops {

namespace {

/// Error(kGraph) unless the operand has one value for each channel of operand 0.
void requirePerChannel(const Op& op, size_t operand) {
  const Shape wanted = {typeOf(op, 0).shape[1]};
  if (typeOf(op, operand).shape == wanted) return;
  fail(ErrorKind::kGraph, "{} must have shape {}, one value for each channel of {}", describe(op, operand),
       toString(wanted), describe(op, 0));
}

void requireChannels(const Op& op) {
  if (op.input(0)->rank() >= 2) return;
  fail(ErrorKind::kGraph, "{} must have two dimensions or more: samples, channels, ...", describe(op, 0));
}

void inferGroupNorm(const Op& op, Types& out) {
  requireChannels(op);
  const TensorType& t = typeOf(op, 0);
  const int64_t groups = integer(op, "num_groups");
  if (groups < 1 || t.shape[1] % groups != 0) {
    fail(ErrorKind::kGraph, "`num_groups` is {}; it must divide the {} channels of {}", groups, t.shape[1],
         describe(op, 0));
  }
  requirePerChannel(op, 1);
  requirePerChannel(op, 2);
  requireSameDType(op, 1, 2);
  out.push_back(t);
  out.push_back({t.dtype, {t.shape[0] * groups}, {}});
  out.push_back({t.dtype, {t.shape[0] * groups}, {}});
}

kernels::GroupNormSpec groupNormSpec(const Op& op, const Layout& x, const Layout& weight,
                                     const Layout& mean) {
  return {x, weight, mean, integer(op, "num_groups"), op.attr<double>("eps")};
}

/// f(group, its elements, the channel of an element) for every group of samples and channels.
template <typename F>
void forGroups(const Op& op, const Shape& shape, const F& f) {
  const int64_t groups = shape[0] * integer(op, "num_groups");
  const int64_t size = groups == 0 ? 0 : numElements(shape) / groups;
  const int64_t inner = numElements(shape) == 0 ? 1 : numElements(spatialOf(shape));
  for (int64_t g = 0; g < groups; ++g) {
    f(g, Line{g * size, 1, size}, [&](int64_t element) { return element / inner % shape[1]; });
  }
}

void groupNormReference(ReferenceContext& c) {
  const Array& x = c.in[0];
  forGroups(c.op, x.shape(), [&](int64_t g, const Line& line, const auto& channelOf) {
    const auto n = static_cast<double>(line.size);
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < line.size; ++i) mean += x[line[i]].real() / n;
    for (int64_t i = 0; i < line.size; ++i) variance += std::pow(x[line[i]].real() - mean, 2) / n;
    const double invStd = 1 / std::sqrt(variance + c.op.attr<double>("eps"));
    for (int64_t i = 0; i < line.size; ++i) {
      const int64_t channel = channelOf(line[i]);
      c.out[0][line[i]] =
          (x[line[i]].real() - mean) * invStd * c.in[1][channel].real() + c.in[2][channel].real();
    }
    c.out[1][g] = mean;
    c.out[2][g] = invStd;
  });
}

/// With h = (x - mean) s and d = dy weight: dx = s (d - mean(d) - h mean(d h)), dweight = sum(dy h), dbias =
/// sum(dy).
void groupNormGradReference(ReferenceContext& c) {
  const Array &x = c.in[0], &weight = c.in[1], &dy = c.in[4];
  Array &dweight = c.out[1], &dbias = c.out[2];
  forGroups(c.op, x.shape(), [&](int64_t g, const Line& line, const auto& channelOf) {
    const double mean = c.in[2][g].real(), s = c.in[3][g].real(), n = static_cast<double>(line.size);
    const auto h = [&](int64_t at) { return (x[at].real() - mean) * s; };
    const auto d = [&](int64_t at) { return dy[at].real() * weight[channelOf(at)].real(); };
    double meanD = 0, meanDh = 0;
    for (int64_t i = 0; i < line.size; ++i) {
      const int64_t at = line[i], channel = channelOf(at);
      meanD += d(at) / n;
      meanDh += d(at) * h(at) / n;
      dweight[channel] = dweight[channel] + Number(dy[at].real() * h(at));
      dbias[channel] = dbias[channel] + dy[at];
    }
    for (int64_t i = 0; i < line.size; ++i) {
      c.out[0][line[i]] = s * (d(line[i]) - meanD - h(line[i]) * meanDh);
    }
  });
}

/// Ops over tensors as [samples, groups, channels of a group, rest], in which statistics and parameters of
/// channels broadcast.
class Grouped {
 public:
  explicit Grouped(GradContext& c) : c_(c) {
    const Shape& shape = c.op.input(0)->shape();
    groups_ = integer(c.op, "num_groups");
    shape_ = {shape[0], groups_, shape[1] / groups_, numElements(spatialOf(shape))};
  }
  Tensor* image(Tensor* t) const { return reshapeTo(c_, t, shape_); }
  Tensor* perChannel(Tensor* t) const {
    return reshapeTo(c_, as(t, c_.op.input(0)->dtype()), {1, groups_, shape_[2], 1});
  }
  Tensor* as(Tensor* t, DType dtype) const { return t->dtype() == dtype ? t : c_.make("cast", {t}, {dtype}); }
  Tensor* perGroup(Tensor* t) const { return reshapeTo(c_, t, {shape_[0], groups_, 1, 1}); }

  Tensor* add(Tensor* a, Tensor* b) const { return c_.make("add", {a, b}); }
  Tensor* sub(Tensor* a, Tensor* b) const { return c_.make("sub", {a, b}); }
  Tensor* mul(Tensor* a, Tensor* b) const { return c_.make("mul", {a, b}); }
  Tensor* overSize(Tensor* t) const {
    const auto size = static_cast<double>(shape_[2] * shape_[3]);
    return c_.make("div", {t, c_.constant(t->dtype(), {}, size)});
  }
  Tensor* sumOfGroup(Tensor* t) const { return c_.make("sum", {t}, {intsAttr({2, 3}), Attr(true)}); }
  Tensor* meanOfGroup(Tensor* t) const { return c_.make("mean", {t}, {intsAttr({2, 3}), Attr(true)}); }
  Tensor* sumOfChannel(Tensor* t) const { return c_.make("sum", {t}, {intsAttr({0, 3}), Attr(false)}); }
  /// s (d - mean(d) - h mean(d h)): how a change of the result becomes one of the operand, without what it is
  /// scaled by. Symmetric in d.
  Tensor* project(Tensor* d, Tensor* h, Tensor* s) const {
    return mul(s, sub(sub(d, meanOfGroup(d)), mul(h, meanOfGroup(mul(d, h)))));
  }

 private:
  GradContext& c_;
  int64_t groups_;
  Shape shape_;
};

/// What the statistics receive adds to the gradient of the operand: mean' = 1/n, inv_std_dev' = -s^2 h / n.
Tensor* statisticsGrad(GradContext& c, Tensor* dx) {
  const Grouped g(c);
  Tensor* sum = g.image(dx);
  if (c.outGrad(1) != nullptr) sum = g.add(sum, g.overSize(g.perGroup(c.outGrad(1))));
  if (c.outGrad(2) != nullptr) {
    Tensor *s = g.perGroup(c.output(2)), *ds = g.perGroup(c.outGrad(2));
    Tensor* h = g.mul(g.sub(g.image(c.input(0)), g.perGroup(c.output(1))), s);
    sum = g.sub(sum, g.overSize(g.mul(g.mul(ds, g.mul(s, s)), h)));
  }
  return reshapeTo(c, sum, dx->shape());
}

void groupNormRule(GradContext& c) {
  const auto grads =
      c.makeAll("group_norm_grad", {c.input(0), c.input(1), c.output(1), c.output(2), c.outGradOrZero(0)},
                c.op.attrs());
  const bool statistics = c.outGrad(1) != nullptr || c.outGrad(2) != nullptr;
  if (c.wants(0)) c.set(0, statistics ? statisticsGrad(c, grads[0]) : grads[0]);
  for (size_t i = 1; i < 3; ++i) {
    if (c.wants(i)) c.set(i, grads[i]);
  }
}

/// With what dx, dweight and dbias receive called X, W and B, h and d as above and P the map of `project`:
/// dy receives weight P X + W h + B, weight receives sum(dy P X), and h receives
/// u = W dy - s (X mean(d h) + d mean(X h)), which t, mean and s are changed by; s also scales dx.
void groupNormGradRule(GradContext& c) {
  const Grouped g(c);
  Tensor *s = g.perGroup(c.input(3)), *dy = g.image(c.input(4)), *weight = g.perChannel(c.input(1));
  Tensor* centred = g.sub(g.image(c.input(0)), g.perGroup(c.input(2)));
  Tensor *h = g.mul(centred, s), *d = g.mul(dy, weight);
  Tensor *x = g.image(c.outGradOrZero(0)), *w = g.perChannel(c.outGradOrZero(1)),
         *b = g.perChannel(c.outGradOrZero(2));
  Tensor* px = g.project(x, h, s);
  Tensor* crossed = g.add(g.mul(x, g.meanOfGroup(g.mul(d, h))), g.mul(d, g.meanOfGroup(g.mul(x, h))));
  Tensor* u = g.sub(g.mul(w, dy), g.mul(s, crossed));
  const auto set = [&](size_t i, Tensor* grad) {
    c.set(i, g.as(reshapeTo(c, grad, c.op.input(i)->shape()), c.op.input(i)->dtype()));
  };
  set(0, g.mul(u, s));
  set(1, g.sumOfChannel(g.mul(dy, px)));
  set(2, c.make("negate", {g.mul(s, g.sumOfGroup(u))}));
  Tensor* scaled = g.sumOfGroup(g.mul(d, px));  // sum(X dx), as P is symmetric
  set(3, g.add(c.make("div", {scaled, s}), g.sumOfGroup(g.mul(u, centred))));
  set(4, g.add(g.add(g.mul(weight, px), g.mul(w, h)), b));
}

void groupNorm(Defs& defs) {
  OpDef def;
  def.name = "group_norm";
  def.type = "GroupNormalization";
  def.className = "GroupNormOp";
  def.doc =
      "Normalises groups of neighbouring channels of each sample to mean 0 and variance 1, then scales and "
      "shifts.";
  def.operands = {image("t", ir::kFloats, "Samples, channels, then any dimensions."),
                  {"weight", ir::kFloats, "Scale of each channel."},
                  {"bias", ir::kFloats, "Shift of each channel."}};
  def.attrs = {{"num_groups", AttrType::kInt, "Number of groups; it divides the number of channels."},
               {"eps", AttrType::kFloat, "Added to the variance.", Attr(1e-5)}};
  def.results = {imageResult("out"),
                 {"mean", "Mean of each group."},
                 {"inv_std_dev", "1 / sqrt(variance + eps) of each group."}};
  def.infer = inferGroupNorm;
  def.stridedInputs = true;
  def.grad = groupNormRule;
  def.visibility = Visibility::kManual;
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeGroupNorm(groupNormSpec(c.op, c.inputs[0], c.inputs[1], c.outputs[1]), c.outputs[0]);
  };
  def.reference = groupNormReference;
  defs.push_back(def);

  OpDef grad;
  grad.name = "group_norm_grad";
  grad.type = "GroupNormalizationGrad";
  grad.doc = "Gradients of group_norm with respect to all three operands.";
  grad.operands = {image("t", ir::kFloats),
                   {"weight", ir::kFloats},
                   {"mean", ir::kFloats},
                   {"inv_std_dev", ir::kFloats},
                   image("grad", ir::kFloats)};
  grad.attrs = def.attrs;
  grad.stridedInputs = true;
  grad.results = {imageResult("t_grad"), {"weight_grad"}, {"bias_grad"}};
  grad.infer = [](const Op& op, Types& out) {
    likeOperand<0>(op, out);
    likeOperand<1>(op, out);
    likeOperand<1>(op, out);
  };
  grad.visibility = Visibility::kInternal;
  grad.grad = groupNormGradRule;
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeGroupNormGrad(groupNormSpec(c.op, c.inputs[0], c.inputs[1], c.inputs[2]), c.inputs[4],
                                      c.outputs[0]);
  };
  grad.reference = groupNormGradReference;
  defs.push_back(grad);
}

void inferBatchNorm(const Op& op, Types& out) {
  requireChannels(op);
  for (size_t i = 1; i < 5; ++i) requirePerChannel(op, i);
  for (size_t i = 2; i < 5; ++i) requireSameDType(op, 1, i);
  sameType(op, out);
}

void batchNormReference(ReferenceContext& c) {
  const double eps = c.op.attr<double>("epsilon");
  ir::forEachIndex(c.out[0].shape(), [&](const Shape& index) {
    const auto of = [&](size_t operand) { return c.in[operand][index[1]].real(); };
    c.out[0].at(index) = (c.in[0].at(index).real() - of(3)) / std::sqrt(of(4) + eps) * of(1) + of(2);
  });
}

/// A per-channel tensor so that it broadcasts against [N, C, ...].
Tensor* perChannel(GradContext& c, Tensor* t) {
  Shape shape(c.op.input(0)->shape().size(), 1);
  shape[1] = t->shape()[0];
  return reshapeTo(c, t, shape);
}

/// With s = 1 / sqrt(var + eps): dx = dy scale s, dscale = sum dy (x - mean) s, dbias = sum dy, dmean = -sum
/// dy scale s, dvar = -1/2 sum dy scale (x - mean) s^3.
void batchNormRule(GradContext& c) {
  const Attr eps = c.op.attrValue("epsilon");
  std::vector<Tensor*> operands = {c.outGrad(), c.input(0), perChannel(c, c.input(1)),
                                   perChannel(c, c.input(3)), perChannel(c, c.input(4))};
  const char* names[] = {"input", "scale", "bias", "mean", "var"};
  for (size_t i = 0; i < 5; ++i) {
    if (!c.wants(i)) continue;
    Tensor* grad = c.make(std::string("batch_norm_inference_") + names[i] + "_grad", operands, {eps});
    c.set(i, reshapeTo(c, grad, c.op.input(i)->shape()));
  }
}

/// One gradient as an expression over [N, C, ...], summed to the shape of operand `Like`.
template <size_t Like, typename F>
OpDef batchNormGrad(const Names& names, F) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"grad", ir::kFloats},
                  {"t", ir::kFloats},
                  {"scale", ir::kFloats},
                  {"mean", ir::kFloats},
                  {"var", ir::kFloats}};
  def.attrs = {{"epsilon", AttrType::kFloat, "Added to the variance."}};
  def.infer = likeOperand<Like>;
  def.visibility = Visibility::kInternal;
  def.reducesToOutput = true;
  def.expr = [](ExprContext& c) {
    const VType type = commonReal(c.in(1), c.in(2));
    const auto in = [&](size_t i) { return c.in(i).convert(type); };
    const Val s = 1.0 / sqrt(in(4) + c.op.attr<double>("epsilon"));
    store(c, F{}(in(0), in(1) - in(3), in(2), s));
  };
  return def;
}

void batchNorm(Defs& defs) {
  OpDef def;
  def.name = "batch_norm_inference";
  def.type = "BatchNormalization";
  def.className = "BatchNormOp";
  def.doc = "Normalises each channel by a given mean and variance, then scales and shifts it.";
  def.operands = {{"t", ir::kFloats, "Samples, channels, then any dimensions."},
                  {"scale", ir::kFloats, "Scale of each channel."},
                  {"bias", ir::kFloats, "Shift of each channel."},
                  {"mean", ir::kFloats, "Mean of each channel."},
                  {"var", ir::kFloats, "Variance of each channel."}};
  def.attrs = {{"epsilon", AttrType::kFloat, "Added to the variance.", Attr(1e-5)},
               {"momentum", AttrType::kFloat, "Kept for compatibility; has no effect.", Attr(0.9)}};
  def.infer = inferBatchNorm;
  def.grad = batchNormRule;
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeBatchNormInference(c.inputs[0], c.inputs[1], c.outputs[0],
                                           c.op.attr<double>("epsilon"));
  };
  def.reference = batchNormReference;
  defs.push_back(def);

  defs.push_back(batchNormGrad<1>({"batch_norm_inference_input_grad", "BatchNormInferenceInputGrad",
                                   "Gradient of batch_norm_inference with respect to `t`."},
                                  [](Val dy, Val, Val scale, Val s) { return dy * scale * s; }));
  defs.push_back(batchNormGrad<2>({"batch_norm_inference_scale_grad", "BatchNormInferenceScaleGrad",
                                   "Gradient of batch_norm_inference with respect to `scale`."},
                                  [](Val dy, Val centred, Val, Val s) { return dy * centred * s; }));
  defs.push_back(batchNormGrad<2>({"batch_norm_inference_bias_grad", "BatchNormInferenceBiasGrad",
                                   "Gradient of batch_norm_inference with respect to `bias`."},
                                  [](Val dy, Val, Val, Val) { return dy; }));
  defs.push_back(batchNormGrad<3>({"batch_norm_inference_mean_grad", "BatchNormInferenceMeanGrad",
                                   "Gradient of batch_norm_inference with respect to `mean`."},
                                  [](Val dy, Val, Val scale, Val s) { return -(dy * scale * s); }));
  defs.push_back(batchNormGrad<4>(
      {"batch_norm_inference_var_grad", "BatchNormInferenceVarGrad",
       "Gradient of batch_norm_inference with respect to `var`."},
      [](Val dy, Val centred, Val scale, Val s) { return -0.5 * (dy * scale * centred * (s * s * s)); }));
}

}  // namespace

void norm(Defs& defs) {
  groupNorm(defs);
  batchNorm(defs);
}

}  // namespace popxl::ops
