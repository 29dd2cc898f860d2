#include "kernels/roi_align.h"

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
  if (integer(op, "sampling_ratio") < 1) {
    fail(ErrorKind::kValue, "`sampling_ratio` is {}; it must be positive", integer(op, "sampling_ratio"));
  }
  out.push_back({typeOf(op, 0).dtype, {rois[0], t[1], size[0], size[1]}, {}});
}

kernels::RoiAlignSpec specOf(const Op& op, const Layout& t, const Layout& rois, const Layout& images,
                             const Layout& out) {
  return {t, rois, images, out, op.attr<double>("spatial_scale"), integer(op, "sampling_ratio")};
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
  defs.push_back(grad);
}

}  // namespace popxl::ops
