#include "exec/remote_memory.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "exec/remote_cache.h"
#include "exec/remote_ram.h"

namespace popxl::exec {

RemoteMemory::RemoteMemory(const compile::Program& program, int64_t lanes, int64_t firstReplica,
                           const RemoteStorage& storage)
    : layout_(program, lanes) {
  if (storage.directory.empty() || layout_.buffers.empty()) {
    store_ = std::make_unique<RemoteRam>(layout_);
  } else {
    store_ = std::make_unique<RemoteCache>(layout_, firstReplica, storage);
  }
}

int64_t RemoteMemory::bytesOf(const compile::Program& program, int64_t lanes, const RemoteStorage& storage) {
  const int64_t all = RemoteRam::bytesOf({program, lanes});
  return storage.directory.empty() ? all : std::min(all, storage.ramBytes);
}

int64_t RemoteMemory::numberOf(const ir::Op& op, int64_t lane, int64_t buffer, int64_t index) const {
  const RemoteLayout::Buffer& b = layout_.buffer(buffer);
  if (index < 0 || index >= b.entries) {
    fail(ErrorKind::kValue,
         "`{}` at {} asks for entry {} of remote buffer {}, which has {} entries; set its `entries`",
         op.name(), op.loc().str(), index, buffer, b.entries);
  }
  return layout_.numberOf(b, lane, index);
}

int64_t RemoteMemory::numberOf(const compile::RemoteVariable& v, int64_t lane) const {
  return layout_.numberOf(layout_.buffer(v.buffer), lane, v.entry);
}

namespace {

template <typename Work>
void doFor(const ir::Op& op, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    fail(error.kind(), "`{}` at {}: {}", op.name(), op.loc().str(), error.what());
  }
}

}  // namespace

void RemoteMemory::load(const ir::Op& op, int64_t lane, int64_t buffer, int64_t index, std::byte* to,
                        int64_t bytes) {
  const int64_t number = numberOf(op, lane, buffer, index);
  doFor(op, [&] { store_->load(number, to, bytes); });
}

void RemoteMemory::store(const ir::Op& op, int64_t lane, int64_t buffer, int64_t index, const std::byte* from,
                         int64_t bytes) {
  const int64_t number = numberOf(op, lane, buffer, index);
  doFor(op, [&] { store_->store(number, from, bytes); });
}

namespace {

/// Bytes of a variable's value that are in a shard: none beyond the end.
size_t present(const compile::RemoteVariable& v, int64_t shard) {
  const int64_t left = v.tensor->type().bytes() - shard * v.shardBytes;
  return static_cast<size_t>(std::clamp<int64_t>(left, 0, v.shardBytes));
}

}  // namespace

void RemoteMemory::storeShard(const compile::RemoteVariable& v, int64_t lane, int64_t shard,
                              const std::byte* whole) {
  const size_t bytes = present(v, shard);
  const std::byte* const from = whole + shard * v.shardBytes;
  if (static_cast<int64_t>(bytes) == v.shardBytes) {
    store_->store(numberOf(v, lane), from, v.shardBytes);
    return;
  }
  std::vector<std::byte> padded(static_cast<size_t>(v.shardBytes));
  if (bytes > 0) std::memcpy(padded.data(), from, bytes);
  store_->store(numberOf(v, lane), padded.data(), v.shardBytes);
}

void RemoteMemory::loadShard(const compile::RemoteVariable& v, int64_t lane, std::byte* to) {
  store_->load(numberOf(v, lane), to, v.shardBytes);
}

void RemoteMemory::join(const compile::RemoteVariable& v, int64_t shard, const std::byte* from,
                        std::byte* whole) {
  const size_t bytes = present(v, shard);
  if (bytes > 0) std::memcpy(whole + shard * v.shardBytes, from, bytes);
}

bool RemoteMemory::isKept(const compile::RemoteVariable& v) const {
  for (int64_t lane = 0; lane < layout_.lanes; ++lane) {
    if (!store_->isKept(numberOf(v, lane))) return false;
  }
  return true;
}

}  // namespace popxl::exec
