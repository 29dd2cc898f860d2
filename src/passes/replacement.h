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

/// For each op of a graph: those that were told to run after it, kept while ops are replaced.
class Followers {
 public:
  explicit Followers(const ir::Graph& graph) {
    for (ir::Op* op : graph.ops()) add(op);
  }

  /// What follows an op follows also those that stand for it, which may be replaced in turn.
  void replace(const ir::Op& op, const std::vector<ir::Op*>& made) {
    for (ir::Op* follower : of_[&op]) {
      for (ir::Op* m : made) follower->addAfter(m);
    }
    for (ir::Op* m : made) {
      add(m);
      of_[m] = of_[&op];
    }
  }

 private:
  void add(ir::Op* op) {
    for (const ir::Op* before : op->after()) of_[before].push_back(op);
  }

  std::unordered_map<const ir::Op*, std::vector<ir::Op*>> of_;
};

/// Replaces ops of a graph. `expand(replacement)` gives one tensor for each result of an op. Whether there
/// was one.
template <typename Expand>
bool replaceOps(ir::Graph& graph, const std::vector<ir::Op*>& ops, const Expand& expand) {
  if (ops.empty()) return false;
  Followers followers(graph);
  for (ir::Op* op : ops) {
    Replacement replacement(*op);
    const std::vector<ir::Tensor*> results = expand(replacement);
    followers.replace(*op, replacement.made());
    for (size_t i = 0; i < results.size(); ++i) graph.replaceAllUses(op->output(i), results[i]);
  }
  graph.eraseOps(ops);
  return true;
}

}  // namespace popxl::passes
