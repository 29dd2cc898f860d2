#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compile/program.h"
#include "exec/engine.h"
#include "exec/evaluate.h"
#include "exec/exchange.h"
#include "ir/loop.h"

namespace popxl::exec {

/// Runs the graphs of a program op by op, each by its definition: the answer to what a program means. It
/// shares no kernel, fusion or memory plan with compiled programs and allocates as it goes.
class Interpreter final : public Engine {
 public:
  /// `exchange`: with the replicas of other processes; null where there are none.
  explicit Interpreter(const compile::Program& program, Exchange* exchange = nullptr)
      : program_(program), exchange_(exchange) {}

  void run(const Memory& memory) override;
  /// The condition of a conditional on each of so many replicas, where it follows from constants alone.
  std::optional<std::vector<int64_t>> knownCondition(const ir::Op& conditional, size_t replicas);

 private:
  /// A tensor as places in a memory: tensors that share memory share places.
  struct Cells {
    std::shared_ptr<std::byte[]> memory;
    std::vector<int64_t> at;  ///< the element of the memory at each position
  };
  /// The tensors that a replica has made in a graph.
  struct Frame {
    Lane* lane;
    int64_t replica;
    std::unordered_map<const ir::Tensor*, Cells> cells;
  };
  using Frames = std::vector<Frame>;  ///< of the replicas that run a graph

  void runGraph(const ir::Graph& graph, Frames& frames);
  void runOp(const ir::Op& op, Frame& frame);
  void runView(const ir::Op& op, Frame& frame);
  void runCompute(const ir::Op& op, Frame& frame);
  // Ops that all replicas run together, op by op: each sees the others at a collective.
  bool runTogether(const ir::Op& op, Frames& frames);
  void runCollective(const ir::Op& op, Frames& frames);
  void runCall(const ir::Op& op, Frames& frames);
  void runRepeat(const ir::Op& op, Frames& frames);
  void iterate(const ir::Op& op, const ir::Loop& loop, int64_t count, Frames& frames,
               std::vector<std::vector<Bytes>>& values, std::vector<std::vector<Bytes>>& stacks);
  void runConditional(const ir::Op& op, Frames& frames);
  int64_t agreedByAll(const ir::Op& op, const std::vector<int64_t>& values) const;
  void runBranch(const ir::Op& op, bool isThen, Frames& frames);
  using Inputs = std::vector<Cells>;
  Inputs iterationInputs(const ir::Op& op, const ir::Loop& loop, const std::vector<Bytes>& values,
                         int64_t slice, Frame& frame) const;
  /// Results of a graph for each replica, given its inputs.
  std::vector<std::vector<Bytes>> runCallee(const ir::Graph& graph, const Frames& callers,
                                            const std::vector<Inputs>& inputs);
  std::byte* nextEntry(const ir::Op& op, Frame& frame);
  int64_t remoteEntry(const ir::Op& op, Frame& frame) const;
  /// Makes result i: the memory of the operand that the op writes in place, else memory of its own.
  void give(const ir::Op& op, size_t i, const Bytes& values, Frame& frame) const;

  Cells& cellsOf(const ir::Tensor* t, Frame& frame) const;
  Bytes read(const ir::Tensor* t, Frame& frame) const;
  void write(const ir::Tensor* t, Frame& frame, const Bytes& values) const;
  static Cells fresh(const ir::Tensor* t, const Bytes& values);
  Cells passed(const ir::Op& op, size_t operand, Frame& frame) const;

  const compile::Program& program_;
  Exchange* exchange_;
  std::unordered_map<const ir::Graph*, std::vector<ir::Op*>> schedules_;
  std::byte* shared_ = nullptr;
  size_t replicas_ = 1;
};

/// Error(kValue) for a conditional around a collective whose condition, by constants alone, is not the same
/// on all replicas.
void checkConditions(const compile::Program& program);

}  // namespace popxl::exec
