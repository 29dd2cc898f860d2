#pragma once

#include <cstdint>
#include <map>

#include "compile/program.h"
#include "exec/arena.h"

namespace popxl::exec {

/// The remote buffers of one replica, in host memory. All entries are zero at first.
class RemoteMemory {
 public:
  explicit RemoteMemory(const compile::Program& program);

  /// The memory of an entry. Error(kValue) naming `op` when the buffer has no such entry.
  std::byte* entry(int64_t buffer, int64_t index, const ir::Op& op) const;
  /// The given shard of a remote variable from its whole value, padded with zeros.
  void read(const compile::RemoteVariable& variable, int64_t shard, const std::byte* whole);
  /// The shard that is here, of shardBytes.
  const std::byte* value(const compile::RemoteVariable& variable) const;
  /// Puts a shard into the whole value.
  static void join(const compile::RemoteVariable& variable, int64_t shard, const std::byte* from,
                   std::byte* whole);

  int64_t touchedBytes() const { return arena_.touchedBytes(); }
  /// What one of these takes.
  static int64_t bytesOf(const compile::Program& program);

 private:
  struct Buffer {
    int64_t offset, stride, entries;  ///< bytes; bytes from one entry to the next
  };
  static std::map<int64_t, Buffer> layOut(const compile::Program& program, int64_t& bytes);
  std::byte* at(int64_t buffer, int64_t index) const;

  int64_t total_ = 0;
  std::map<int64_t, Buffer> buffers_;  // by number
  Arena arena_;
};

}  // namespace popxl::exec
