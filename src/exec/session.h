#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "compile/program.h"
#include "exec/arena.h"
#include "exec/executor.h"

namespace popxl::exec {

/// Bytes that a Session takes from the system.
struct MemoryReport {
  int64_t frameBytes = 0;     ///< activations and temporaries: the planned peak
  int64_t variableBytes = 0;  ///< over all replicas of this process
  int64_t constantBytes = 0;
  int64_t remoteBytes = 0;     ///< remote buffers of all replicas of this process
  int64_t liveLowerBound = 0;  ///< what no plan of the frame can go below
  int64_t total() const { return frameBytes + variableBytes + constantBytes + remoteBytes; }
};

/// Host memory for one stream: `entries` tensors per replica, laid out (entries, replicas, shape...).
struct StreamBuffer {
  std::string stream;
  void* data;
  int64_t entries;
};

/// A compiled program and its memory: variables live in it between runs.
class Session {
 public:
  /// Compiles. Error(kGraph) as compile::compile.
  explicit Session(std::shared_ptr<ir::Ir> ir);

  const std::shared_ptr<ir::Ir>& ir() const { return ir_; }
  std::shared_ptr<ir::Ir> compiledIr() const { return program_->ir; }
  const compile::Program& program() const { return *program_; }

  /// While attached a session owns its memory and can run. Attaching twice or detaching twice changes
  /// nothing.
  void attach();
  void detach();
  bool attached() const { return frame_ != nullptr; }
  /// Whether the last run failed half way, so that the variables are not to be trusted.
  bool failed() const { return failed_; }

  /// Variables from the Ir's host data to the session, and back. Error(kValue) when detached.
  void weightsFromHost();
  void weightsToHost();

  /// Runs the main graph once. Every stream that the program uses must have a buffer; others are ignored. On
  /// an Error while running, further runs are refused until weightsFromHost. Error(kValue) for missing
  /// streams or when detached.
  void run(std::span<const StreamBuffer> buffers);

  /// Known before running; what attached sessions take.
  MemoryReport memory() const;
  /// Bytes of frame and variables that were touched so far, in whole pages; constants count as they are.
  int64_t touchedBytes() const;

 private:
  std::vector<StreamCursor> cursors(std::span<const StreamBuffer> buffers) const;
  int64_t rowOf(const ir::Tensor& variable, int64_t replica) const;
  int64_t shardOf(const compile::RemoteVariable& variable, int64_t replica) const;

  std::shared_ptr<ir::Ir> ir_;
  std::shared_ptr<const compile::Program> program_;
  std::vector<bool> streamUsed_;
  int64_t replicas_;
  std::unique_ptr<Arena> frame_;
  std::vector<Arena> variables_;      // one per replica
  std::vector<RemoteMemory> remote_;  // one per replica
  std::vector<std::unique_ptr<Executor>> executors_;
  bool failed_ = false;
  std::mutex running_;
};

}  // namespace popxl::exec
