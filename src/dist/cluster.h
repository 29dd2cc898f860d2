#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace popxl::dist {

/// Bytes for another process, or from one.
struct Message {
  int32_t peer;
  std::byte* at;
  int64_t bytes;
};

/// The processes that run one program together. A call returns when every process has made the same call with
/// as many bytes; one thread makes them all. When another process ends or dies first, this one says where it
/// was waiting and ends too.
class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual int32_t size() const = 0;   ///< number of processes
  virtual int32_t index() const = 0;  ///< of this process

  /// Everyone's `bytes` bytes at `mine`, in the order of the processes, at `all`.
  virtual void allGather(const void* mine, int64_t bytes, void* all) = 0;
  /// Sends and receives at once. Two processes send each other at most one message in a call, and where one
  /// sends the other receives as many bytes in the same call, counted over those in which they meet.
  virtual void exchange(std::span<const Message> sends, std::span<const Message> receives) = 0;
  /// Names what the calls that follow are for, in the message when another process is gone. Not copied:
  /// it must stay until the process ends.
  virtual void setActivity(const char* activity) = 0;
  /// Tells the others that this process makes no more calls, so that none waits for it.
  virtual void leave() = 0;
};

/// The cluster that a launcher made this process a part of. Started by the first call, which loads MPI; ends
/// with the process. Error(kRuntime) where MPI is missing or can't be started.
Cluster& cluster();
/// Whether it was started.
bool inCluster();

/// While it lives, this thread is one of several that run a program as processes do, and `cluster` is theirs.
class ClusterScope {
 public:
  explicit ClusterScope(Cluster& cluster);
  ~ClusterScope();
  ClusterScope(const ClusterScope&) = delete;
  ClusterScope& operator=(const ClusterScope&) = delete;

 private:
  Cluster* before_;
};

}  // namespace popxl::dist
