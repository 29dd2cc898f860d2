#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/resample.h"
#include "ops/define.h"

// Tensors of another size: every element is a weighted sum of elements near its place, one axis at a time.
namespace popxl::ops {

namespace {

template <size_t N>
const std::string& choice(const Op& op, std::string_view attr, const std::string_view (&allowed)[N]) {
  const auto& value = op.attr<std::string>(attr);
  if (std::find(std::begin(allowed), std::end(allowed), value) != std::end(allowed)) return value;
  std::string names;
  for (const std::string_view name : allowed) names += fmt::format(" \"{}\"", name);
  fail(ErrorKind::kValue, "`{}` is \"{}\"; it must be one of{}", attr, value, names);
}

constexpr std::string_view kModes[] = {"nearest", "linear", "cubic"};
constexpr std::string_view kNearestModes[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
constexpr std::string_view kTransformations[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                                 "asymmetric", "tf_crop_and_resize"};

float scaleOf(const Op& op, size_t axis) {
  return static_cast<float>(op.attr<std::vector<double>>("scale_factor")[axis]);
}

/// Where place i of `out` lies among the `in` elements of an axis. Coordinates are float32, as in every
/// implementation of this op, so that all round ties alike.
float coordinate(const std::string& transformation, int64_t i, int64_t in, int64_t out, float scale) {
  const auto x = static_cast<float>(i), last = static_cast<float>(in - 1),
             steps = static_cast<float>(out - 1);
  if (transformation == "asymmetric") return x / scale;
  if (transformation == "align_corners") return out > 1 ? x * last / steps : 0;
  if (transformation == "tf_crop_and_resize") return out > 1 ? x * last / steps : last / 2;
  if (transformation == "pytorch_half_pixel" && out <= 1) return 0;
  return (x + 0.5F) / scale - 0.5F;
}

float nearest(const std::string& mode, float x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  return mode == "round_prefer_floor" ? std::ceil(x - 0.5F) : std::floor(x + 0.5F);
}

/// Weights of the four elements around a place, `t` behind the second of them.
std::array<double, 4> cubicWeights(double t) {
  constexpr double kA = -0.75;
  const auto inner = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto outer = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
}

/// The map of an axis; elements beyond its ends are those at the ends.
kernels::Taps tapsOf(const Op& op, int64_t in, int64_t out, float scale) {
  const auto& mode = op.attr<std::string>("mode");
  const auto clamped = [&](float x) { return std::clamp<int64_t>(static_cast<int64_t>(x), 0, in - 1); };
  kernels::Taps taps;
  for (int64_t i = 0; i < out; ++i) {
    const float x = coordinate(op.attr<std::string>("coordinate_transformation_mode"), i, in, out, scale);
    auto& row = taps.rows.emplace_back();
    if (mode == "nearest") {
      row = {{clamped(nearest(op.attr<std::string>("nearest_mode"), x)), 1.0}};
      continue;
    }
    const float below = std::floor(x);
    const double part = static_cast<double>(x) - static_cast<double>(below);
    if (mode == "linear") {
      row = {{clamped(below), 1.0 - part}, {clamped(below + 1), part}};
      if (part == 0 || row[0].element == row[1].element) row = {{row[0].element, 1.0}};
    } else {
      const auto weights = cubicWeights(part);
      for (int k = 0; k < 4; ++k) {
        row.push_back({clamped(below + static_cast<float>(k - 1)), weights[static_cast<size_t>(k)]});
      }
    }
  }
  return taps;
}

/// The maps of the axes that a tensor of shape `in` is scaled on. An axis with scale 1 stays as it is.
std::vector<kernels::ResampledAxis> axesOf(const Op& op, const Shape& in, const Shape& out, bool transposed) {
  std::vector<kernels::ResampledAxis> axes;
  for (size_t d = 0; d < in.size(); ++d) {
    const float scale = scaleOf(op, d);
    if (scale == 1.0F) continue;
    kernels::Taps taps = tapsOf(op, in[d], out[d], scale);
    axes.push_back({static_cast<int64_t>(d), transposed ? taps.transposed(in[d]) : std::move(taps)});
  }
  if (transposed) std::reverse(axes.begin(), axes.end());
  return axes;
}

/// The maps of the axes one after another.
void resample(const std::vector<kernels::ResampledAxis>& axes, Array from, Array& out) {
  for (const kernels::ResampledAxis& map : axes) {
    Shape shape = from.shape();
    shape[static_cast<size_t>(map.axis)] = static_cast<int64_t>(map.taps.rows.size());
    Array to(from.dtype(), shape);
    ir::forEachIndex(shape, [&](const Shape& index) {
      Shape source = index;
      for (const auto& tap : map.taps.rows[static_cast<size_t>(index[static_cast<size_t>(map.axis)])]) {
        source[static_cast<size_t>(map.axis)] = tap.element;
        const Number& x = from.at(source);
        to.at(index) = to.at(index) + (x.isFloat() ? x * Number(tap.weight) : x);
      }
    });
    from = std::move(to);
  }
  for (int64_t i = 0; i < out.size(); ++i) out[i] = from[i];
}

void inferResize(const Op& op, Types& out) {
  const auto& mode = choice(op, "mode", kModes);
  choice(op, "nearest_mode", kNearestModes);
  choice(op, "coordinate_transformation_mode", kTransformations);
  const auto& scales = op.attr<std::vector<double>>("scale_factor");
  const TensorType& t = typeOf(op, 0);
  if (scales.size() != t.shape.size()) {
    fail(ErrorKind::kValue,
         "`scale_factor` has {} entries; it must have one for each of the {} dimensions of {}", scales.size(),
         t.shape.size(), describe(op, 0));
  }
  if (mode != "nearest" && (ir::bit(t.dtype) & ir::kFloats) == 0) {
    fail(ErrorKind::kType,
         "{} has no floating-point dtype, so `mode` can't be \"{}\": use \"nearest\", or cast",
         describe(op, 0), mode);
  }
  Shape shape = t.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    const float size = std::floor(static_cast<float>(shape[d]) * scaleOf(op, d));
    if (!(scales[d] > 0) || !(size < 0x1p31F)) {
      fail(ErrorKind::kValue,
           "entry {} of `scale_factor` is {}; it must be positive, and give less than 2^31 elements", d,
           scales[d]);
    }
    shape[d] = static_cast<int64_t>(size);
  }
  out.push_back({t.dtype, std::move(shape), {}});
}

std::vector<ir::AttrDef> resizeAttrs() {
  return {
      {"scale_factor", AttrType::kFloats, "Size of the result by that of the operand on each dimension.",
       Attr(std::vector<double>{1, 1, 1, 1})},
      {"mode", AttrType::kString, "\"nearest\", \"linear\" or \"cubic\".", textAttr("nearest")},
      {"nearest_mode", AttrType::kString,
       "Which element is the nearest: \"round_prefer_floor\", \"round_prefer_ceil\", \"floor\" or \"ceil\".",
       textAttr("round_prefer_floor")},
      {"coordinate_transformation_mode", AttrType::kString,
       "Where an element of the result lies: \"half_pixel\", \"pytorch_half_pixel\", \"align_corners\", "
       "\"asymmetric\" or \"tf_crop_and_resize\".",
       textAttr("half_pixel")}};
}

}  // namespace

void resize(Defs& defs) {
  OpDef def;
  def.name = "interpolate";
  def.type = "Resize";
  def.doc = "A tensor resized by interpolation, as ONNX Resize: sizes are scaled and rounded down.";
  def.operands = {{"t", ir::kNumeric, "Floating point unless `mode` is \"nearest\"."}};
  def.results = {{"out", "The resized tensor, of the dtype of `t`."}};
  def.attrs = resizeAttrs();
  def.infer = inferResize;
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("interpolate_grad", {c.outGrad()}, attrs));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeResample(c.inputs[0], c.outputs[0],
                                 axesOf(c.op, c.inputs[0].shape, c.outputs[0].shape, false));
  };
  def.reference = [](ReferenceContext& c) {
    resample(axesOf(c.op, c.in[0].shape(), c.out[0].shape(), false), c.in[0], c.out[0]);
  };
  defs.push_back(def);

  OpDef grad;
  grad.name = "interpolate_grad";
  grad.type = "ResizeGrad";
  grad.doc = "Gradient of interpolate.";
  grad.operands = {{"grad", ir::kFloats}};
  grad.attrs = resizeAttrs();
  grad.attrs.push_back({"shape", AttrType::kInts, "Shape of what was resized."});
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.pop_back();
    c.set(0, c.make("interpolate", {c.outGrad()}, attrs));
  };
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeResample(c.inputs[0], c.outputs[0],
                                 axesOf(c.op, c.outputs[0].shape, c.inputs[0].shape, true));
  };
  grad.reference = [](ReferenceContext& c) {
    resample(axesOf(c.op, c.out[0].shape(), c.in[0].shape(), true), c.in[0], c.out[0]);
  };
  defs.push_back(grad);
}

}  // namespace popxl::ops
