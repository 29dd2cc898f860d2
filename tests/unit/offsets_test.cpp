#include "algo/offsets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace popxl::algo {
namespace {

int64_t aligned(int64_t size) { return (size + 63) / 64 * 64; }

/// Every pair: no two intervals that share a step share a byte.
void expectValid(const std::vector<Interval>& intervals, const OffsetPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), intervals.size());
  int64_t end = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& a = intervals[i];
    ASSERT_EQ(plan.offsets[i] % kOffsetAlignment, 0);
    ASSERT_GE(plan.offsets[i], 0);
    end = std::max(end, plan.offsets[i] + aligned(a.size));
    for (size_t j = 0; j < i; ++j) {
      const Interval& b = intervals[j];
      if (a.death < b.birth || b.death < a.birth) continue;
      ASSERT_TRUE(plan.offsets[i] + a.size <= plan.offsets[j] || plan.offsets[j] + b.size <= plan.offsets[i])
          << "intervals " << j << " and " << i;
    }
  }
  ASSERT_EQ(plan.peak, end);
}

int64_t lowerBoundByDefinition(const std::vector<Interval>& intervals) {
  int64_t most = 0;
  for (const Interval& at : intervals) {  // the sum can only rise where one is born
    int64_t live = 0;
    for (const Interval& other : intervals) {
      if (other.birth <= at.birth && at.birth <= other.death) live += aligned(other.size);
    }
    most = std::max(most, live);
  }
  return most;
}

std::vector<Interval> randomIntervals(std::mt19937& random, size_t count, int32_t steps, int32_t longest) {
  std::vector<Interval> intervals(count);
  for (Interval& interval : intervals) {
    interval.size = static_cast<int64_t>(random() % 4 == 0 ? random() % 5000 : random() % 300);
    interval.birth = static_cast<int32_t>(random() % steps) - steps / 3;
    interval.death = interval.birth + static_cast<int32_t>(random() % longest);
  }
  return intervals;
}

TEST(Offsets, OfNothing) {
  const OffsetPlan plan = planOffsets({});
  EXPECT_TRUE(plan.offsets.empty());
  EXPECT_EQ(plan.peak, 0);
  EXPECT_EQ(liveLowerBound({}), 0);
}

TEST(Offsets, EmptyIntervalsTakeNoRoom) {
  const std::vector<Interval> intervals{{0, 0, 9}, {1, 0, 9}, {0, 3, 3}};
  const OffsetPlan plan = planOffsets(intervals);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(plan.peak, 64);
}

TEST(Offsets, ABirthAtAnothersDeathConflicts) {
  EXPECT_EQ(planOffsets(std::vector<Interval>{{64, 0, 5}, {64, 5, 9}}).peak, 128);
  EXPECT_EQ(planOffsets(std::vector<Interval>{{64, 0, 5}, {64, 6, 9}}).peak, 64);
}

TEST(Offsets, TimesAtTheEndsOfTheirRange) {
  const std::vector<Interval> intervals{
      {64, INT32_MIN, INT32_MAX}, {64, INT32_MAX, INT32_MAX}, {64, INT32_MIN, INT32_MIN}};
  const OffsetPlan plan = planOffsets(intervals);
  expectValid(intervals, plan);
  EXPECT_EQ(plan.peak, 128);
}

TEST(Offsets, AForwardAndBackwardPassNeedNoMoreThanWhatIsLive) {
  // Activation i lives until its gradient step, as in training.
  std::vector<Interval> intervals;
  constexpr int32_t kLayers = 500;
  for (int32_t i = 0; i < kLayers; ++i) {
    intervals.push_back({1000 + 64 * (i % 7), i, 2 * kLayers - i});
    intervals.push_back({4096, 2 * kLayers - i - 1, 2 * kLayers - i});
  }
  const OffsetPlan plan = planOffsets(intervals);
  expectValid(intervals, plan);
  EXPECT_EQ(plan.peak, liveLowerBound(intervals));
}

TEST(Offsets, AreFreeOfConflictsAndCloseToTheBoundOnRandomIntervals) {
  double excess = 0;
  constexpr uint32_t kSeeds = 600;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto intervals =
        randomIntervals(random, random() % 120, 60, static_cast<int32_t>(1 + random() % 30));
    const OffsetPlan plan = planOffsets(intervals);
    expectValid(intervals, plan);
    const int64_t bound = liveLowerBound(intervals);
    ASSERT_EQ(bound, lowerBoundByDefinition(intervals));
    ASSERT_GE(plan.peak, bound);
    if (bound > 0) excess += static_cast<double>(plan.peak - bound) / static_cast<double>(bound) / kSeeds;
  }
  EXPECT_LT(excess, 0.05) << "mean excess of the peak over the bound";
}

TEST(Offsets, MoreIntervalsThanArePlacedBySize) {
  std::mt19937 random(3);
  const auto intervals = randomIntervals(random, 9000, 4000, 60);
  const OffsetPlan plan = planOffsets(intervals);
  expectValid(intervals, plan);
  EXPECT_LT(static_cast<double>(plan.peak), 1.25 * static_cast<double>(liveLowerBound(intervals)));
}

TEST(Offsets, DependOnTheArgumentsAlone) {
  std::mt19937 random(5);
  const auto intervals = randomIntervals(random, 3000, 1000, 50);
  const OffsetPlan plan = planOffsets(intervals);
  EXPECT_EQ(planOffsets(intervals).offsets, plan.offsets);
}

TEST(Offsets, RefusesANegativeSizeOrLife) {
  EXPECT_ANY_THROW(planOffsets(std::vector<Interval>{{-1, 0, 0}}));
  EXPECT_ANY_THROW(planOffsets(std::vector<Interval>{{1, 1, 0}}));
}

/// Sweeps over time with the blocks in use ordered by offset: neighbours may not overlap. A check for many
/// intervals.
void expectValidBySweep(const std::vector<Interval>& intervals, const OffsetPlan& plan) {
  struct Event {
    int64_t time;
    size_t interval;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].size == 0) continue;
    events.push_back({2 * int64_t{intervals[i].birth}, i});
    events.push_back({2 * int64_t{intervals[i].death} + 1, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
  std::map<int64_t, int64_t> used;  // offset to end
  for (const Event& event : events) {
    const int64_t offset = plan.offsets[event.interval];
    if (event.time % 2 != 0) {
      used.erase(offset);
      continue;
    }
    const auto [place, isNew] = used.emplace(offset, offset + intervals[event.interval].size);
    ASSERT_TRUE(isNew);
    ASSERT_LE(place->second, plan.peak);
    ASSERT_TRUE(place == used.begin() || std::prev(place)->second <= offset);
    ASSERT_TRUE(std::next(place) == used.end() || place->second <= std::next(place)->first);
  }
}

TEST(Offsets, OfAMillionIntervals) {
  std::mt19937 random(13);
  const auto intervals = randomIntervals(random, 1'000'000, 1'000'000, 300);
  const OffsetPlan plan = planOffsets(intervals);
  expectValidBySweep(intervals, plan);
  EXPECT_GE(plan.peak, liveLowerBound(intervals));
}

}  // namespace
}  // namespace popxl::algo
