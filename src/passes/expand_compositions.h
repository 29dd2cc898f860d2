#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Writes ops that are compositions of other ops as these.
///
///   %y = leaky_relu %x {alpha = 0.1}     // becomes %n = mul %x, %alpha; %y = maximum %x, %n
bool expandCompositions(ir::Ir& ir);

}  // namespace popxl::passes
