#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ir/op_def.h"

/// Ops that programs bring along. They stay for the life of the process and are found in every table.
namespace popxl::ir {

struct AddedOp {
  OpDef def;
  /// Instead of the ways in which `def` may say how it runs: a graph, of an Ir of its own, from the operands
  /// of an op to its results. Its ops take the op's place when a program is compiled.
  std::shared_ptr<const Graph> (*body)(const Op& op) = nullptr;
  std::shared_ptr<const void> own;  ///< what the functions of `def` work with
};

/// All of them, or none and Error(kValue) for a name that the table has already.
void addOps(const OpTable& table, std::vector<AddedOp> ops);

/// Null when there is none.
const OpDef* findAdded(std::string_view name);
/// What was added with an entry; null for one that the library has of itself.
const AddedOp* addedOp(const OpDef& def);
/// All entries, in the order in which they were added.
std::vector<const OpDef*> addedOps();

}  // namespace popxl::ir
