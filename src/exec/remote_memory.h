#pragma once

#include <cstdint>
#include <memory>

#include "compile/program.h"
#include "exec/remote_store.h"
#include "popxl/remote_storage.h"

namespace popxl::exec {

/// The remote buffers of the replicas of a process, in RAM or in a file. All entries are zero at first.
class RemoteMemory {
 public:
  /// `firstReplica`: which replica of the program lane 0 is. Error(kRuntime) where there can be no file, or
  /// the one there is not this program's, is damaged, or in use.
  RemoteMemory(const compile::Program& program, int64_t lanes, int64_t firstReplica,
               const RemoteStorage& storage);
  RemoteMemory(const RemoteMemory&) = delete;  // the store looks at the layout
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  /// An entry of a lane, for `op`: its first `bytes` bytes. Error(kValue) when the buffer has no such entry;
  /// Error(kRuntime) when a file can't be read or written or is damaged.
  void load(const ir::Op& op, int64_t lane, int64_t buffer, int64_t index, std::byte* to, int64_t bytes);
  void store(const ir::Op& op, int64_t lane, int64_t buffer, int64_t index, const std::byte* from,
             int64_t bytes);
  /// The given shard of a remote variable from its whole value, padded with zeros.
  void storeShard(const compile::RemoteVariable& variable, int64_t lane, int64_t shard,
                  const std::byte* whole);
  /// The shardBytes that a lane has.
  void loadShard(const compile::RemoteVariable& variable, int64_t lane, std::byte* to);
  /// Puts a shard into the whole value.
  static void join(const compile::RemoteVariable& variable, int64_t shard, const std::byte* from,
                   std::byte* whole);
  /// Whether all lanes had a value of the variable before this was made.
  bool isKept(const compile::RemoteVariable& variable) const;

  RemoteStore& entries() { return *store_; }
  int64_t touchedBytes() const { return store_->touchedBytes(); }
  /// RAM that this takes.
  static int64_t bytesOf(const compile::Program& program, int64_t lanes, const RemoteStorage& storage);

 private:
  int64_t numberOf(const ir::Op& op, int64_t lane, int64_t buffer, int64_t index) const;
  int64_t numberOf(const compile::RemoteVariable& variable, int64_t lane) const;

  RemoteLayout layout_;
  std::unique_ptr<RemoteStore> store_;
};

}  // namespace popxl::exec
