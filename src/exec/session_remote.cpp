#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "exec/session.h"

// The files that remote buffers of a session may be kept in.

namespace popxl::exec {

void Session::openRemote() {
  remote_ = std::make_unique<RemoteMemory>(*program_, replicas_, exchange_.first(), storage_);
}

/// Variables that files have from another session get their values from there.
void Session::adoptRemoteVariables() {
  mayFailAlone([&] { openRemote(); });
  alignCommits();
  for (const compile::RemoteVariable& v : program_->remoteVariables) {
    if (remote_->isKept(v) && ir_->mainGraph().find(v.tensor->name())->data()->writable) remoteToHost(v);
  }
  remote_.reset();
}

/// How many commits the file of each process has.
std::vector<int64_t> Session::commitsOfAll() {
  return exchange_.gather("agreeing on the state of remote buffers", remote_->entries().commits());
}

/// Processes that were killed may have done one commit more or less: those with more undo it. Error(kRuntime)
/// on all of them when their files are further apart.
void Session::alignCommits() {
  const std::vector<int64_t> commits = commitsOfAll();
  const auto [least, most] = std::minmax_element(commits.begin(), commits.end());
  if (*most > *least + 1) failOfDifferentRuns(commits);
  if (remote_->entries().commits() > *least) mayFailAlone([&] { remote_->entries().undoCommit(); });
}

/// No process stores what its next commit has before all have done the last one. So none is ever more than
/// one ahead, and what the others have is then still in its file.
void Session::meetBeforeStores() {
  if (exchange_.alone() || !remote_->entries().isFile()) return;
  const std::vector<int64_t> commits = commitsOfAll();
  if (std::adjacent_find(commits.begin(), commits.end(), std::not_equal_to<>()) != commits.end())
    failOfDifferentRuns(commits);
}

void Session::failOfDifferentRuns(const std::vector<int64_t>& commits) const {
  std::string states;
  for (size_t i = 0; i < commits.size(); ++i)
    states += fmt::format("{}instance {} has state {}", i == 0 ? "" : ", ", i, commits[i]);
  fail(ErrorKind::kRuntime,
       "the remote buffers in {} are of different runs, too far apart to go back to one that all have: {}; "
       "bring the files of one run back from a copy, or remove them all to begin anew",
       storage_.directory, states);
}

/// Whether this process was forked from the one that has the files, or that the other instances know.
bool Session::isOfParent() const {
  const bool isShared = !exchange_.alone() || (remote_ != nullptr && remote_->entries().isFile());
  return isShared && ::getpid() != process_;
}

/// In a forked process: detaches, and forgets the files without closing them. That would wait for the thread
/// beside the runs, which is in the other process alone.
void Session::leaveToParent() {
  if (!isOfParent()) return;
  static auto& left = *new std::vector<std::unique_ptr<RemoteMemory>>;
  left.push_back(std::move(remote_));
  frames_.reset();
  workerFrames_.clear();
}

void Session::flushRemoteBuffers() {
  const std::unique_lock<std::mutex> lock = use();
  if (!attached()) {
    fail(ErrorKind::kValue, "flush_remote_buffers needs an attached session; use it inside `with session:`");
  }
  remote_->entries().sync();
}

}  // namespace popxl::exec
