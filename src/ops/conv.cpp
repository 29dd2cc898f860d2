#include "kernels/conv.h"

#include "ops/define.h"
#include "ops/window.h"

namespace popxl::ops {

namespace {

/// Shapes of input and weights, wherever this op has them.
Window convWindow(const Op& op, const Shape& input, const Shape& weights) {
  return windowOf(op, spatialOf(input), spatialOf(weights), "pad_type");
}

void checkScale(const Op& op) {
  if (op.input(2) == nullptr) return;
  if (!isFloat8(typeOf(op, 0).dtype)) {
    fail(ErrorKind::kType, "{} has no float8 dtype; only such convolutions are scaled by a power of two",
         describe(op, 0));
  }
  if (op.input(2)->rank() > 0) fail(ErrorKind::kValue, "{} must be a scalar tensor", describe(op, 2));
}

void inferConv(const Op& op, Types& out) {
  const TensorType &t = typeOf(op, 0), &weight = typeOf(op, 1);
  const int64_t rank = op.input(0)->rank(), groups = integer(op, "groups");
  if (rank < 3 || rank > 5) {
    fail(ErrorKind::kGraph, "{} must have 3 to 5 dimensions: samples, channels and 1 to 3 spatial ones",
         describe(op, 0));
  }
  requireRank(op, 1, rank);
  const bool float8 = isFloat8(t.dtype) && isFloat8(weight.dtype);
  if (!float8) requireSameDType(op, 0, 1);
  checkScale(op);
  if (groups < 1 || weight.shape[1] * groups != t.shape[1] || weight.shape[0] % groups != 0) {
    fail(ErrorKind::kGraph,
         "{} has {} channels, {} takes {} in each of {} group(s) for {} outputs: channels must be equal and "
         "the groups "
         "divide the outputs",
         describe(op, 0), t.shape[1], describe(op, 1), weight.shape[1], groups, weight.shape[0]);
  }
  Shape shape = {t.shape[0], weight.shape[0]};
  for (int64_t n : convWindow(op, t.shape, weight.shape).positions(spatialOf(t.shape))) shape.push_back(n);
  out.push_back({float8 ? DType::kFloat16 : t.dtype, std::move(shape), {}});
}

kernels::ConvSpec specOf(const Op& op, const Layout& input, const Layout& weights, const Layout& output) {
  const Window w = convWindow(op, input.shape, weights.shape);
  return {input, weights, output, w.strides, w.padsBegin, w.padsEnd, w.dilations, integer(op, "groups"),
          false};
}

kernels::KernelPtr convKernel(const ir::KernelContext& c) {
  kernels::ConvSpec spec = specOf(c.op, c.inputs[0], c.inputs[1], c.outputs[0]);
  spec.scaled = c.inputs.size() == 3;
  return kernels::makeConv(spec);
}

void convRule(GradContext& c) {
  auto attrs = c.op.attrs();
  attrs.push_back({});
  if (c.wants(0)) {
    attrs.back() = intsAttr(c.op.input(0)->shape());
    c.set(0, c.make("conv_grad_input", {c.outGrad(), c.input(1)}, attrs));
  }
  if (c.wants(1)) {
    attrs.back() = intsAttr(c.op.input(1)->shape());
    c.set(1, c.make("conv_grad_weight", {c.input(0), c.outGrad()}, attrs));
  }
}

OpDef convGrad(const OpDef& conv, const Names& names, std::vector<ir::OperandDef> operands) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = std::move(operands);
  def.attrs = conv.attrs;
  def.attrs.push_back({"shape", AttrType::kInts, "Shape of the result."});
  def.infer = shapeOfAttr;
  def.visibility = Visibility::kInternal;
  def.stridedInputs = true;
  return def;
}

}  // namespace

void conv(Defs& defs) {
  constexpr ir::DTypes kOperands = ir::kNumeric | ir::kFloat8s;
  OpDef def;
  def.name = "conv";
  def.type = "Conv";
  def.doc = "Convolution (cross-correlation) over 1 to 3 spatial dimensions.";
  def.operands = {{"t", kOperands, "Samples, channels, then the spatial dimensions."},
                  {"weight", kOperands, "Outputs, channels of a group, then the window."},
                  {"log2_scale", ir::bit(DType::kInt32),
                   "float8 only: the result is multiplied by two to this power.", Arity::kOptional}};
  def.attrs = {
      {"stride", AttrType::kInts, "Distance of windows on each spatial dimension; empty: 1.", intsAttr({})},
      {"padding", AttrType::kInts, "Zeros before each spatial dimension, then after each; empty: none.",
       intsAttr({})},
      {"dilation", AttrType::kInts, "Distance of the elements of a window; empty: 1.", intsAttr({})},
      {"groups", AttrType::kInt, "Groups of channels that do not mix.", Attr(int64_t{1})},
      {"pad_type", AttrType::kString,
       "\"not_set\": as `padding` says; \"same_upper\", \"same_lower\", \"valid\".", textAttr("not_set")},
      {"available_memory_proportions", AttrType::kFloats, "Kept for compatibility; has no effect.", {}, true},
      {"partials_types", AttrType::kString, "Kept for compatibility; sums are at least float32.", {}, true},
      {"enable_conv_dithering", AttrType::kInts, "Kept for compatibility; has no effect.", {}, true}};
  def.infer = inferConv;
  def.grad = convRule;
  def.visibility = Visibility::kManual;
  def.stridedInputs = true;
  def.kernel = convKernel;
  defs.push_back(def);

  OpDef input = convGrad(def, {"conv_grad_input", "ConvDataGrad", "Gradient of conv with respect to `t`."},
                         {{"grad", ir::kFloats}, {"weight", ir::kFloats}});
  input.kernel = [](const ir::KernelContext& c) {
    return kernels::makeConvGradInput(specOf(c.op, c.outputs[0], c.inputs[1], c.inputs[0]));
  };
  defs.push_back(input);

  OpDef weight =
      convGrad(def, {"conv_grad_weight", "ConvWeightsGrad", "Gradient of conv with respect to `weight`."},
               {{"t", ir::kFloats}, {"grad", ir::kFloats}});
  weight.kernel = [](const ir::KernelContext& c) {
    return kernels::makeConvGradWeight(specOf(c.op, c.inputs[0], c.outputs[0], c.inputs[1]));
  };
  defs.push_back(weight);
}

}  // namespace popxl::ops
