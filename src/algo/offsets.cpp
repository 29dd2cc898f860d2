#include "algo/offsets.h"

#include <algorithm>
#include <map>
#include <memory_resource>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.h"

namespace popxl::algo {
namespace {

/// The placement by falling size is quadratic: so many intervals take some 20 ms.
constexpr size_t kMaxPlacedBySize = 4096;
/// Among more intervals than this the largest ones decide too little to be worth another sweep.
constexpr size_t kMaxPlannedBySize = 100'000;

int64_t alignedSize(const Interval& interval) {
  return (interval.size + kOffsetAlignment - 1) / kOffsetAlignment * kOffsetAlignment;
}

std::vector<int32_t> indices(size_t count) {
  std::vector<int32_t> result(count);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

/// Addresses from 0 upwards, of which those below top() may be in use.
class FreeList {
 public:
  /// The smallest free block that holds `size`, the lowest among equals; else the top grows, from a free
  /// block at its end.
  int64_t allocate(int64_t size);
  void release(int64_t offset, int64_t size);
  int64_t top() const { return top_; }

 private:
  using ByOffset = std::pmr::map<int64_t, int64_t>;
  void insert(int64_t offset, int64_t size);
  ByOffset::iterator erase(ByOffset::iterator block);

  std::pmr::unsynchronized_pool_resource pool_;
  ByOffset byOffset_{&pool_};                                  // offset to size; no two blocks touch
  std::pmr::set<std::pair<int64_t, int64_t>> bySize_{&pool_};  // (size, offset)
  int64_t top_ = 0;
};

void FreeList::insert(int64_t offset, int64_t size) {
  byOffset_.emplace(offset, size);
  bySize_.emplace(size, offset);
}

FreeList::ByOffset::iterator FreeList::erase(ByOffset::iterator block) {
  bySize_.erase({block->second, block->first});
  return byOffset_.erase(block);
}

int64_t FreeList::allocate(int64_t size) {
  const auto fit = bySize_.lower_bound({size, 0});
  if (fit != bySize_.end()) {
    const auto [blockSize, offset] = *fit;
    erase(byOffset_.find(offset));
    if (blockSize > size) insert(offset + size, blockSize - size);
    return offset;
  }
  int64_t offset = top_;
  if (!byOffset_.empty()) {
    const auto last = std::prev(byOffset_.end());
    if (last->first + last->second == top_) {
      offset = last->first;
      erase(last);
    }
  }
  top_ = offset + size;
  return offset;
}

void FreeList::release(int64_t offset, int64_t size) {
  auto next = byOffset_.lower_bound(offset);
  if (next != byOffset_.end() && next->first == offset + size) {
    size += next->second;
    next = erase(next);
  }
  if (next != byOffset_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      erase(previous);
    }
  }
  insert(offset, size);
}

/// Places the intervals of `which` at `base` and above as they open, the largest first among those that open
/// together. Backwards, time runs from the last death to the first birth. Returns the end of the highest.
int64_t placeBySweep(std::span<const Interval> intervals, std::span<const int32_t> which, int64_t base,
                     bool backwards, std::vector<int64_t>& offsets) {
  // Times are 64-bit so that turning them round cannot overflow.
  struct Span {
    int64_t opens, closes, size;
    int32_t interval;
  };
  std::vector<Span> opening;
  opening.reserve(which.size());
  for (const int32_t i : which) {
    const Interval& in = intervals[i];
    const int64_t birth = in.birth, death = in.death;
    opening.push_back({backwards ? -death : birth, backwards ? -birth : death, alignedSize(in), i});
  }
  std::vector<Span> closing = opening;
  std::sort(opening.begin(), opening.end(), [](const Span& a, const Span& b) {
    return std::tuple(a.opens, -a.size, a.interval) < std::tuple(b.opens, -b.size, b.interval);
  });
  std::sort(closing.begin(), closing.end(), [](const Span& a, const Span& b) {
    return std::tie(a.closes, a.interval) < std::tie(b.closes, b.interval);
  });
  FreeList memory;
  auto next = closing.begin();
  for (const Span& span : opening) {
    for (; next->closes < span.opens; ++next) memory.release(offsets[next->interval] - base, next->size);
    offsets[span.interval] = base + memory.allocate(span.size);
  }
  return base + memory.top();
}

/// Places the intervals of `which` in the order given, each in the smallest gap that the placed ones leave
/// it. Returns the end of the highest.
int64_t placeInGaps(std::span<const Interval> intervals, std::span<const int32_t> which,
                    std::vector<int64_t>& offsets) {
  struct Placed {
    int64_t offset, end;
    int32_t birth, death;
  };
  std::vector<Placed> placed;  // ascending offsets
  placed.reserve(which.size());
  int64_t peak = 0;
  for (int32_t i : which) {
    const Interval& interval = intervals[i];
    const int64_t size = alignedSize(interval);
    int64_t bestGap = INT64_MAX;
    int64_t bestOffset = -1;
    int64_t end = 0;  // of the conflicting intervals so far
    for (const Placed& other : placed) {
      if (other.death < interval.birth || interval.death < other.birth) continue;
      const int64_t gap = other.offset - end;
      if (gap >= size && gap < bestGap) {
        bestGap = gap;
        bestOffset = end;
      }
      end = std::max(end, other.end);
    }
    const int64_t offset = bestOffset < 0 ? end : bestOffset;
    offsets[i] = offset;
    peak = std::max(peak, offset + size);
    const auto place =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [](int64_t value, const Placed& other) { return value < other.offset; });
    placed.insert(place, {offset, offset + size, interval.birth, interval.death});
  }
  return peak;
}

/// The largest intervals in gaps by falling size, any others above them by a sweep.
OffsetPlan planBySize(std::span<const Interval> intervals, std::vector<int32_t> which) {
  OffsetPlan plan{std::vector<int64_t>(intervals.size(), 0)};
  const size_t large = std::min(which.size(), kMaxPlacedBySize);
  const auto before = [&](int32_t a, int32_t b) {
    const auto key = [&](int32_t i) {
      const auto length = int64_t{intervals[i].death} - intervals[i].birth;
      return std::tuple(-alignedSize(intervals[i]), -length, intervals[i].birth, i);
    };
    return key(a) < key(b);
  };
  std::partial_sort(which.begin(), which.begin() + static_cast<ptrdiff_t>(large), which.end(), before);
  plan.peak = placeInGaps(intervals, std::span(which).first(large), plan.offsets);
  plan.peak = placeBySweep(intervals, std::span(which).subspan(large), plan.peak, false, plan.offsets);
  return plan;
}

OffsetPlan planBySweep(std::span<const Interval> intervals, std::span<const int32_t> which, bool backwards) {
  OffsetPlan plan{std::vector<int64_t>(intervals.size(), 0)};
  plan.peak = placeBySweep(intervals, which, 0, backwards, plan.offsets);
  return plan;
}

}  // namespace

