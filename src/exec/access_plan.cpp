#include "exec/access_plan.h"

#include <algorithm>
#include <utility>

namespace popxl::exec {
namespace {

constexpr size_t kMostUses = 1 << 20;  // of a plan; of longer runs none is made
/// Replicas that run at once are so many uses apart at most. What is further behind will not be done.
constexpr int64_t kWindow = 1 << 12;

}  // namespace

void AccessPlan::begin() {
  uses_ = std::exchange(noted_, {});
  if (uses_.size() > kMostUses) uses_.clear();
  upcoming_.clear();
  now_ = 0;
  const auto n = static_cast<int64_t>(uses_.size());
  std::unordered_map<int64_t, bool> stored;
  for (int64_t at = n - 1; at >= 0; --at) {
    Use& use = uses_[static_cast<size_t>(at)];
    const auto after = upcoming_.find(use.entry);
    if (after != upcoming_.end()) use.next = after->second;
    bool& later = stored[use.entry];
    use.storedLater = later;
    later = later || use.stores;
    upcoming_[use.entry] = at;
  }
  for (Use& use : uses_) {
    if (use.next == kNever) use.next = n + upcoming_[use.entry];
  }
}

void AccessPlan::forget() {
  noted_.clear();
  for (Use& use : uses_) noted_.push_back({use.entry, use.stores});
}

bool AccessPlan::note(int64_t entry, bool stores) {
  if (noted_.size() <= kMostUses) noted_.push_back({entry, stores});
  const auto planned = upcoming_.find(entry);
  const auto n = static_cast<int64_t>(uses_.size());
  if (planned == upcoming_.end() || planned->second >= n) return false;
  const int64_t at = planned->second;
  Use& use = uses_[static_cast<size_t>(at)];
  use.isDone = true;
  planned->second = use.next;
  now_ = std::max(now_, at - kWindow);
  while (now_ < n && uses_[static_cast<size_t>(now_)].isDone) ++now_;
  return use.storedLater;
}

int64_t AccessPlan::nextUse(int64_t entry) const {
  const auto planned = upcoming_.find(entry);
  return planned == upcoming_.end() ? kNever : planned->second;
}

}  // namespace popxl::exec
