#pragma once

#include <string>

#include "kernels/kernel.h"

namespace popxl::kernels {

/// Operand: an int32 scalar. Error(kNumeric) unless it is in [low, end); `what` names it in the message.
KernelPtr makeRangeCheck(int32_t low, int32_t end, std::string what);

}  // namespace popxl::kernels
