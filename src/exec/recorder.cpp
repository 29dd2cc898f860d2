#include "exec/recorder.h"

#include <algorithm>
#include <numeric>

namespace popxl::exec {
namespace {

constexpr size_t kMaxSlices = 1'000'000;
constexpr double kNanosecond = 1e-9;

ProfileEntry describe(const compile::Program& program, const compile::Code& code,
                      const compile::Instruction& instruction) {
  ProfileEntry entry;
  entry.graph = code.graph->displayName();
  entry.kernel = program.describe(instruction);
  for (const ir::Op* op : instruction.ops) {
    entry.ops.push_back(op->name());
    const std::string at = op->loc().str();
    if (op->loc().known() &&
        std::find(entry.locations.begin(), entry.locations.end(), at) == entry.locations.end())
      entry.locations.push_back(at);
  }
  return entry;
}

void compareWithPeaks(const MachinePeaks& peaks, const compile::Cost& cost, ProfileEntry& entry) {
  const auto calls = static_cast<double>(entry.calls);
  entry.flops = cost.flops * calls;
  entry.bytes = cost.bytes * calls;
  entry.predictedSeconds = peaks.secondsFor(cost.flops, cost.bytes) * calls;
  entry.boundByBytes = peaks.boundByBytes(cost.flops, cost.bytes);
  if (entry.seconds > 0) entry.shareOfPeak = entry.predictedSeconds / entry.seconds;
}

}  // namespace

Recorder::Recorder(const compile::Program& program)
    : program_(program), begun_(std::chrono::steady_clock::now()) {
  for (const compile::Code& code : program.codes) totals_.emplace_back(code.instructions.size());
}

void Recorder::beginRun() {
  inner_ = 0;
  runStart_ = now();
}

void Recorder::endRun() {
  runTime_ += now() - runStart_;
  ++runs_;
}

Recorder::Mark Recorder::start(int64_t replica) {
  const Mark mark{now(), inner_, static_cast<int32_t>(replica)};
  inner_ = 0;
  return mark;
}

void Recorder::stop(const compile::Code& code, size_t instruction, Mark mark) {
  const int64_t length = now() - mark.time;
  const auto index = static_cast<size_t>(&code - program_.codes.data());
  Total& total = totals_[index][instruction];
  ++total.calls;
  total.time += length;
  total.inner += inner_;
  inner_ = mark.inner + length;
  if (slices_.size() < kMaxSlices) {
    slices_.push_back(
        {static_cast<int32_t>(index), static_cast<int32_t>(instruction), mark.replica, mark.time, length});
  } else {
    ++slicesLeftOut_;
  }
}

Profile Recorder::profile(const MachinePeaks& peaks) const {
  Profile out;
  out.peaks = peaks;
  out.runs = runs_;
  out.seconds = static_cast<double>(runTime_) * kNanosecond;
  std::vector<std::vector<int32_t>> entryOf;  // by code and instruction
  for (size_t c = 0; c < totals_.size(); ++c) {
    entryOf.emplace_back(totals_[c].size(), -1);
    for (size_t i = 0; i < totals_[c].size(); ++i) {
      const Total& total = totals_[c][i];
      if (total.calls == 0) continue;
      const compile::Instruction& instruction = program_.codes[c].instructions[i];
      ProfileEntry entry = describe(program_, program_.codes[c], instruction);
      entry.calls = total.calls;
      entry.inclusiveSeconds = static_cast<double>(total.time) * kNanosecond;
      entry.seconds = static_cast<double>(total.time - total.inner) * kNanosecond;
      compareWithPeaks(peaks, instruction.cost, entry);
      entryOf[c][i] = static_cast<int32_t>(out.entries.size());
      out.entries.push_back(std::move(entry));
    }
  }
  std::vector<int32_t> order(out.entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return out.entries[static_cast<size_t>(a)].seconds > out.entries[static_cast<size_t>(b)].seconds;
  });
  std::vector<int32_t> placeOf(order.size());
  std::vector<ProfileEntry> sorted;
  for (const int32_t e : order) {
    placeOf[static_cast<size_t>(e)] = static_cast<int32_t>(sorted.size());
    sorted.push_back(std::move(out.entries[static_cast<size_t>(e)]));
  }
  out.entries = std::move(sorted);
  for (const Slice& s : slices_) {
    const int32_t entry = entryOf[static_cast<size_t>(s.code)][static_cast<size_t>(s.instruction)];
    out.slices.push_back({placeOf[static_cast<size_t>(entry)], s.replica, s.start, s.length});
  }
  out.slicesLeftOut = slicesLeftOut_;
  return out;
}

}  // namespace popxl::exec
