#pragma once

#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace popxl::kernels {

/// A linear map along an axis, as a sparse matrix by rows: result i is the sum of weight * element over its
/// taps, in their order.
struct Taps {
  struct Tap {
    int64_t element;
    double weight;
  };
  std::vector<std::vector<Tap>> rows;

  /// The map of gradients: from as many elements as there are rows to `elements`.
  Taps transposed(int64_t elements) const;
};

struct ResampledAxis {
  int64_t axis;
  Taps taps;
};

/// Operands: t, out. The maps applied one after another, each to what the one before gave. Floats are
/// computed in float32 at least and rounded once; integers may have rows of one tap of weight 1 only.
KernelPtr makeResample(Layout t, Layout out, std::vector<ResampledAxis> axes);

}  // namespace popxl::kernels
