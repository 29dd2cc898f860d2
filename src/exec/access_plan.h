#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace popxl::exec {

/// In which order a run loads and stores entries of remote buffers: as the run before did. Entries are known
/// only when ops run, but a program that does the same in every run, loops included, uses the same ones. What
/// differs is at most slower. Not for several threads at once.
class AccessPlan {
 public:
  static constexpr int64_t kNever = INT64_MAX;
  /// One use in a run.
  struct Use {
    int64_t entry;
    bool stores;
    bool isDone = false;
    bool storedLater = false;  ///< and stored again in the same run
    int64_t next = kNever;     ///< place of the entry's next use; from size() on: in the next run
  };

  /// A run begins: what was noted since the last time is the plan for it.
  void begin();
  /// The run stopped half way: the plan of this one is that of the next.
  void forget();
  /// A run has used an entry; whether it is known that it stores it again.
  bool note(int64_t entry, bool stores);

  /// Place of the next use of an entry, counted on into the next run.
  int64_t nextUse(int64_t entry) const;
  /// The uses that are planned, and the first that is not done.
  const std::vector<Use>& uses() const { return uses_; }
  int64_t now() const { return now_; }

 private:
  std::vector<Use> uses_, noted_;
  std::unordered_map<int64_t, int64_t> upcoming_;  // place of an entry's next use
  int64_t now_ = 0;
};

}  // namespace popxl::exec
