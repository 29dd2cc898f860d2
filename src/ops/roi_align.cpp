#include "kernels/roi_align.h"

#include <algorithm>

#include "ops/define.h"

namespace popxl::ops {

namespace {

std::vector<ir::AttrDef> roiAttrs() {
  return {{"output_size", AttrType::kInts, "Rows and columns of bins."},
          {"spatial_scale", AttrType::kFloat, "Elements of `t` per unit of the coordinates."},
          {"sampling_ratio", AttrType::kInt, "Sample points in each direction of a bin."}};
}

void inferRoiAlign(const Op& op, Types& out) {
  requireRank(op, 0, 4);
  requireRank(op, 1, 2);
  requireRank(op, 2, 1);
  requireSameDType(op, 0, 1);
  const Shape &t = typeOf(op, 0).shape, &rois = typeOf(op, 1).shape;
  if (rois[1] != 4) {
    fail(ErrorKind::kGraph, "{} must have 4 columns: x and y of the first corner, then of the second",
         describe(op, 1));
  }
  if (typeOf(op, 2).shape[0] != rois[0]) {
    fail(ErrorKind::kGraph, "{} must have an element for each of the {} regions of {}", describe(op, 2),
         rois[0], describe(op, 1));
  }
  const auto& size = ints(op, "output_size");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) {
    fail(ErrorKind::kValue, "`output_size` is {}; it must be two positive numbers", toString(size));
  }
  constexpr int64_t kMostSamples = 1 << 12;
  const int64_t samples = integer(op, "sampling_ratio");
  if (samples < 1 || samples > kMostSamples) {
    fail(ErrorKind::kValue, "`sampling_ratio` is {}; it must be in [1, {}]", samples, kMostSamples);
  }
  out.push_back({typeOf(op, 0).dtype, {rois[0], t[1], size[0], size[1]}, {}});
}

kernels::RoiAlignSpec specOf(const Op& op, const Layout& t, const Layout& rois, const Layout& images,
                             const Layout& out) {
  return {t, rois, images, out, op.attr<double>("spatial_scale"), integer(op, "sampling_ratio")};
}

/// Where a coordinate lies between two elements of a side; both weights are 0 outside.
struct Between {
  int64_t low = 0, high = 0;
  double lowWeight = 0, highWeight = 0;
};

Between between(double at, int64_t size) {
  if (!(size > 0 && at >= -1 && at <= static_cast<double>(size))) return {};
  const double inside = std::clamp(at, 0.0, static_cast<double>(size - 1));
  const auto low = static_cast<int64_t>(inside);
  const double share = inside - static_cast<double>(low);
  return {low, std::min(low + 1, size - 1), 1 - share, share};
}

/// f(index in the images, index in the bins, weight) for everything that a bin averages.
template <typename F>
void forSamples(const Op& op, const Array& rois, const Array& images, const Shape& t, const Shape& bins,
                const F& f) {
  const auto samples = static_cast<double>(integer(op, "sampling_ratio"));
  const double scale = op.attr<double>("spatial_scale");
  const auto place = [&](int64_t region, int64_t side, int64_t bin, int64_t count, int64_t sample) {
    const double begin = rois.at(Shape{region, side}).real() * scale;
    const double length = std::max(rois.at(Shape{region, side + 2}).real() * scale - begin, 1.0);
    const double step = (static_cast<double>(sample) + 0.5) / samples;
    return begin + (static_cast<double>(bin) + step) * length / static_cast<double>(count);
  };
  ir::forEachIndex(bins, [&](const Shape& bin) {
    const int64_t image = images[bin[0]].integer();
    if (image < 0 || image >= t[0]) return;
    for (int64_t i = 0; i < integer(op, "sampling_ratio"); ++i) {
      const Between y = between(place(bin[0], 1, bin[2], bins[2], i), t[2]);
      for (int64_t j = 0; j < integer(op, "sampling_ratio"); ++j) {
        const Between x = between(place(bin[0], 0, bin[3], bins[3], j), t[3]);
        const double mean = 1 / (samples * samples);
        f(Shape{image, bin[1], y.low, x.low}, bin, y.lowWeight * x.lowWeight * mean);
        f(Shape{image, bin[1], y.low, x.high}, bin, y.lowWeight * x.highWeight * mean);
        f(Shape{image, bin[1], y.high, x.low}, bin, y.highWeight * x.lowWeight * mean);
        f(Shape{image, bin[1], y.high, x.high}, bin, y.highWeight * x.highWeight * mean);
      }
    }
  });
}

void roiAlignReference(ReferenceContext& c) {
  Array& out = c.out[0];
  forSamples(c.op, c.in[1], c.in[2], c.in[0].shape(), out.shape(),
             [&](const Shape& element, const Shape& bin, double weight) {
               if (weight != 0) out.at(bin) = out.at(bin) + c.in[0].at(element) * Number(weight);
             });
}

void roiAlignGradReference(ReferenceContext& c) {
  Array& out = c.out[0];
  forSamples(c.op, c.in[1], c.in[2], out.shape(), c.in[0].shape(),
             [&](const Shape& element, const Shape& bin, double weight) {
               if (weight != 0) out.at(element) = out.at(element) + c.in[0].at(bin) * Number(weight);
             });
}

}  // namespace

void roiAlign(Defs& defs) {
  OpDef def;
  def.name = "roi_align";
  def.type = "RoiAlign";
  def.doc = "Regions of images, each as the means of bilinear samples in a fixed number of bins.";
  def.operands = {{"t", ir::kFloats, "Images, channels, rows, columns."},
                  {"rois", ir::kFloats, "x1, y1, x2, y2 of each region."},
                  {"batch_index", ir::kInts, "The image of each region; one that does not exist is all 0."}};
  def.results = {{"out", "Regions, channels, rows of bins, columns of bins; of the dtype of `t`."}};
  def.attrs = roiAttrs();
  def.infer = inferRoiAlign;
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("roi_align_grad", {c.outGrad(), c.input(1), c.input(2)}, attrs));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeRoiAlign(specOf(c.op, c.inputs[0], c.inputs[1], c.inputs[2], c.outputs[0]));
  };
  def.reference = roiAlignReference;
  defs.push_back(def);

  OpDef grad;
  grad.name = "roi_align_grad";
  grad.type = "RoiAlignGrad";
  grad.doc = "Gradient of roi_align with respect to `t`; the regions have none.";
  grad.operands = {{"grad", ir::kFloats}, {"rois", ir::kFloats}, {"batch_index", ir::kInts}};
  grad.attrs = roiAttrs();
  grad.attrs.push_back({"shape", AttrType::kInts, "Shape of `t`."});
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.pop_back();
    c.set(0, c.make("roi_align", {c.outGrad(), c.input(1), c.input(2)}, attrs));
  };
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeRoiAlignGrad(specOf(c.op, c.outputs[0], c.inputs[1], c.inputs[2], c.inputs[0]));
  };
  grad.reference = roiAlignGradReference;
  defs.push_back(grad);
}

}  // namespace popxl::ops
