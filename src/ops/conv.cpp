#include "kernels/conv.h"

#include <cmath>

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

/// Checks ranks and dtypes; gives the dtype of the result.
DType checkOperands(const Op& op) {
  const int64_t rank = op.input(0)->rank();
  if (rank < 3 || rank > 5) {
    fail(ErrorKind::kGraph, "{} must have 3 to 5 dimensions: samples, channels and 1 to 3 spatial ones",
         describe(op, 0));
  }
  requireRank(op, 1, rank);
  const bool float8 = isFloat8(typeOf(op, 0).dtype) && isFloat8(typeOf(op, 1).dtype);
  if (!float8) requireSameDType(op, 0, 1);
  checkScale(op);
  return float8 ? DType::kFloat16 : typeOf(op, 0).dtype;
}

void inferConv(const Op& op, Types& out) {
  const TensorType &t = typeOf(op, 0), &weight = typeOf(op, 1);
  const DType result = checkOperands(op);
  const int64_t groups = integer(op, "groups");
  if (groups < 1 || weight.shape[1] * groups != t.shape[1] || weight.shape[0] % groups != 0) {
    fail(ErrorKind::kGraph,
         "{} has {} channels, {} takes {} in each of {} group(s) for {} outputs: channels must be equal and "
         "the groups "
         "divide the outputs",
         describe(op, 0), t.shape[1], describe(op, 1), weight.shape[1], groups, weight.shape[0]);
  }
  Shape shape = {t.shape[0], weight.shape[0]};
  for (int64_t n : convWindow(op, t.shape, weight.shape).positions(spatialOf(t.shape))) shape.push_back(n);
  out.push_back({result, std::move(shape), {}});
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

/// Channels of one group that are few leave the library's kernels half empty.
bool prefersChannelsLast(const Op& op) {
  return integer(op, "groups") == 1 && op.input(0)->dtype() == DType::kFloat32;
}

/// f(index of the input, of the weights, of the output) for every product of a convolution.
template <typename F>
void forProducts(const Window& window, int64_t groups, const Shape& input, const Shape& weights,
                 const Shape& output, const F& f) {
  const int64_t outputs = weights[0] / groups, channels = weights[1];
  forWindows(window, spatialOf(output), spatialOf(input),
             [&](const Shape& out, const Shape& in, const Shape& element) {
               for (int64_t n = 0; n < input[0]; ++n) {
                 for (int64_t o = 0; o < weights[0]; ++o) {
                   for (int64_t i = 0; i < channels; ++i) {
                     f(joined(n, o / outputs * channels + i, in), joined(o, i, element), joined(n, o, out));
                   }
                 }
               }
             });
}

template <typename F>
void forProducts(const Op& op, const Shape& input, const Shape& weights, const Shape& output, const F& f) {
  forProducts(convWindow(op, input, weights), integer(op, "groups"), input, weights, output, f);
}

/// float8 only: the result times two to the power that operand 2 gives.
void scaleReference(ReferenceContext& c) {
  if (c.op.input(2) == nullptr) return;
  const auto scale = static_cast<int>(c.in[2][0].integer());
  for (int64_t i = 0; i < c.out[0].size(); ++i) c.out[0][i] = std::ldexp(c.out[0][i].real(), scale);
}

void convReference(ReferenceContext& c) {
  const Array &input = c.in[0], &weights = c.in[1];
  Array& out = c.out[0];
  forProducts(c.op, input.shape(), weights.shape(), out.shape(),
              [&](const Shape& x, const Shape& w, const Shape& y) {
                out.at(y) = out.at(y) + input.at(x) * weights.at(w);
              });
  scaleReference(c);
}

void convGradInputReference(ReferenceContext& c) {
  const Array &grad = c.in[0], &weights = c.in[1];
  Array& out = c.out[0];
  forProducts(c.op, out.shape(), weights.shape(), grad.shape(),
              [&](const Shape& x, const Shape& w, const Shape& y) {
                out.at(x) = out.at(x) + grad.at(y) * weights.at(w);
              });
}

void convGradWeightReference(ReferenceContext& c) {
  const Array &input = c.in[0], &grad = c.in[1];
  Array& out = c.out[0];
  forProducts(c.op, input.shape(), out.shape(), grad.shape(),
              [&](const Shape& x, const Shape& w, const Shape& y) {
                out.at(w) = out.at(w) + input.at(x) * grad.at(y);
              });
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

/// Both gradients are bilinear, as the convolution is: their gradients are it and each other.
void convGradInputRule(GradContext& c) {
  auto attrs = c.op.attrs();
  if (c.wants(1)) {
    attrs.back() = intsAttr(c.op.input(1)->shape());
    c.set(1, c.make("conv_grad_weight", {c.outGrad(), c.input(0)}, attrs));
  }
  attrs.pop_back();
  if (c.wants(0)) c.set(0, c.make("conv", {c.outGrad(), c.input(1)}, attrs));
}

void convGradWeightRule(GradContext& c) {
  auto attrs = c.op.attrs();
  if (c.wants(0)) {
    attrs.back() = intsAttr(c.op.input(0)->shape());
    c.set(0, c.make("conv_grad_input", {c.input(1), c.outGrad()}, attrs));
  }
  attrs.pop_back();
  if (c.wants(1)) c.set(1, c.make("conv", {c.input(0), c.outGrad()}, attrs));
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
  def.prefersChannelsLast = prefersChannelsLast;
  return def;
}

OpDef convolution(const Names& names, std::string_view weightDoc) {
  constexpr ir::DTypes kOperands = ir::kNumeric | ir::kFloat8s;
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t", kOperands, "Samples, channels, then the spatial dimensions."},
                  {"weight", kOperands, weightDoc},
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
  def.visibility = Visibility::kManual;
  def.stridedInputs = true;
  def.log2ScaleOperand = 2;
  return def;
}

// --- conv_transpose

/// A transposed convolution as the gradient of a convolution: the window of that, and the spatial size of the
/// result.
struct Transposed {
  Window window;
  Shape spatial;
};

/// `output_shape` without samples and channels; empty when it is not given.
Shape givenSpatial(const Op& op, const Shape& t, int64_t channels) {
  Shape shape = ints(op, "output_shape");
  const size_t n = t.size() - 2;
  if (shape.size() == n + 2 && shape[0] == t[0] && shape[1] == channels) shape = spatialOf(shape);
  if (!shape.empty() && shape.size() != n) {
    fail(ErrorKind::kValue,
         "`output_shape` is {}; it must have {} entries, or two more for the {} samples and {} channels of "
         "the "
         "result",
         toString(ints(op, "output_shape")), n, t[0], channels);
  }
  return shape;
}

Transposed transposed(const Op& op, const Shape& t, const Shape& weights) {
  const Shape in = spatialOf(t);
  Transposed r = {convWindow(op, t, weights), givenSpatial(op, t, weights[1] * integer(op, "groups"))};
  Window& w = r.window;
  std::vector<int64_t> extra = ints(op, "output_padding");
  extra.resize(in.size(), 0);
  const auto& type = op.attr<std::string>("pad_type");
  const bool given = !r.spatial.empty(), same = type == "same_upper" || type == "same_lower";
  if (given && type == "valid") {
    fail(ErrorKind::kValue,
         "`pad_type` \"valid\" leaves nothing to choose: `output_shape` can't be given too");
  }
  r.spatial.resize(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t full = w.strides[i] * (in[i] - 1) + extra[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (!given && same) r.spatial[i] = in[i] * w.strides[i];
    if (given || same) {  // what is cut off makes up the difference
      const int64_t cut = full - r.spatial[i], half = cut / 2;
      w.padsBegin[i] = type == "same_upper" ? cut - half : half;
      w.padsEnd[i] = cut - w.padsBegin[i];
    }
    r.spatial[i] = full - w.padsBegin[i] - w.padsEnd[i];
    w.padsEnd[i] -= extra[i];
  }
  return r;
}

void inferConvTranspose(const Op& op, Types& out) {
  const TensorType& weight = typeOf(op, 1);
  const DType result = checkOperands(op);
  const int64_t groups = integer(op, "groups");
  if (groups < 1 || weight.shape[0] != typeOf(op, 0).shape[1] || weight.shape[0] % groups != 0) {
    fail(ErrorKind::kGraph,
         "{} has {} channels, {} takes {} in {} group(s): channels must be equal and the "
         "groups divide them",
         describe(op, 0), typeOf(op, 0).shape[1], describe(op, 1), weight.shape[0], groups);
  }
  Shape shape = {typeOf(op, 0).shape[0], weight.shape[1] * groups};
  const Shape spatial = transposed(op, typeOf(op, 0).shape, weight.shape).spatial;
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  out.push_back({result, std::move(shape), {}});
}

kernels::KernelPtr convTransposeKernel(const ir::KernelContext& c) {
  const Transposed r = transposed(c.op, c.inputs[0].shape, c.inputs[1].shape);
  const Window& w = r.window;
  return kernels::makeConvGradInput({c.outputs[0], c.inputs[1], c.inputs[0], w.strides, w.padsBegin,
                                     w.padsEnd, w.dilations, integer(c.op, "groups"), c.inputs.size() == 3});
}

void convTransposeReference(ReferenceContext& c) {
  const Array &t = c.in[0], &weights = c.in[1];
  Array& out = c.out[0];
  forProducts(transposed(c.op, t.shape(), weights.shape()).window, integer(c.op, "groups"), out.shape(),
              weights.shape(), t.shape(), [&](const Shape& x, const Shape& w, const Shape& y) {
                out.at(x) = out.at(x) + t.at(y) * weights.at(w);
              });
  scaleReference(c);
}

/// Both gradients are those of the convolution that this op transposes.
void convTransposeRule(GradContext& c) {
  const Window w = transposed(c.op, c.op.input(0)->shape(), c.op.input(1)->shape()).window;
  std::vector<int64_t> pads = w.padsBegin;
  pads.insert(pads.end(), w.padsEnd.begin(), w.padsEnd.end());
  std::vector<Attr> attrs = {intsAttr(w.strides), intsAttr(pads), intsAttr(w.dilations),
                             c.op.attrValue("groups")};
  if (c.wants(0)) c.set(0, c.make("conv", {c.outGrad(), c.input(1)}, attrs));
  if (!c.wants(1)) return;
  attrs.resize(c.op.def().attrs.size() - 2);  // those of conv
  attrs.push_back(intsAttr(c.op.input(1)->shape()));
  c.set(1, c.make("conv_grad_weight", {c.outGrad(), c.input(0)}, attrs));
}

void convTranspose(Defs& defs) {
  OpDef def = convolution({"conv_transpose", "ConvTranspose",
                           "Transposed convolution over 1 to 3 spatial dimensions: the gradient of conv."},
                          "Channels of `t`, outputs of a group, then the window.");
  def.attrs.push_back({"output_padding", AttrType::kInts,
                       "Elements added at the end of each spatial dimension of the result; empty: none.",
                       intsAttr({})});
  def.attrs.push_back({"output_shape", AttrType::kInts,
                       "Spatial dimensions of the result, which then decide about the padding; empty: they "
                       "follow from it.",
                       intsAttr({})});
  def.infer = inferConvTranspose;
  def.grad = convTransposeRule;
  def.kernel = convTransposeKernel;
  def.reference = convTransposeReference;
  defs.push_back(def);
}

/// Weights with inputs and outputs exchanged and every window turned round, as another way to read them.
void convFlipWeights(Defs& defs) {
  OpDef def;
  def.name = "conv_flip_weights";
  def.type = "ConvFlipWeights";
  def.doc =
      "Weights of a transposed convolution as those of a convolution: outputs first, windows turned round.";
  def.operands = {{"weight", ir::kNumeric, "Channels, outputs, then the window."}};
  def.infer = [](const Op& op, Types& out) {
    out.push_back(typeOf(op, 0));
    if (out.back().shape.size() < 3) {
      fail(ErrorKind::kGraph, "{} must have 3 to 5 dimensions: channels, outputs and 1 to 3 spatial ones",
           describe(op, 0));
    }
    std::swap(out.back().shape[0], out.back().shape[1]);
  };
  def.visibility = Visibility::kInternal;
  def.grad = [](GradContext& c) { c.set(0, c.make("conv_flip_weights", {c.outGrad()})); };
  def.view = [](const Op&, const Layout& input, ir::View& view) {
    view.layout = input;
    std::swap(view.layout.shape[0], view.layout.shape[1]);
    std::swap(view.layout.strides[0], view.layout.strides[1]);
    for (size_t d = 2; d < input.shape.size(); ++d) {
      view.elementOffset += std::max<int64_t>(input.shape[d] - 1, 0) * input.strides[d];
      view.layout.strides[d] = -input.strides[d];
    }
    return true;
  };
  defs.push_back(def);
}

}  // namespace

void conv(Defs& defs) {
  OpDef def = convolution({"conv", "Conv", "Convolution (cross-correlation) over 1 to 3 spatial dimensions."},
                          "Outputs, channels of a group, then the window.");
  def.operands[0] = image("t", def.operands[0].dtypes, def.operands[0].doc);
  def.results = {imageResult("out")};
  def.prefersChannelsLast = prefersChannelsLast;
  def.infer = inferConv;
  def.grad = convRule;
  def.kernel = convKernel;
  def.reference = convReference;
  defs.push_back(def);

  OpDef input = convGrad(def, {"conv_grad_input", "ConvDataGrad", "Gradient of conv with respect to `t`."},
                         {image("grad", ir::kFloats), {"weight", ir::kFloats}});
  input.results = {imageResult("out")};
  input.grad = convGradInputRule;
  input.kernel = [](const ir::KernelContext& c) {
    return kernels::makeConvGradInput(specOf(c.op, c.outputs[0], c.inputs[1], c.inputs[0]));
  };
  input.reference = convGradInputReference;
  defs.push_back(input);

  OpDef weight =
      convGrad(def, {"conv_grad_weight", "ConvWeightsGrad", "Gradient of conv with respect to `weight`."},
               {image("t", ir::kFloats), image("grad", ir::kFloats)});
  weight.grad = convGradWeightRule;
  weight.kernel = [](const ir::KernelContext& c) {
    return kernels::makeConvGradWeight(specOf(c.op, c.inputs[0], c.outputs[0], c.inputs[1]));
  };
  weight.reference = convGradWeightReference;
  defs.push_back(weight);
  convTranspose(defs);
  convFlipWeights(defs);
}

}  // namespace popxl::ops
