#pragma once

#include <string_view>
#include <vector>

#include "ops/infer.h"

namespace popxl::ops {

/// How windows of a convolution or a pooling lie over the spatial dimensions.
struct Window {
  std::vector<int64_t> kernel, strides, padsBegin, padsEnd, dilations;
  bool ceil = false;  ///< a last window that only begins inside counts too

  /// Number of positions on each spatial dimension of an input of this shape.
  std::vector<int64_t> positions(const Shape& spatial) const;
};

/// From attributes stride, padding, dilation and `padType` ("not_set", "same_upper", "same_lower", "valid").
/// Empty lists are ones (zeros for padding). Error(kValue) for a wrong length or sign.
Window windowOf(const Op& op, const Shape& spatial, std::vector<int64_t> kernel, std::string_view padType);

/// The dimensions after samples and channels.
inline Shape spatialOf(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

}  // namespace popxl::ops