OffsetPlan planOffsets(std::span<const Interval> intervals) {
  auto which = indices(intervals.size());
  std::erase_if(which, [&](int32_t i) { return intervals[i].size == 0; });
  const LivePeak live = livePeak(intervals);
  OffsetPlan best = planBySweep(intervals, which, false);
  const auto improve = [&](OffsetPlan&& plan) {
    if (plan.peak < best.peak) best = std::move(plan);
  };
  if (best.peak > live.bytes) improve(planBySweep(intervals, which, true));
  if (best.peak > live.bytes && which.size() <= kMaxPlannedBySize)
    improve(planBySize(intervals, std::move(which)));
  best.live = live;
  return best;
}

LivePeak livePeak(std::span<const Interval> intervals) {
  struct Change {
    int64_t step;
    int64_t bytes;
  };
  std::vector<Change> changes;
  changes.reserve(2 * intervals.size());
  for (const Interval& interval : intervals) {
    POPXL_ASSERT(interval.size >= 0 && interval.birth <= interval.death, "{} bytes from step {} to {}",
                 interval.size, interval.birth, interval.death);
    changes.push_back({interval.birth, alignedSize(interval)});
    changes.push_back({int64_t{interval.death} + 1, -alignedSize(interval)});
  }
  // At equal steps what dies goes first.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.step, a.bytes) < std::tie(b.step, b.bytes);
  });
  int64_t live = 0;
  LivePeak most;
  for (const Change& change : changes) {
    live += change.bytes;
    if (live > most.bytes) most = {live, static_cast<int32_t>(change.step)};
  }
  return most;
}

}  // namespace popxl::algo
