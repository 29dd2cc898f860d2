#include "exec/remote_memory.h"

#include <algorithm>
#include <cstring>

#include "algo/offsets.h"
#include "base/error.h"

namespace popxl::exec {

RemoteMemory::RemoteMemory(const compile::Program& program)
    : buffers_(layOut(program, total_)), arena_(total_) {}

int64_t RemoteMemory::bytesOf(const compile::Program& program) {
  int64_t bytes = 0;
  layOut(program, bytes);
  return bytes;
}

/// An entry is as large as the buffer says, or as the largest variable that is kept in one.
std::map<int64_t, RemoteMemory::Buffer> RemoteMemory::layOut(const compile::Program& program,
                                                             int64_t& bytes) {
  std::map<int64_t, Buffer> buffers;
  for (const auto& b : program.ir->remoteBuffers()) buffers[b->id] = {0, b->type.bytes(), b->entries};
  for (const compile::RemoteVariable& v : program.remoteVariables) {
    int64_t& stride = buffers.at(v.buffer).stride;
    stride = std::max(stride, v.shardBytes);
  }
  bytes = 0;
  for (auto& [id, buffer] : buffers) {
    const int64_t unit = algo::kOffsetAlignment;
    buffer.offset = bytes;
    buffer.stride = (buffer.stride + unit - 1) / unit * unit;
    int64_t size = 0;
    if (__builtin_mul_overflow(buffer.stride, buffer.entries, &size) ||
        __builtin_add_overflow(bytes, size, &bytes)) {
      fail(ErrorKind::kValue, "remote buffer {} with {} entries of {} bytes is too large", id, buffer.entries,
           buffer.stride);
    }
  }
  return buffers;
}

std::byte* RemoteMemory::at(int64_t buffer, int64_t index) const {
  const Buffer& b = buffers_.at(buffer);
  return arena_.base() + b.offset + index * b.stride;
}

std::byte* RemoteMemory::entry(int64_t buffer, int64_t index, const ir::Op& op) const {
  const int64_t entries = buffers_.at(buffer).entries;
  if (index < 0 || index >= entries) {
    fail(ErrorKind::kValue,
         "`{}` at {} asks for entry {} of remote buffer {}, which has {} entries; set its `entries`",
         op.name(), op.loc().str(), index, buffer, entries);
  }
  return at(buffer, index);
}

namespace {

/// Bytes of a variable's value that are in a shard: none beyond the end.
size_t present(const compile::RemoteVariable& v, int64_t shard) {
  const int64_t left = v.tensor->type().bytes() - shard * v.shardBytes;
  return static_cast<size_t>(std::clamp<int64_t>(left, 0, v.shardBytes));
}

}  // namespace

void RemoteMemory::read(const compile::RemoteVariable& v, int64_t shard, const std::byte* whole) {
  std::byte* to = at(v.buffer, v.entry);
  const size_t bytes = present(v, shard);
  if (bytes > 0) std::memcpy(to, whole + shard * v.shardBytes, bytes);
  std::memset(to + bytes, 0, static_cast<size_t>(v.shardBytes) - bytes);
}

const std::byte* RemoteMemory::value(const compile::RemoteVariable& v) const { return at(v.buffer, v.entry); }

void RemoteMemory::join(const compile::RemoteVariable& v, int64_t shard, const std::byte* from,
                        std::byte* whole) {
  const size_t bytes = present(v, shard);
  if (bytes > 0) std::memcpy(whole + shard * v.shardBytes, from, bytes);
}

}  // namespace popxl::exec
