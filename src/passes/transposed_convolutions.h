#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Writes transposed convolutions of stride 1 as convolutions with the weights turned round.
///
///   %y = conv_transpose %x, %w     // becomes %f = conv_flip_weights %w; %y = conv %x, %f
bool transposedConvolutions(ir::Ir& ir);

}  // namespace popxl::passes
