#pragma once

#include "passes/autodiff.h"

namespace popxl::passes {

/// A gradient graph that reads only inputs of its forward graph besides gradients: it computes other forward
/// tensors again, so that they need not be kept between the two. Results of ops with effects (loads,
/// collectives, prints) are still taken from the forward graph. The given graph stays as it is.
GradInfo recompute(const GradInfo& info);

}  // namespace popxl::passes
