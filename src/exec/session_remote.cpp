#include <algorithm>

#include "base/error.h"
#include "exec/session.h"

// The files that remote buffers of a session may be kept in.

namespace popxl::exec {

void Session::openRemote() {
  remote_ = std::make_unique<RemoteMemory>(*program_, replicas_, exchange_.first(), storage_);
}

/// Variables that files have from another session get their values from there.
void Session::adoptRemoteVariables() {
  try {
    openRemote();
    alignCommits();
  } catch (...) {
    exchange_.fail();
    throw;
  }
  for (const compile::RemoteVariable& v : program_->remoteVariables) {
    if (remote_->isKept(v) && ir_->mainGraph().find(v.tensor->name())->data()->writable) remoteToHost(v);
  }
  remote_.reset();
}

/// Several processes that were killed may have done one commit more or less: those with more undo it.
/// Error(kRuntime) when their files are further apart.
void Session::alignCommits() {
  if (exchange_.alone()) return;
  const int64_t mine = remote_->entries().commits();
  std::vector<int64_t> firstReplicas;
  for (int64_t r = 0; r < exchange_.replicas(); r += exchange_.lanes()) firstReplicas.push_back(r);
  const Exchange::Pieces pieces = exchange_.collect(
      firstReplicas, sizeof(mine), [&](int64_t) { return reinterpret_cast<const std::byte*>(&mine); });
  int64_t least = mine, most = mine;
  for (const std::byte* piece : pieces.at) {
    int64_t other = 0;
    std::copy_n(piece, sizeof(other), reinterpret_cast<std::byte*>(&other));
    least = std::min(least, other);
    most = std::max(most, other);
  }
  if (most > least + 1) {
    fail(ErrorKind::kRuntime,
         "the remote buffers in {} are not of one run: of the processes that left them one had done {} "
         "commits and another {}; remove the files to begin anew",
         storage_.directory, least, most);
  }
  if (mine > least) remote_->entries().undoCommit();
}

void Session::flushRemoteBuffers() {
  const std::unique_lock<std::mutex> lock(running_);
  if (!attached()) {
    fail(ErrorKind::kValue, "flush_remote_buffers needs an attached session; use it inside `with session:`");
  }
  remote_->entries().sync();
}

}  // namespace popxl::exec
