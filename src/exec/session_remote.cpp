#include <algorithm>

#include "base/error.h"
#include "exec/session.h"

// The files that remote buffers of a session may be kept in.

namespace popxl::exec {

void Session::openRemote() {
  try {
    remote_ = std::make_unique<RemoteMemory>(*program_, replicas_, exchange_.first(), storage_);
  } catch (...) {
    exchange_.fail();
    throw;
  }
}

/// Variables that files have from another session get their values from there.
void Session::adoptRemoteVariables() {
  openRemote();
  checkCommits();
  for (const compile::RemoteVariable& v : program_->remoteVariables) {
    if (remote_->isKept(v) && ir_->mainGraph().find(v.tensor->name())->data()->writable) remoteToHost(v);
  }
  remote_.reset();
}

/// Error(kRuntime) when the files of several processes are not of the same run.
void Session::checkCommits() {
  if (exchange_.alone()) return;
  const int64_t mine = remote_->entries().commits();
  std::vector<int64_t> firstReplicas;
  for (int64_t r = 0; r < exchange_.replicas(); r += exchange_.lanes()) firstReplicas.push_back(r);
  const Exchange::Pieces pieces = exchange_.collect(
      firstReplicas, sizeof(mine), [&](int64_t) { return reinterpret_cast<const std::byte*>(&mine); });
  for (const std::byte* piece : pieces.at) {
    int64_t other = 0;
    std::copy_n(piece, sizeof(other), reinterpret_cast<std::byte*>(&other));
    if (other == mine) continue;
    fail(ErrorKind::kRuntime,
         "the remote buffers in {} were left by processes of which one had done {} commits and another {}; "
         "remove "
         "the files to begin anew",
         storage_.directory, mine, other);
  }
}

void Session::flushRemoteBuffers() {
  const std::unique_lock<std::mutex> lock(running_);
  if (!attached()) {
    fail(ErrorKind::kValue, "flush_remote_buffers needs an attached session; use it inside `with session:`");
  }
  remote_->entries().sync();
}

}  // namespace popxl::exec
