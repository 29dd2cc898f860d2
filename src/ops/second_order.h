#pragma once

#include "ops/define.h"

namespace popxl::ops {

/// Gives every elementwise gradient op without a rule one: an op `<gradient op>_wrt_<operand>` for each of
/// its operands, whose arithmetic is derived from that of the gradient op.
void addSecondOrder(Defs& defs);

}  // namespace popxl::ops
