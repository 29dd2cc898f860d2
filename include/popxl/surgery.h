#pragma once

#include <popxl/transforms.h>

#include <string_view>
#include <vector>

// Copying, moving and extending parts of a program: what libraries above this one build on.
namespace popxl::transforms {

/// A graph with the same inputs, ops and outputs, in the same Ir. Graphs that it calls are shared.
/// Error(kValue) for the main graph.
Graph cloneGraph(const Graph& graph);

/// Copies all ops of a graph to the end of another one of the same Ir. `tensors` pairs inputs and variables
/// of `source` with what stands for them in `target`; constants are copied. Gives `tensors` with those that
/// were made. Error(kValue) when an op reads something for which nothing stands, or the graphs are of two
/// Irs; then nothing is copied.
InputMap copyOps(const Graph& source, const Graph& target, const InputMap& tensors);

/// A graph that does what the main graph did, and the variables to pass for its inputs.
struct OutlinedMain {
  Graph graph;
  std::vector<Tensor> variables;
};
/// Moves what the main graph does into a graph, which can then be repeated. The main graph keeps its
/// variables and loses its ops; those that are written are inputs by reference.
OutlinedMain outlineMain(const Ir& ir, std::string_view name = "main");

/// Makes a tensor one more output of its graph, also where that is run already: a call gains a result, a
/// repeat one that holds the values of all iterations. Error(kGraph) where the graph is a branch of a
/// conditional.
void addOutput(const Graph& graph, const Tensor& tensor);
/// Takes an output back. Error(kIndex) when there is none, Error(kGraph) when the graph is run somewhere.
void removeOutput(const Graph& graph, size_t index);

/// Lets every op of a graph that reads a tensor read another one, outputs of the graph included.
/// Error(kValue) when one is of another graph, they differ in shape or dtype, or an op that reads the old one
/// must run before the new one.
void replaceUses(const Graph& graph, const Tensor& old, const Tensor& by);

/// Describes a gradient graph that was made by hand, for `AutodiffOptions::known`. Error(kValue) when the
/// connections are not one for each input and output, or not what these can stand for.
GradGraphInfo makeGradInfo(const Graph& forward, const Graph& graph, std::vector<ExpectedConnection> inputs,
                           std::vector<ExpectedConnection> outputs);

}  // namespace popxl::transforms
