#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile/program.h"

namespace popxl::exec {

/// The entries of all remote buffers of the replicas of a process, numbered through.
struct RemoteLayout {
  struct Buffer {
    int64_t id;
    std::string type;     ///< of an entry: "float32 (2, 3)"
    int64_t entries;      ///< of one replica
    int64_t bytes;        ///< of an entry: as the type says, or of the largest variable that is kept in one
    int64_t firstNumber;  ///< of entry 0 of the first replica
  };
  int64_t lanes;                ///< replicas of the process
  std::vector<Buffer> buffers;  ///< by id

  /// Error(kValue) when there are more bytes than 63 bits count.
  RemoteLayout(const compile::Program& program, int64_t lanes);

  int64_t numEntries() const;
  /// Of an entry, given its number.
  const Buffer& bufferOf(int64_t number) const;
  const Buffer& buffer(int64_t id) const;
  int64_t numberOf(const Buffer& buffer, int64_t lane, int64_t index) const {
    return buffer.firstNumber + lane * buffer.entries + index;
  }
  /// "entry 3 of remote buffer 1", with the replica where there are several.
  std::string describe(int64_t number) const;
};

/// What holds entries, by their numbers. Several threads may use different entries at once; the other
/// functions have it for themselves. What was never stored is zero.
class RemoteStore {
 public:
  virtual ~RemoteStore() = default;

  /// The first `bytes` of an entry.
  virtual void load(int64_t number, std::byte* to, int64_t bytes) = 0;
  virtual void store(int64_t number, const std::byte* from, int64_t bytes) = 0;

  /// Loads and stores up to the next `commit` are those of a run.
  virtual void beginRun() {}
  /// Makes what was stored since the last time outlive the process.
  virtual void commit() {}
  /// Forgets what was stored since then, where it is held outside the process.
  virtual void rollBack() {}
  /// Makes what was committed outlive a failure of power.
  virtual void sync() {}

  /// Whether what is committed outlives the process.
  virtual bool isFile() const { return false; }
  /// Whether an entry was stored and committed, by this or by one that held the same before.
  virtual bool isKept(int64_t /*number*/) const { return false; }
  /// How often was committed.
  virtual int64_t commits() const { return 0; }
  /// Back to before the last commit, of another one that held the same; nothing was stored since.
  virtual void undoCommit() {}
  /// Bytes of RAM in use, in whole pages.
  virtual int64_t touchedBytes() const = 0;
};

}  // namespace popxl::exec
