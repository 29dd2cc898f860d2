#pragma once

#include <span>
#include <vector>

#include "compile/program.h"
#include "exec/exchange.h"
#include "exec/worker.h"

namespace popxl::exec {

/// Runs a Program on all replicas in lock step: from one collective to the next the replicas are work items
/// for the threads, each of which has one frame; a collective is done for all replicas at once. Nothing
/// waits for another replica, so that any number of them run on one core. Allocates nothing after the first
/// run, unless it is recorded.
class Executor final : public Engine {
 public:
  Executor(const compile::Program& program, Exchange& exchange);

  void prepare(const Memory& memory) override;
  void run(const Memory& memory) override;

  bool hasInstructions() const override { return true; }
  void setRecorder(Recorder* recorder) override;

 private:
  /// A graph that the replicas run in lock step: its frame and the table of its arguments, as offsets in the
  /// replica's own frame. The main graph has no arguments.
  struct InStep {
    int64_t frame = 0;
    int64_t table = -1;
  };
  Frame frameOf(const Lane& lane, const InStep& step) const;
  std::byte** tableOf(const Lane& lane, const InStep& step) const;
  void begin(const Memory& memory);
  void runInStep(const compile::Code& code, const InStep& step);
  void runSegment(const compile::Code& code, size_t begin, size_t end, const InStep& step);
  void runCut(const compile::Instruction& instruction, const InStep& step);
  void runCollective(const compile::RunCollective& collective, const ir::Op& op, const InStep& step);
  void callInStep(const compile::RunCall& call, const InStep& step);
  void repeatInStep(const compile::RunRepeat& repeat, const ir::Op& op, const InStep& step);
  template <typename Value>
  int64_t agreedValue(const ir::Op& op, const InStep& step, const Value& value);

  const compile::Program& program_;
  Exchange& exchange_;
  bool prints_ = false;
  std::vector<Worker> workers_;        // one for each frame
  std::vector<std::byte*> from_, to_;  // of a collective, by replica of this process
  std::vector<int64_t> values_;        // of a condition or trip count, by replica
  Memory memory_;
  Recorder* recorder_ = nullptr;
};

}  // namespace popxl::exec
