#pragma once

#include <string_view>

#include "ir/ir.h"

namespace popxl::passes {

/// A rewrite of a whole Ir. Its function lives in src/passes/NAME.cpp, its test in tests/passes/NAME.ir.
struct Pass {
  std::string_view name;
  std::string_view doc;
  bool (*run)(ir::Ir& ir);  ///< true when it changed something
};

/// Calls `change(graph)` for every graph; whether one of the calls says that it changed something.
template <typename Change>
bool changeGraphs(ir::Ir& ir, const Change& change) {
  bool changed = false;
  for (ir::Graph* graph : ir.graphs()) changed = change(*graph) || changed;
  return changed;
}

}  // namespace popxl::passes
