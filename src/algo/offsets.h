#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace popxl::algo {

/// Every offset is a multiple of this, and every size counts rounded up to it.
inline constexpr int64_t kOffsetAlignment = 64;

/// `size` bytes needed at every step from `birth` to `death`, both included. Asserted: size >= 0, birth <=
/// death.
struct Interval {
  int64_t size;
  int32_t birth;
  int32_t death;
};

/// The most bytes needed at one step, sizes rounded up to the alignment, and the first step that needs them.
struct LivePeak {
  int64_t bytes = 0;
  int32_t step = 0;
};
LivePeak livePeak(std::span<const Interval> intervals);

struct OffsetPlan {
  std::vector<int64_t> offsets;  ///< bytes, one per interval; 0 for an empty one
  int64_t peak = 0;              ///< bytes that hold all intervals
  LivePeak live = {};            ///< of the intervals
};

/// Places the intervals so that no two that share a step share a byte, with a small peak: the best of a
/// best-fit sweep forwards in time, one backwards, and a placement by falling size (of the largest ones only,
/// where there are thousands; not tried for very many). O(n log n). Depends on nothing but the arguments.
OffsetPlan planOffsets(std::span<const Interval> intervals);

/// The bytes of livePeak: no plan has a smaller peak.
inline int64_t liveLowerBound(std::span<const Interval> intervals) { return livePeak(intervals).bytes; }

}  // namespace popxl::algo
