#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// One replica's memory, and where it is in the streams of a run.
struct Lane {
  std::byte* variables = nullptr;     ///< the program's variableBytes
  std::byte* frame = nullptr;         ///< its main().laneBytes
  RemoteMemory* remote = nullptr;     ///< of all replicas of the process
  std::vector<StreamCursor> streams;  ///< one for each stream of the program
};

/// The memory that a program runs on.
struct Memory {
  std::span<Lane> lanes;               ///< the replicas of this process
  std::span<std::byte* const> frames;  ///< main().frameBytes each: so many replicas run at once
  std::byte* shared = nullptr;         ///< sharedBytes
  std::byte* exchange = nullptr;       ///< what Exchange::run wants
};

/// What carries out a program.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Works on variables that came from the host, once before the runs that follow.
  virtual void prepare(const Memory& /*memory*/) {}
  /// Runs the main graph once on every replica. Error(kValue) when a stream runs out of entries, a remote
  /// buffer has no such entry, or replicas disagree on a condition and not all of them would reach a
  /// collective.
  virtual void run(const Memory& memory) = 0;
  /// Whether it carries out a compiled program's instructions, which have times and a plan of memory.
  virtual bool hasInstructions() const { return false; }
  /// From now on takes the time of every instruction; null: no more.
  virtual void setRecorder(Recorder*) {}
};

/// The value that all replicas have. Error(kValue) naming the op, a conditional or repeat that holds a
/// collective, and which replicas have which, where they differ: not all would reach the collective.
int64_t agreed(const ir::Op& op, std::span<const int64_t> values);

}  // namespace popxl::exec
