#pragma once

#include <vector>

#include "ir/ir.h"

namespace popxl::passes {

/// Makes one multi_exchange of those of the ops of a graph that are transfers and do not depend on each
/// other, several where some do. Their results become its results.
void mergeExchanges(ir::Graph& graph, const std::vector<ir::Op*>& ops);

}  // namespace popxl::passes
