#pragma once

#include "kernels/kernel.h"

namespace popxl::kernels {

/// Mean of bilinear samples of regions: t [N, C, H, W] and rois [R, 4] (x1, y1, x2, y2) of one float dtype,
/// images [R] an integer dtype, out [R, C, rows, columns]. A region, times `scale`, is cut into rows x
/// columns bins, with samples x samples points in each; a side counts as 1 at least. Points more than 1
/// outside the image count as 0, as do regions of an image that does not exist.
struct RoiAlignSpec {
  Layout t, rois, images, out;
  double scale = 1;
  int64_t samples = 1;
};

/// Operands: t, rois, images, out.
KernelPtr makeRoiAlign(const RoiAlignSpec& spec);
/// Operands: gradient of out, rois, images, gradient of t. Layout `out` describes the first, `t` the last.
KernelPtr makeRoiAlignGrad(const RoiAlignSpec& spec);

}  // namespace popxl::kernels
