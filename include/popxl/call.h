#pragma once

#include <popxl/graph.h>

#include <concepts>
#include <utility>
#include <vector>

namespace popxl {

namespace ir {
class Op;
}  // namespace ir

/// Pairs of a tensor of a called graph and what to pass for it.
using InputMap = std::vector<std::pair<Tensor, Tensor>>;

/// One call of a graph: maps tensors of the called graph to those of the calling one.
class CallSite {
 public:
  CallSite(std::shared_ptr<ir::Ir> ir, ir::Op* op) : ir_(std::move(ir)), op_(op) {}

  Graph calledGraph() const;
  std::vector<Tensor> inputs() const;   ///< operands, in the calling graph
  std::vector<Tensor> outputs() const;  ///< results, in the calling graph
  /// The operand or result that stands for an input or output of the called graph. Error(kValue) for any
  /// other tensor.
  Tensor graphToParent(const Tensor& graphTensor) const;
  /// The input or output of the called graph for which an operand or result stands: the first. Error(kValue)
  /// otherwise.
  Tensor parentToGraph(const Tensor& parentTensor) const;
  /// Declares that the call changes an operand in place, as if the graph's input were by reference.
  void setParentInputModified(const Tensor& parentTensor);

  ir::Op* get() const { return op_; }

 private:
  std::shared_ptr<ir::Ir> ir_;
  ir::Op* op_;
};

/// A graph to be called, with the place of the call: a default argument can't follow a pack.
struct LocatedGraph {
  const Graph& graph;
  std::source_location where;
  // NOLINTNEXTLINE(google-explicit-constructor): the conversion is the point
  LocatedGraph(const Graph& g, std::source_location at = std::source_location::current())
      : graph(g), where(at) {}
};

namespace ops {

/// Calls a graph: `inputs` in order for the graph's first inputs, `byTensor` for others. Error(kValue) when
/// an input is missing, given twice or not the graph's; Error(kGraph) when shape or dtype differ.
CallSite callWithInfo(const Graph& graph, const std::vector<Tensor>& inputs, const InputMap& byTensor = {},
                      std::source_location where = std::source_location::current());
/// Runs a graph `count` times; its first outputs become its first inputs of the next time. The results are
/// the outputs of the last time.
CallSite repeatWithInfo(const Graph& graph, int64_t count, const std::vector<Tensor>& inputs,
                        const InputMap& byTensor = {},
                        std::source_location where = std::source_location::current());

/// The same with a count that is known only when the program runs: one integer, at most `maxCount`.
CallSite repeatWithInfo(const Graph& graph, const Tensor& count, int64_t maxCount,
                        const std::vector<Tensor>& inputs, const InputMap& byTensor = {},
                        std::source_location where = std::source_location::current());

/// What a scan gives: carried values of the last time, and what was stacked of all times.
struct ScanResult {
  std::vector<Tensor> carried, stacked;
};
/// Runs a graph once for each slice of the tensors `xs`, from the last to the first with `reverse`. The graph
/// takes carried values (`init` the first time), a slice of each of `xs`, then `inputs`, the same each time;
/// it gives the carried values for the next time, then outputs that are stacked. Error(kValue) when there is
/// no `xs`, or their first dimensions differ.
ScanResult scan(const Graph& graph, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
                const std::vector<Tensor>& inputs = {}, bool reverse = false,
                std::source_location where = std::source_location::current());
/// Runs `body` as long as `cond` is true, `maxIterations` times at most; its outputs become the first inputs
/// of both. `cond` gives one bool from the first of the inputs of `body`, or all.
std::vector<Tensor> whileLoop(const Graph& cond, const Graph& body, int64_t maxIterations,
                              const std::vector<Tensor>& inputs,
                              std::source_location where = std::source_location::current());

/// The outputs of a call, or of a repetition, with all inputs in order.
template <std::same_as<Tensor>... Tensors>
std::vector<Tensor> call(LocatedGraph graph, const Tensors&... inputs) {
  return callWithInfo(graph.graph, {inputs...}, {}, graph.where).outputs();
}
template <std::same_as<Tensor>... Tensors>
std::vector<Tensor> repeat(LocatedGraph graph, int64_t count, const Tensors&... inputs) {
  return repeatWithInfo(graph.graph, count, {inputs...}, {}, graph.where).outputs();
}

}  // namespace ops
}  // namespace popxl
