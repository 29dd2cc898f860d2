#include "kernels/pool.h"

#include <algorithm>
#include <cmath>
#include <map>

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

/// f(index of the output, elements of the input in its window) for every output.
template <typename F>
void forPools(const Op& op, const Shape& input, const Shape& output, const F& f) {
  const Window w = poolWindow(op, input);
  std::map<Shape, std::vector<Shape>> windows;
  ir::forEachIndex(spatialOf(output), [&](const Shape& out) { windows[out]; });
  forWindows(w, spatialOf(output), spatialOf(input),
             [&](const Shape& out, const Shape& in, const Shape&) { windows[out].push_back(in); });
  ir::forEachIndex(output, [&](const Shape& index) {
    std::vector<Shape> elements;
    for (const Shape& in : windows.at(spatialOf(index))) elements.push_back(joined(index[0], index[1], in));
    f(index, elements);
  });
}

void averagePoolReference(ReferenceContext& c) {
  forPools(c.op, c.in[0].shape(), c.out[0].shape(), [&](const Shape& y, const std::vector<Shape>& xs) {
    double sum = 0;
    for (const Shape& x : xs) sum += c.in[0].at(x).real();
    c.out[0].at(y) = xs.empty() ? 0 : sum / static_cast<double>(xs.size());
  });
}

void averagePoolGradReference(ReferenceContext& c) {
  Array& out = c.out[0];
  forPools(c.op, out.shape(), c.in[0].shape(), [&](const Shape& y, const std::vector<Shape>& xs) {
    for (const Shape& x : xs) {
      out.at(x) = out.at(x) + Number(c.in[0].at(y).real() / static_cast<double>(xs.size()));
    }
  });
}

/// The lowest value of a dtype.
Number lowest(DType dtype) {
  return isFloat(dtype) ? Number(-INFINITY) : Number(isSigned(dtype) ? -INFINITY : 0.0).to(dtype);
}

void maxPoolReference(ReferenceContext& c) {
  forPools(c.op, c.in[0].shape(), c.out[0].shape(), [&](const Shape& y, const std::vector<Shape>& xs) {
    Number largest = lowest(c.out[0].dtype());
    for (const Shape& x : xs) {
      const Number value = c.in[0].at(x);
      if (largest < value || std::isnan(value.real())) largest = value;
      if (std::isnan(largest.real())) break;
    }
    c.out[0].at(y) = largest;
  });
}

void maxPoolGradReference(ReferenceContext& c) {
  Array& out = c.out[0];
  forPools(c.op, out.shape(), c.in[1].shape(), [&](const Shape& y, const std::vector<Shape>& xs) {
    const auto first =
        std::find_if(xs.begin(), xs.end(), [&](const Shape& x) { return c.in[0].at(x) == c.in[1].at(y); });
    if (first != xs.end()) out.at(*first) = out.at(*first) + c.in[2].at(y);
  });
}

void maxPoolPickReference(ReferenceContext& c) {
  forPools(c.op, c.in[0].shape(), c.in[1].shape(), [&](const Shape& y, const std::vector<Shape>& xs) {
    const auto first =
        std::find_if(xs.begin(), xs.end(), [&](const Shape& x) { return c.in[0].at(x) == c.in[1].at(y); });
    if (first != xs.end()) c.out[0].at(y) = c.in[2].at(*first);
  });
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

constexpr std::string_view kWindows =
    "Samples, channels, then the number of windows on each spatial dimension; of the dtype of `t`.";

void averagePool(Defs& defs) {
  OpDef def = pooling(
      {"average_pool", "AveragePool", "Mean of the elements of each window; padding is not counted."});
  def.operands = {image("t", ir::kFloats, "Samples, channels, then 1 to 3 spatial dimensions.")};
  def.results = {{"out", kWindows, false, true}};
  def.infer = inferPool;
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("average_pool_grad", {c.outGrad()}, attrs));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makePool(specOf(c.op, c.inputs[0], c.outputs[0], true));
  };
  def.reference = averagePoolReference;
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
  grad.reference = averagePoolGradReference;
  defs.push_back(grad);
}

void maxPool(Defs& defs) {
  const ir::AttrDef order = {"storage_order", AttrType::kString, "Kept for compatibility; has no effect.",
                             textAttr("row")};
  OpDef def = pooling({"max_pool", "MaxPool", "Largest element of each window."});
  def.operands = {image("t", ir::kNumeric, "Samples, channels, then 1 to 3 spatial dimensions.")};
  def.results = {{"out", kWindows, false, true}};
  def.attrs.push_back(order);
  def.infer = inferPool;
  def.grad = [](GradContext& c) {
    c.set(0, c.make("max_pool_grad", {c.input(0), c.output(), c.outGrad()}, c.op.attrs()));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makePool(specOf(c.op, c.inputs[0], c.outputs[0], false));
  };
  def.reference = maxPoolReference;
  defs.push_back(def);

  OpDef grad = pooling({"max_pool_grad", "MaxPoolGrad", "Gradient of max_pool."});
  grad.operands = {image("t", ir::kFloats), image("out", ir::kFloats), image("grad", ir::kFloats)};
  grad.attrs.push_back(order);
  grad.infer = sameType;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {  // where a maximum is does not change
    c.set(2, c.make("max_pool_pick", {c.input(0), c.input(1), c.outGrad()}, c.op.attrs()));
  };
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeMaxPoolGrad(specOf(c.op, c.inputs[0], c.inputs[1], false), c.inputs[2], c.outputs[0]);
  };
  grad.reference = maxPoolGradReference;
  defs.push_back(grad);

  OpDef pick =
      pooling({"max_pool_pick", "MaxPoolPick", "What lies where the largest element of each window is."});
  pick.operands = {{"t", ir::kFloats}, {"out", ir::kFloats}, {"from", ir::kFloats, "As large as `t`."}};
  pick.attrs.push_back(order);
  pick.results = {{"picked"}};
  pick.stridedInputs = false;
  pick.infer = likeOperandOfOneDType<1>;
  pick.visibility = Visibility::kInternal;
  pick.grad = [](GradContext& c) {
    c.set(2, c.make("max_pool_grad", {c.input(0), c.input(1), c.outGrad()}, c.op.attrs()));
  };
  pick.kernel = [](const ir::KernelContext& c) {
    return kernels::makeMaxPoolPick(specOf(c.op, c.inputs[0], c.inputs[1], false));
  };
  pick.reference = maxPoolPickReference;
  defs.push_back(pick);
}

}  // namespace

void pool(Defs& defs) {
  averagePool(defs);
  maxPool(defs);
}

}  // namespace popxl::ops
