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

}  // namespace popxl::passes
