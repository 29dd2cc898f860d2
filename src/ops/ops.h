#pragma once

#include <string_view>

#include "ir/op_def.h"

/// The op table: every op that a graph may hold, one entry each. Everything about an op that is not said in
/// its entry is derived from it. docs/add-an-op.md shows how to add one.
namespace popxl::ops {

/// All ops, in the order of families.def.
const ir::OpTable& table();
/// The entry of an op that exists; an assertion otherwise.
const ir::OpDef& def(std::string_view name);

}  // namespace popxl::ops
