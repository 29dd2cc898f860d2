#pragma once

#include "kernels/pool.h"
#include "kernels/pool_simd.h"

namespace popxl::kernels {

/// A pooling of float32 whose operands all lie channels last. Operands as pool.h says for each pass.
KernelPtr makePoolChannelsLast(const PoolSpec& spec, simd::PoolPass pass, const simd::PoolSizes& sizes,
                               std::string text);

}  // namespace popxl::kernels
