#include "kernels/pool.h"

#include <algorithm>

#include "ops/define.h"
#include "ops/window.h"

namespace popxl::ops {

namespace {

Window poolWindow(const Op& op, const Shape& input) {
  Window w = windowOf(op, spatialOf(input), ints(op, "kernel_size"), "auto_pad");
  w.ceil = op.attr<bool>("ceil_mode");
  return w;
}

void requireTrivial(const Op& op, std::string_view attr, int64_t value) {
  const auto values = op.attrOr<std::vector<int64_t>>(attr, {});
  if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; })) return;
  fail(ErrorKind::kNotImplemented, "`{}` is {}; no value but {} is supported", attr, toString(values), value);
}

void inferPool(const Op& op, Types& out) {
  const TensorType& t = typeOf(op, 0);
  if (t.shape.size() < 3 || t.shape.size() > 5) {
    fail(ErrorKind::kGraph, "{} must have 3 to 5 dimensions: samples, channels and 1 to 3 spatial ones",
         describe(op, 0));
  }
  requireTrivial(op, "out_pads", 0);
  requireTrivial(op, "in_dilations", 1);
  Shape shape = {t.shape[0], t.shape[1]};
  for (int64_t n : poolWindow(op, t.shape).positions(spatialOf(t.shape))) shape.push_back(n);
  out.push_back({t.dtype, std::move(shape), {}});
}

kernels::PoolSpec specOf(const Op& op, const Layout& input, const Layout& output, bool average) {
  const Window w = poolWindow(op, input.shape);
  return {input, output, w.kernel, w.strides, w.padsBegin, w.padsEnd, w.dilations, average};
}

std::vector<ir::AttrDef> poolAttrs() {
  return {{"kernel_size", AttrType::kInts, "Size of the window."},
          {"stride", AttrType::kInts, "Distance of windows on each spatial dimension; absent: 1.", {}, true},
          {"padding",
           AttrType::kInts,
           "Positions before each spatial dimension, then after each; absent: none.",
           {},
           true},
          {"out_pads", AttrType::kInts, "Only 0 is supported.", {}, true},
          {"dilation", AttrType::kInts, "Distance of the elements of a window; absent: 1.", {}, true},
          {"in_dilations", AttrType::kInts, "Only 1 is supported.", {}, true},
          {"auto_pad", AttrType::kString,
           "\"not_set\": as `padding` says; \"same_upper\", \"same_lower\", \"valid\".", textAttr("not_set")},
          {"ceil_mode", AttrType::kBool, "Whether a last window may hang over the end.", Attr(false)}};
}

OpDef pooling(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.attrs = poolAttrs();
  def.results = {imageResult("out")};
  def.stridedInputs = true;
  return def;
}

void averagePool(Defs& defs) {
  OpDef def = pooling(
      {"average_pool", "AveragePool", "Mean of the elements of each window; padding is not counted."});
  def.operands = {image("t", ir::kFloats, "Samples, channels, then 1 to 3 spatial dimensions.")};
  def.infer = inferPool;
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("average_pool_grad", {c.outGrad()}, attrs));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makePool(specOf(c.op, c.inputs[0], c.outputs[0], true));
  };
  defs.push_back(def);

  OpDef grad = pooling({"average_pool_grad", "AveragePoolGrad", "Gradient of average_pool."});
  grad.operands = {image("grad", ir::kFloats)};
  grad.attrs.push_back({"shape", AttrType::kInts, "Shape of what was pooled."});
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.pop_back();
    c.set(0, c.make("average_pool", {c.outGrad()}, attrs));
  };
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeAveragePoolGrad(specOf(c.op, c.outputs[0], c.inputs[0], true));
  };
  defs.push_back(grad);
}

void maxPool(Defs& defs) {
  const ir::AttrDef order = {"storage_order", AttrType::kString, "Kept for compatibility; has no effect.",
                             textAttr("row")};
  OpDef def = pooling({"max_pool", "MaxPool", "Largest element of each window."});
  def.operands = {image("t", ir::kNumeric, "Samples, channels, then 1 to 3 spatial dimensions.")};
  def.attrs.push_back(order);
  def.infer = inferPool;
  def.grad = [](GradContext& c) {
    c.set(0, c.make("max_pool_grad", {c.input(0), c.output(), c.outGrad()}, c.op.attrs()));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makePool(specOf(c.op, c.inputs[0], c.outputs[0], false));
  };
  defs.push_back(def);

  OpDef grad = pooling({"max_pool_grad", "MaxPoolGrad", "Gradient of max_pool."});
  grad.operands = {image("t", ir::kFloats), image("out", ir::kFloats), image("grad", ir::kFloats)};
  grad.attrs.push_back(order);
  grad.infer = sameType;
  grad.visibility = Visibility::kInternal;
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeMaxPoolGrad(specOf(c.op, c.inputs[0], c.inputs[1], false), c.inputs[2], c.outputs[0]);
  };
  defs.push_back(grad);
}

}  // namespace

void pool(Defs& defs) {
  averagePool(defs);
  maxPool(defs);
}

}  // namespace popxl::ops
