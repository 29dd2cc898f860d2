#include "popxl/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace popxl {
namespace {

/// Three digits and a unit: "12.3 M".
std::string scaled(double value) {
  constexpr const char* kUnits[] = {" ", "K", "M", "G", "T", "P"};
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value == std::floor(value) || value >= 99.95 ? 0 : 1, kUnits[unit]);
}

std::string duration(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

/// "add gelu", "add mul tanh ... (12 ops)".
std::string joinOps(const std::vector<std::string>& ops) {
  constexpr size_t kShown = 4;
  std::string out;
  for (size_t i = 0; i < std::min(kShown, ops.size()); ++i) out += (i == 0 ? "" : " ") + ops[i];
  return ops.size() > kShown ? fmt::format("{} ... ({} ops)", out, ops.size()) : out;
}

std::string joinLocations(const std::vector<std::string>& locations) {
  if (locations.empty()) return "";
  return locations.size() == 1 ? locations[0] : fmt::format("{} +{}", locations[0], locations.size() - 1);
}

std::string row(const ProfileEntry& e, double total, double runs) {
  const auto calls = static_cast<double>(e.calls);
  const std::string share = e.predictedSeconds > 0 ? fmt::format("{:4.0f}% {}", e.shareOfPeak * 100,
                                                                 e.boundByBytes ? "bytes" : "flops")
                                                   : "";
  return fmt::format("{:>9} {:>6.1f}% {:>7.6g} {:>9} {:>9} {:>8} {:>8} {:<11} {} | {} | {} {}\n",
                     duration(e.seconds / runs), total > 0 ? e.seconds / total * 100 : 0, calls / runs,
                     duration(e.seconds / calls), duration(e.predictedSeconds / calls),
                     scaled(e.flops / calls), scaled(e.bytes / calls), share, joinOps(e.ops), e.kernel,
                     e.graph, joinLocations(e.locations));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string quotedList(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& t : texts) out += (out.empty() ? "" : ", ") + quoted(t);
  return "[" + out + "]";
}

/// What is the same in every slice of an instruction.
std::string traceArguments(const ProfileEntry& e) {
  const auto calls = static_cast<double>(e.calls);
  return fmt::format(
      R"("name": {}, "cat": {}, "args": {{"kernel": {}, "ops": {}, "at": {}, "flops": {:.0f}, "bytes": {:.0f}, )"
      R"("predicted_us": {:.3f}}})",
      quoted(joinOps(e.ops)), quoted(e.graph), quoted(e.kernel), quotedList(e.ops), quotedList(e.locations),
      e.flops / calls, e.bytes / calls, e.predictedSeconds / calls * 1e6);
}

}  // namespace

std::string Profile::table(int64_t limit) const {
  const auto times = static_cast<double>(std::max<int64_t>(runs, 1));
  std::string out = fmt::format(
      "{} run(s) of {}; peaks of {} thread(s): {:.0f} GFLOP/s, {:.1f} GB/s from memory, {:.0f} GB/s from "
      "cache\n",
      runs, duration(seconds / times), peaks.threads, peaks.flopsPerSecond / 1e9,
      peaks.memoryBytesPerSecond / 1e9, peaks.cacheBytesPerSecond / 1e9);
  out += fmt::format("{:>9} {:>7} {:>7} {:>9} {:>9} {:>8} {:>8} {:<11} {}\n", "time/run", "", "calls",
                     "time/call", "predicted", "flops", "bytes", "of peak", "ops | kernel | graph and line");
  double left = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (static_cast<int64_t>(i) < limit) {
      out += row(entries[i], seconds, times);
    } else {
      left += entries[i].seconds;
    }
  }
  if (const auto all = static_cast<int64_t>(entries.size()); all > limit)
    out += fmt::format("{:>9} {:>6.1f}% in {} more\n", duration(left / times),
                       seconds > 0 ? left / seconds * 100 : 0, all - std::max<int64_t>(limit, 0));
  return out;
}

std::string Profile::chromeTrace() const {
  std::vector<std::string> arguments;
  for (const ProfileEntry& e : entries) arguments.push_back(traceArguments(e));
  std::string out = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  out += R"({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "popxl"}})";
  for (const Slice& s : slices) {
    out += fmt::format(",\n{{\"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, {}}}",
                       s.replica, static_cast<double>(s.start) / 1e3, static_cast<double>(s.length) / 1e3,
                       arguments[static_cast<size_t>(s.entry)]);
  }
  return out + "\n]}\n";
}

}  // namespace popxl
