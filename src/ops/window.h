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

/// f(output position, input position, element of the window) for every pair of positions inside the input;
/// padding is left out.
template <typename F>
void forWindows(const Window& w, const Shape& outputs, const Shape& inputs, const F& f) {
  const size_t n = inputs.size();
  ir::forEachIndex(outputs, [&](const Shape& out) {
    ir::forEachIndex(w.kernel, [&](const Shape& element) {
      Shape in(n);
      for (size_t d = 0; d < n; ++d) {
        in[d] = out[d] * w.strides[d] - w.padsBegin[d] + element[d] * w.dilations[d];
        if (in[d] < 0 || in[d] >= inputs[d]) return;
      }
      f(out, in, element);
    });
  });
}

/// An index of samples and channels followed by a spatial position.
inline Shape joined(int64_t sample, int64_t channel, const Shape& position) {
  Shape index = {sample, channel};
  index.insert(index.end(), position.begin(), position.end());
  return index;
}

/// From attributes stride, padding, dilation and `padType` ("not_set", "same_upper", "same_lower", "valid").
/// Empty lists are ones (zeros for padding). Error(kValue) for a wrong length or sign.
Window windowOf(const Op& op, const Shape& spatial, std::vector<int64_t> kernel, std::string_view padType);

/// The dimensions after samples and channels.
inline Shape spatialOf(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

}  // namespace popxl::ops
