#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compile/program.h"
#include "dist/cluster.h"
#include "exec/exchange_plan.h"

namespace popxl::exec {

/// What concerns all replicas of a program, of which this process runs some and other processes the others. A
/// process runs `lanes` replicas from number `first` on; every process does the same with as many.
class Exchange {
 public:
  /// Error(kRuntime) when the program is for several processes and these are not there.
  explicit Exchange(const ir::Ir& ir);

  int64_t lanes() const { return lanes_; }
  int64_t first() const { return first_; }
  int64_t replicas() const { return replicas_; }  ///< of all processes
  bool alone() const { return cluster_ == nullptr; }

  /// Memory that `run` needs in this process, in bytes.
  static int64_t bytesFor(const compile::Program& program);
  /// Makes the plans of a program's collectives, once.
  void prepare(const compile::Program& program);
  /// A collective of this process's replicas with all others; `memory` has bytesFor.
  void run(const compile::RunCollective& collective, const ir::Op& op, std::span<std::byte* const> from,
           std::span<std::byte* const> to, std::byte* memory);
  /// Bytes of all replicas, given as many of each replica of this process.
  std::vector<std::byte> gather(const ir::Op& op, const std::vector<std::byte>& mine);
  /// The value that the replicas of all processes have, given those of this one. Error(kValue) as `agreed`,
  /// on all of them.
  int64_t agree(const ir::Op& op, const std::vector<int64_t>& mine);
  /// What each process says, in their order. `activity` is told should another one be gone, as by
  /// Cluster::setActivity.
  std::vector<int64_t> gather(const char* activity, int64_t mine);
  /// A run of this process has failed. Unless it is known that all have, the others are told not to wait, and
  /// what comes next on this one is refused.
  void fail();

  /// What some replicas have, `at` in the order in which they were asked for.
  struct Pieces {
    std::vector<const std::byte*> at;
    std::vector<std::byte> memory;  ///< of those of other processes
  };
  /// The `bytes` bytes of each of `replicas`, in rising order: at value(lane) for those of this process.
  Pieces collect(const std::vector<int64_t>& replicas, int64_t bytes,
                 const std::function<const std::byte*(int64_t lane)>& value);

 private:
  template <typename Activity, typename T>
  std::vector<T> gatherAll(const Activity& activity, const std::vector<T>& mine);
  void announce(const char* name);
  void announce(const ir::Op& op);
  void runParts(const std::vector<LocalPart>& parts, const RunMemory& memory);
  void transfer(const Round& round, const RunMemory& memory);

  int64_t lanes_, first_ = 0, replicas_;
  dist::Cluster* cluster_ = nullptr;
  std::map<const compile::RunCollective*, ExchangePlan> plans_;
  std::vector<std::byte*> from_, to_;  // of a part of a collective, by replica
  std::vector<dist::Message> sends_, receives_;
  std::map<const ir::Op*, const char*> names_;
  bool agreeing_ = false;  // all processes do what this one does
  bool left_ = false;
};

}  // namespace popxl::exec
