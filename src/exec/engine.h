#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/recorder.h"
#include "exec/remote_memory.h"
#include "ir/ir.h"

namespace popxl::exec {

/// Host memory behind one stream for one run: `entries` tensors per replica, entry e of replica r at
/// data + (e * replicas + r) * bytes of one tensor.
struct StreamCursor {
  std::byte* data = nullptr;
  int64_t entries = 0;
  int64_t next = 0;

  /// The memory of the next entry. Error(kValue) naming the op when there is none left.
  std::byte* take(const ir::Stream& stream, const ir::Op& op, int64_t replica, int64_t replicas);
};

/// How often a repeat runs whose trip count is a tensor with value `trips`. Error(kNumeric) naming the op
/// when that is more than it has room for.
int64_t tripCount(const ir::Op& op, int64_t trips);

/// What carries out a program on one replica's memory.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Works on variables that came from the host, once before the runs that follow.
  virtual void prepare(std::byte* /*frame*/, std::byte* /*variables*/) {}
  /// Runs the main graph once. `frame` holds the program's main().frameBytes, `variables` its variableBytes;
  /// one cursor per stream of the program. Error(kValue) when a stream runs out of entries, or a remote
  /// buffer has no such entry.
  virtual void run(std::byte* frame, std::byte* variables, const RemoteMemory& remote,
                   std::span<StreamCursor> streams, int64_t replica, int64_t replicas) = 0;
  /// Whether it carries out a compiled program's instructions, which have times and a plan of memory.
  virtual bool hasInstructions() const { return false; }
  /// From now on takes the time of every instruction; null: no more.
  virtual void setRecorder(Recorder*) {}
};

}  // namespace popxl::exec
