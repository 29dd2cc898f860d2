#pragma once

#include <vector>

#include "compile/group_expr.h"
#include "compile/storage.h"

namespace popxl::compile {

/// One unit of execution: a group of elementwise ops that becomes one kernel, or a single other op.
struct Step {
  std::vector<const ir::Op*> ops;
  bool elementwise = false;
  const ir::Op* producer = nullptr;  ///< of a group: another op that runs first and whose result it reads
};

/// Cuts ordered live ops into steps. Elementwise ops of one shape are fused with their producers where
/// nothing in between reads or writes what the move would change. Views that move no data make no step.
std::vector<Step> fuse(const ir::Graph& graph, const std::vector<ir::Op*>& order, const StorageMap& storages,
                       const analysis::Liveness& liveness);

/// Moves ops that can apply an elementwise group to their result (OpDef::groupKernel) into the step of the
/// group that reads it.
void attachProducers(std::vector<Step>& steps, const StorageMap& storages,
                     const analysis::Liveness& liveness);

/// Lets a kernel whose result is only copied into a variable write there at once: the copy's step goes.
void writeCopiesAtOnce(std::vector<Step>& steps, StorageMap& storages);

/// The positions that an elementwise op computes: the shape of its results, or what it reduces.
Shape spaceOf(const ir::Op& op);

}  // namespace popxl::compile
