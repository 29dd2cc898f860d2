#pragma once

#include "kernels/elementwise.h"

namespace popxl::compile {

/// Renames the dimensions of a kernel's space so that it walks its first output (a reduction: the first
/// operand of full size that it reads) in the order of memory. Which element meets which stays the same.
void walkInMemoryOrder(kernels::ElementwiseSpec& spec);
void walkInMemoryOrder(kernels::ReduceSpec& spec);

}  // namespace popxl::compile
