#include "exec/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace popxl::exec {

int64_t tripCount(const ir::Op& op, int64_t trips) {
  const int64_t most = op.attr<int64_t>("repeat_count");
  if (trips > most) {
    fail(ErrorKind::kNumeric,
         "`{}` at {} was asked to run {}{} times; it was made to run {} times at most: raise its bound",
         op.name(), op.loc().str(), trips == INT64_MAX ? "at least " : "", trips, most);
  }
  return std::max<int64_t>(trips, 0);
}

std::byte* StreamCursor::take(const ir::Stream& stream, const ir::Op& op, int64_t replica, int64_t replicas) {
  if (next >= entries) {
    fail(ErrorKind::kValue,
         "stream `{}` has {} entries, and `{}` at {} asks for one more; make num_host_transfers the number "
         "of times that a run uses the stream",
         stream.id(), entries, op.name(), op.loc().str());
  }
  return data + (next++ * replicas + replica) * stream.tensor->type().bytes();
}

namespace {

/// "0, 2, 4, ..." of the replicas that have the value.
std::string list(std::span<const int64_t> values, int64_t value) {
  constexpr int kShown = 8;
  std::string out;
  int count = 0;
  for (size_t r = 0; r < values.size(); ++r) {
    if (values[r] != value || ++count > kShown + 1) continue;
    out += (out.empty() ? "" : ", ") + (count > kShown ? "..." : fmt::to_string(r));
  }
  return out;
}

}  // namespace

int64_t agreed(const ir::Op& op, std::span<const int64_t> values) {
  const int64_t first = values.front();
  const auto other = std::find_if(values.begin(), values.end(), [&](int64_t v) { return v != first; });
  if (other == values.end()) return first;
  const bool counts = op.def().structure == ir::Structure::kRepeat && !op.attr<bool>("while_true");
  const auto text = [&](int64_t v) { return counts ? fmt::to_string(v) : v != 0 ? "true" : "false"; };
  fail(ErrorKind::kValue,
       "`{}` at {}: its {} is {} on replicas {} and {} on replicas {}, but all replicas must reach the "
       "collective that it holds; make it the same on all of them, or take the collective out",
       op.name(), op.loc().str(), counts ? "trip count" : "condition", text(first), list(values, first),
       text(*other), list(values, *other));
}

}  // namespace popxl::exec
