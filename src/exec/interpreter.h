#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "compile/program.h"
#include "exec/engine.h"
#include "exec/evaluate.h"
#include "ir/loop.h"

namespace popxl::exec {

/// Runs the graphs of a program op by op, each by its definition: the answer to what a program means. It
/// shares no kernel, fusion or memory plan with compiled programs and allocates as it goes.
class Interpreter final : public Engine {
 public:
  explicit Interpreter(const compile::Program& program) : program_(program) {}

  void run(std::byte* frame, std::byte* variables, const RemoteMemory& remote,
           std::span<StreamCursor> streams, int64_t replica, int64_t replicas) override;

 private:
  /// A tensor as places in a memory: tensors that share memory share places.
  struct Cells {
    std::shared_ptr<std::byte[]> memory;
    std::vector<int64_t> at;  ///< the element of the memory at each position
  };
  using Frame = std::unordered_map<const ir::Tensor*, Cells>;

  void runGraph(const ir::Graph& graph, Frame& frame);
  void runOp(const ir::Op& op, Frame& frame);
  void runView(const ir::Op& op, Frame& frame);
  void runCompute(const ir::Op& op, Frame& frame);
  void runCall(const ir::Op& op, Frame& frame);
  void runRepeat(const ir::Op& op, Frame& frame);
  void runConditional(const ir::Op& op, Frame& frame);
  std::vector<Cells> iterationInputs(const ir::Op& op, const ir::Loop& loop, const std::vector<Bytes>& values,
                                     int64_t slice, Frame& frame) const;
  std::vector<Bytes> runCallee(const ir::Graph& graph, const std::vector<Cells>& inputs);
  std::byte* nextEntry(const ir::Op& op);
  std::byte* remoteEntry(const ir::Op& op, Frame& frame) const;
  /// Makes result i: the memory of the operand that the op writes in place, else memory of its own.
  void give(const ir::Op& op, size_t i, const Bytes& values, Frame& frame) const;

  Cells& cellsOf(const ir::Tensor* t, Frame& frame) const;
  Bytes read(const ir::Tensor* t, Frame& frame) const;
  void write(const ir::Tensor* t, Frame& frame, const Bytes& values) const;
  static Cells fresh(const ir::Tensor* t, const Bytes& values);
  Cells passed(const ir::Op& op, size_t operand, Frame& frame) const;

  const compile::Program& program_;
  std::unordered_map<const ir::Graph*, std::vector<ir::Op*>> schedules_;
  std::byte* variables_ = nullptr;
  const RemoteMemory* remote_ = nullptr;
  std::span<StreamCursor> streams_;
  int64_t replica_ = 0, replicas_ = 1;
};

}  // namespace popxl::exec
