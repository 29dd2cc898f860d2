#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "ir/ir.h"

namespace popxl::ir {

struct ParseOptions {
  /// Bytes that variables and constants of one text may take together; 0: the machine's memory.
  int64_t maxDataBytes = 0;
};

/// Reads the text form (docs/ir.md). Every op is made through Graph::addOp, so inference runs again.
/// Error(kValue) with line and column, what was expected and what is there, and the line; an op that is
/// refused keeps its own kind of error.
std::shared_ptr<Ir> parse(std::string_view text, const OpTable& table, const ParseOptions& options = {});

}  // namespace popxl::ir
