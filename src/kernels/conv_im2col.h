#pragma once

#include "kernels/conv_plan.h"

namespace popxl::kernels {

/// Convolutions as matrix products: each image's windows are written out as columns, a block of output rows
/// at a time so that they stay in L2. Any sizes and types. Operands as the factories of conv.h say.
KernelPtr makeIm2colConv(const ConvSpec& spec, ConvDirection direction);

}  // namespace popxl::kernels
