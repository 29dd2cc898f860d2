#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/custom_trace.h"
#include "ir/added_ops.h"
#include "popxl/custom_op.h"

namespace popxl::api {

/// What the entry of an op of a program's own works with.
struct Custom {
  explicit Custom(CustomOp custom) : op(std::move(custom)) {}
  const CustomOp op;
  mutable Traces bodies, gradients;
};
inline const Custom& customOf(const ir::OpDef& def) {
  return *static_cast<const Custom*>(ir::addedOp(def)->own.get());
}

/// What a gradient of the op may read, in the order in which it does by default.
std::vector<std::string> gradientOperands(const CustomOp& op);
/// The composition of an op, for its operands and attributes.
std::shared_ptr<const ir::Graph> bodyOf(const ir::Op& op);

/// The table's entries of an op: its own, and that of a gradient on arrays.
void addDefs(CustomOp op, std::vector<ir::AddedOp>& defs);
/// Adds ops to the table: all of them, or none and an Error.
void registerOps(std::vector<CustomOp> list);

}  // namespace popxl::api
