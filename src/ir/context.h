#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace popxl::ir {

enum class SequenceMode : uint8_t { kOrdered, kUnordered, kPass };

/// What is in force while a program is built: the current graph, name scopes, IPU, tile set, execution
/// context, order. One per thread; Python's context managers and the C++ guards push and pop it.
class Context {
 public:
  static Context& current();

  void pushGraph(Graph& g);  ///< Error(kRuntime) if a graph of another Ir is entered
  void popGraph();
  Graph* graph() const { return graphs_.empty() ? nullptr : graphs_.back(); }
  /// Error(kRuntime) when no graph is entered.
  Graph& requireGraph() const;

  void pushScope(std::string_view name);
  void popScope();
  const std::vector<std::string>& scopes() const { return scopes_; }
  /// Name scopes of the current graph joined with `name` by '/'.
  std::string scopedName(std::string_view name) const;

  void pushIpu(std::optional<int32_t> ipu) { ipus_.push_back(ipu.value_or(-1)); }
  void popIpu() { ipus_.pop_back(); }
  int32_t ipu() const { return ipus_.empty() ? 0 : ipus_.back(); }
  void pushTileSet(TileSet t) { tileSets_.push_back(t); }
  void popTileSet() { tileSets_.pop_back(); }
  TileSet tileSet() const { return tileSets_.empty() ? TileSet::kUndefined : tileSets_.back(); }
  void pushExecution(ExecutionContext c) { executions_.push_back(c); }
  void popExecution() { executions_.pop_back(); }
  ExecutionContext execution() const {
    return executions_.empty() ? ExecutionContext::kNormal : executions_.back();
  }

  void pushSequence(SequenceMode mode);
  void popSequence();
  /// Whether ops made now are ordered; nullopt when no in_sequence is in force.
  std::optional<SequenceMode> sequence() const;

  Settings settings() const;
  /// Makes an op in the current graph under everything in force: the way all programs add ops. Runs hooks.
  Op* addOp(const OpDef& def, std::vector<Tensor*> inputs, std::vector<Attr> attrs, Loc loc,
            bool inplace = false, std::vector<std::string> outputNames = {});

  /// Called with every op made through this context, whatever its graph.
  int64_t addHook(Graph::Hook hook);
  void removeHook(int64_t handle);

 private:
  struct Key {
    const Graph* graph;
    ExecutionContext context;
    auto operator<=>(const Key&) const = default;
  };
  struct Frontier {
    std::vector<Op*> entry, tail;
  };
  struct Level {
    SequenceMode mode;
    std::map<Key, Frontier> at;
  };
  void order(Op& op);
  Frontier& frontier(size_t level, const Key& key);

  std::vector<Graph*> graphs_;
  std::vector<std::string> scopes_;
  std::vector<size_t> scopeBases_;  // number of scopes when each graph was entered
  std::vector<int32_t> ipus_;
  std::vector<TileSet> tileSets_;
  std::vector<ExecutionContext> executions_;
  std::vector<Level> levels_;
  std::vector<std::pair<int64_t, Graph::Hook>> hooks_;
  int64_t nextHook_ = 0;
};

}  // namespace popxl::ir
