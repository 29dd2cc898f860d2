#pragma once

#include "kernels/norm.h"

namespace popxl::kernels {

/// Whether the kernels below take these layouts: float32 and channels last.
bool isGroupNormChannelsLast(const GroupNormSpec& spec, const Layout& other);

/// As makeGroupNorm and makeGroupNormGrad for x, y, dy and dx that all lie channels last.
KernelPtr makeGroupNormChannelsLast(const GroupNormSpec& spec);
KernelPtr makeGroupNormGradChannelsLast(const GroupNormSpec& spec);

}  // namespace popxl::kernels
