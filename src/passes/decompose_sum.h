#pragma once

#include "ir/ir.h"

namespace popxl::passes {

/// Splits every sum of more than two tensors into one add per tensor onto zeros, in the order in which the
/// tensors become available, so that none has to wait for the last. A sum of n tensors becomes one `init` and
/// n `add`.
///
///   %s = add_n %a, %b, %c : float32 (2)
///
/// becomes
///
///   %s_init = init {shape = [2], dtype = float32} : float32 (2)
///   %s_0 = add %s_init, %a : float32 (2)
///   %s_1 = add %s_0, %b : float32 (2)
///   %s_2 = add %s_1, %c : float32 (2)
bool decomposeSum(ir::Ir& ir);
bool decomposeSum(ir::Graph& graph);

}  // namespace popxl::passes
