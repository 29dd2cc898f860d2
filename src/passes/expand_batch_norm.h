#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Writes inference batch norm of float32 and float64 as elementwise ops, which fuse with the activation and
/// the addition that follow. The factor of each channel is an op of its own, of the parameters alone.
///
///   %y = batch_norm_inference %x, %scale, %bias, %mean, %var
///   // becomes factor = scale / sqrt(var + epsilon); y = (x - mean) * factor + bias
bool expandBatchNorm(ir::Ir& ir);

}  // namespace popxl::passes
