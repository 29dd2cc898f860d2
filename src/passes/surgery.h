#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"
#include "passes/autodiff.h"

namespace popxl::passes {

/// What stands for each tensor of one graph in another.
using TensorMapping = std::unordered_map<const ir::Tensor*, ir::Tensor*>;

/// Copies an op to the end of another graph of the same Ir. `tensors` tells what stands for its operands; its
/// results are added. Constants are copied where nothing stands for them; for other tensors that is
/// Error(kValue). Ordering constraints on ops that were not copied are left out: see copyOps.
ir::Op& copyOp(const ir::Op& op, ir::Graph& to, TensorMapping& tensors);

/// Copies all ops of a graph, in the order in which data flows, with the ordering constraints among them.
/// Errors are those of copyOp; Error(kValue) for a graph of another Ir. Then there is no copy of any op.
void copyOps(const ir::Graph& from, ir::Graph& to, TensorMapping& tensors);

/// The ops, in the order in which data flows, that compute a tensor from results of ops that `stops` names.
std::vector<ir::Op*> computing(const ir::Tensor& t, const std::function<bool(const ir::Op&)>& stops);

/// What stands for `t`: a copy made now if it is a constant. Error(kValue) when nothing does.
ir::Tensor* mapped(ir::Tensor* t, ir::Graph& to, TensorMapping& tensors);

/// A copy of a graph in the same Ir, named after it. Error(kValue) for the main graph: variables and streams
/// can't be in another.
ir::Graph& cloneGraph(const ir::Graph& graph);

/// A graph that does what the main graph did, and the variables to pass for its inputs.
struct Outlined {
  ir::Graph* graph;
  std::vector<ir::Tensor*> variables;
};
/// Moves the ops of the main graph into a new graph. What is written of the variables that they use is by
/// reference. The main graph keeps its variables.
Outlined outlineMain(ir::Ir& ir, const std::string& name);

/// Takes an output back. Error(kIndex) when there is no such output, Error(kGraph) when the graph is run
/// somewhere.
void removeOutput(ir::Graph& graph, size_t index);

/// Error(kValue) unless there is a connection for each input and output of the gradient graph, its inputs
/// stand for gradients of outputs of the forward graph or for inputs or outputs of it, and its outputs for
/// gradients of inputs.
void checkGradInfo(const GradInfo& info);

/// Every use of a tensor of a graph becomes a use of another; graph outputs too. Error(kValue) when one of
/// them is of another graph, they differ in shape or dtype, or an op that reads the old one must run before
/// the new one.
void replaceUses(ir::Graph& graph, ir::Tensor* old, ir::Tensor* by);

}  // namespace popxl::passes
