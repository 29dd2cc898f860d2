#pragma once

#include "ir/ir.h"

namespace popxl::ir {

/// Checks what must hold between any two passes: operands, results and outputs belong to their graph, uses
/// are listed on both sides, attributes have their types, results are what inference gives, called graphs
/// exist and do not call themselves, data and ordering constraints have no cycle. InternalError otherwise,
/// with the op, its neighbours and the user's line.
void verify(const Ir& ir);

}  // namespace popxl::ir
