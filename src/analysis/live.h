#pragma once

#include <functional>
#include <vector>

#include "ir/graph_map.h"
#include "ir/ir.h"

namespace popxl::analysis {

/// What of a program can have an effect: ops that write memory, talk to the host or print, and all that they
/// read. Operands that an op does not read are not followed, through calls too.
class Liveness {
 public:
  /// `reads(op, i)` tells whether op needs the value of operand i at all.
  using Reads = std::function<bool(const ir::Op&, size_t)>;
  Liveness(const ir::Ir& ir, Reads reads);

  /// Ops and tensors that a graph gained since are live, and no results of it.
  bool live(const ir::Op& op) const { return !of(op.graph()).ops.has(&op) || of(op.graph()).ops[&op]; }
  /// Whether anything reads the value of this tensor.
  bool live(const ir::Tensor& t) const { return !of(t.graph()).tensors.has(&t) || of(t.graph()).tensors[&t]; }
  /// Whether op needs operand i; for a call, whether the called graph does.
  bool reads(const ir::Op& op, size_t i) const;
  /// Whether some op that runs the graph needs its result i; true for results of the main graph.
  bool returns(const ir::Graph& graph, size_t i) const { return of(graph).returns[i]; }
  /// Whether the tensor is a result of its graph that is needed.
  bool returned(const ir::Tensor& t) const {
    return of(t.graph()).returned.has(&t) && of(t.graph()).returned[&t];
  }

 private:
  /// What is known of one graph.
  struct GraphInfo {
    explicit GraphInfo(const ir::Graph& graph)
        : ops(graph, false),
          tensors(graph, false),
          inputOf(graph, -1),
          returns(graph.outputs().size(), false),
          returned(graph, false) {}
    bool visited = false;            // findEffects has seen it
    bool effectful = false;          // a call of it has an effect
    bool entered = false;            // called by a live op, or the main graph
    ir::OpMap<bool> ops;             // live ones
    ir::TensorMap<bool> tensors;     // live ones
    ir::TensorMap<int32_t> inputOf;  // position of a graph input
    /// Where it is called: the operand that stands for its first input.
    std::vector<ir::Use> sites;
    std::vector<bool> returns;     // results that are needed
    ir::TensorMap<bool> returned;  // tensors that are such a result
  };

  GraphInfo& of(const ir::Graph& graph) { return graphs_[static_cast<size_t>(graph.index())]; }
  const GraphInfo& of(const ir::Graph& graph) const { return graphs_[static_cast<size_t>(graph.index())]; }
  void findEffects(const ir::Graph& graph);
  bool hasEffect(const ir::Op& op) const;
  void markOp(const ir::Op& op);
  void markTensor(const ir::Tensor& t);
  void enter(const ir::Graph& graph);
  void follow(const ir::Op& op);
  void follow(const ir::Tensor& t);
  void findReturned(const ir::Graph& graph);

  Reads reads_;
  std::vector<GraphInfo> graphs_;  // by index
  std::vector<const ir::Op*> opWork_;
  std::vector<const ir::Tensor*> tensorWork_;
};

}  // namespace popxl::analysis
