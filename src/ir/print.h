#pragma once

#include <cstdint>
#include <string>

#include "ir/ir.h"

namespace popxl::ir {

struct PrintOptions {
  bool locations = true;
  /// Data of variables and constants above this many bytes is named by its size only; such a text does not
  /// parse.
  int64_t elideDataAbove = INT64_MAX;
};

/// The text form (docs/ir.md). print(*parse(print(ir))) == print(ir).
std::string print(const Ir& ir, const PrintOptions& options = {});
/// One graph, as it stands in the text of its Ir.
std::string print(const Graph& graph, const PrintOptions& options = {});
/// "name = value, ..." of the options that are not as they are by default.
std::string print(const SessionOptions& options);

}  // namespace popxl::ir
