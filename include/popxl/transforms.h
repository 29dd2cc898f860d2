#pragma once

#include <popxl/call.h>
#include <popxl/ir.h>

#include <optional>
#include <vector>

namespace popxl::transforms {

/// What an input or output of a gradient graph stands for.
struct ExpectedConnection {
  bool isGradient;  ///< the gradient of `forward`, else its value
  Tensor forward;
};

/// A gradient graph and how it connects to the graph that was differentiated.
struct GradGraphInfo {
  Graph forwardGraph;
  Graph graph;
  std::vector<ExpectedConnection> expectedInputs;   ///< one per input; gradients of outputs first
  std::vector<ExpectedConnection> expectedOutputs;  ///< one per output: gradients of inputs

  /// What a call of `graph` needs from a call of the forward graph, besides the gradients. Error(kType) for a
  /// call of another graph.
  InputMap inputsDict(const CallSite& forwardCall) const;
  /// The gradient that `gradCall` computes of the forward call's operand; of the first input when it was
  /// passed for several. Error(kValue) when it computes none.
  Tensor gradientOf(const Tensor& forwardOperand, const CallSite& forwardCall,
                    const CallSite& gradCall) const;
  /// All gradients that `gradCall` computes, by input of the forward graph.
  InputMap forwardInsToGradOuts(const CallSite& gradCall) const;
  /// The same by operand of the forward call.
  InputMap forwardParentInsToGradOuts(const CallSite& forwardCall, const CallSite& gradCall) const;
};

struct AutodiffOptions {
  std::optional<std::vector<Tensor>> gradsProvided;  ///< outputs; default: all
  std::optional<std::vector<Tensor>>
      gradsRequired;                      ///< inputs, in this order; default: all that have a gradient
  std::vector<GradGraphInfo> known = {};  ///< gradient graphs to use for called graphs instead of making them
};

/// Reverse-mode differentiation: makes a graph that computes gradients of the inputs from gradients of the
/// outputs. The forward graph and its calls gain the outputs that this needs. Error(kGraph) when an op writes
/// in place.
GradGraphInfo autodiff(const Graph& graph, const AutodiffOptions& options = {});

/// A gradient graph that reads only inputs of its forward graph besides gradients: it computes other forward
/// tensors again, so that they need not be kept between the two. Results of ops with effects are still taken.
GradGraphInfo recompute(const GradGraphInfo& info);

/// Runs a pass over the whole program, by the name that popxl-opt knows; whether it changed the program.
/// Error(kValue) when there is no such pass.
bool runPass(const Ir& ir, std::string_view name);

}  // namespace popxl::transforms
