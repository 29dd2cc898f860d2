#pragma once

#include "kernels/conv_plan.h"

namespace popxl::kernels {

/// Whether the library may use AVX-512 here.
bool onednnHasAvx512();

/// Convolution in float32 by oneDNN's kernels for blocked layouts: each chunk of images (and of channels,
/// when there are few images) is brought to that layout in scratch, convolved and brought back while it is in
/// the cache. Null where the library has no such kernel for these sizes. Operands as the factories of conv.h
/// say.
KernelPtr makeOnednnConv(const ConvSpec& spec, ConvDirection direction);

}  // namespace popxl::kernels
