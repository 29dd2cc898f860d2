#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"

namespace popxl::passes {

/// Makes ops that stand for one op of a graph: each runs where and when it did, and has its place in the
/// user's program.
class Replacement {
 public:
  explicit Replacement(ir::Op& op) : op_(op), graph_(op.graph()) {}

  /// The op that is replaced, and its graph.
  ir::Op& op() const { return op_; }
  ir::Graph& graph() const { return graph_; }
  const std::vector<ir::Op*>& made() const { return made_; }

  /// Makes an op of the table; its results are named after those of the replaced op.
  ir::Op* make(std::string_view name, std::vector<ir::Tensor*> inputs, std::vector<ir::Attr> attrs = {}) {
    ir::OpRequest request{
        std::move(inputs), std::move(attrs), false, {op_.output()->name() + "_" + std::string(name)},
        op_.settings(),    op_.loc()};
    made_.push_back(graph_.addOp(*graph_.ir().table().find(name), std::move(request)));
    for (ir::Op* before : op_.after()) made_.back()->addAfter(before);
    return made_.back();
  }

 private:
  ir::Op& op_;
  ir::Graph& graph_;
  std::vector<ir::Op*> made_;
};

/// Replaces ops of a graph. `expand(replacement)` gives one tensor for each result of an op. Whether there
/// was one.
template <typename Expand>
bool replaceOps(ir::Graph& graph, const std::vector<ir::Op*>& ops, const Expand& expand) {
  if (ops.empty()) return false;
  std::unordered_map<const ir::Op*, std::vector<ir::Op*>> followers;
  for (ir::Op* op : graph.ops()) {
    for (const ir::Op* before : op->after()) followers[before].push_back(op);
  }
  for (ir::Op* op : ops) {
    Replacement replacement(*op);
    const std::vector<ir::Tensor*> results = expand(replacement);
    for (ir::Op* follower : followers[op]) {
      for (ir::Op* made : replacement.made()) follower->addAfter(made);
    }
    for (size_t i = 0; i < results.size(); ++i) graph.replaceAllUses(op->output(i), results[i]);
  }
  graph.eraseOps(ops);
  return true;
}

}  // namespace popxl::passes
