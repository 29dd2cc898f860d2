#include "compile/stored_plan.h"

#include "base/bytes.h"
#include "base/result_store.h"

namespace popxl::compile {
namespace {

/// Fewer are placed sooner than looked up.
constexpr size_t kFewest = 32;

std::string encode(const algo::OffsetPlan& plan) {
  ByteWriter to;
  to.add(plan.peak).add(plan.live.bytes).add(plan.live.step);
  for (const int64_t offset : plan.offsets) to.add(offset);
  return std::move(to.bytes());
}

/// Nothing unless every interval has room inside the peak.
std::optional<algo::OffsetPlan> decode(std::string_view bytes, std::span<const algo::Interval> intervals) {
  ByteReader from(bytes);
  algo::OffsetPlan plan;
  plan.peak = from.take<int64_t>();
  plan.live.bytes = from.take<int64_t>();
  plan.live.step = from.take<int32_t>();
  bool fits = true;
  for (const algo::Interval& interval : intervals) {
    const auto offset = from.take<int64_t>();
    fits = fits && offset >= 0 && interval.size <= plan.peak && offset <= plan.peak - interval.size;
    plan.offsets.push_back(offset);
  }
  return fits && from.atEnd() ? std::optional(std::move(plan)) : std::nullopt;
}

}  // namespace

algo::OffsetPlan storedPlan(std::span<const algo::Interval> intervals) {
  ResultStore* store = ResultStore::current();
  if (store == nullptr || intervals.size() < kFewest) return algo::planOffsets(intervals);
  Sha256 digest;
  const Digest key = digest.add("memory plan").add(std::as_bytes(intervals)).finish();
  if (const auto stored = store->find(key)) {
    if (auto plan = decode(*stored, intervals)) return *std::move(plan);
  }
  algo::OffsetPlan plan = algo::planOffsets(intervals);
  store->add(key, encode(plan));
  return plan;
}

}  // namespace popxl::compile
