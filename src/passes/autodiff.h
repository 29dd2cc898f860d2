#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/ir.h"

namespace popxl::passes {

/// What an input or output of a gradient graph stands for: a tensor of the forward graph, or the gradient of
/// one.
struct Connection {
  bool isGrad;
  ir::Tensor* fwd;
  bool operator==(const Connection&) const = default;
};

/// A gradient graph and how it connects to its forward graph: one Connection per graph input and output.
struct GradInfo {
  ir::Graph* forward = nullptr;
  ir::Graph* graph = nullptr;
  std::vector<Connection> inputs;   ///< gradients of the provided outputs first, then forward tensors
  std::vector<Connection> outputs;  ///< gradients of the required inputs
};

struct AutodiffOptions {
  /// Forward outputs whose gradients the caller will provide; default: all.
  std::optional<std::vector<ir::Tensor*>> gradsProvided;
  /// Forward inputs whose gradients are wanted, in this order; default: all inputs that have one.
  std::optional<std::vector<ir::Tensor*>> gradsRequired;
  /// Gradient graphs to use for called graphs instead of making them.
  std::map<ir::Graph*, GradInfo> known;
};

/// Reverse-mode differentiation of a graph: makes a new graph that computes the gradients of its inputs from
/// the gradients of its outputs and the forward tensors that the adjoints read. Such a tensor that is neither
/// input nor output of the forward graph becomes an output of it, also at its existing call sites. Called
/// graphs are differentiated too.
///
/// Returns the infos of all gradient graphs made or given, by forward graph. Error(kGraph) when the graph or
/// one it calls writes in place, was marked as not differentiable, or can't gain outputs; the Ir is then as
/// before.
std::map<ir::Graph*, GradInfo> autodiff(ir::Graph& forward, const AutodiffOptions& options = {});

}  // namespace popxl::passes
