#include "exec/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "exec/exchange.h"
#include "exec/remote_memory.h"
#include "kernels/parallel.h"

namespace popxl {
namespace exec {
namespace {

MemoryItem describe(const compile::Code& code, const compile::LiveBuffer& live) {
  MemoryItem item;
  item.graph = code.graph->displayName();
  item.bytes = live.bytes;
  if (live.tensor != nullptr) {
    item.tensor = live.tensor->id();
    item.type = live.tensor->type().str();
  }
  if (live.op != nullptr) {
    item.op = live.op->name();
    if (live.op->loc().known()) item.location = live.op->loc().str();
  }
  return item;
}

/// What a frame holds at its peak; a frame inside it holds what it has at its own.
void addPeak(const compile::Program& program, const compile::Code& code, MemoryReport& report) {
  if (code.peakOp != nullptr) {
    report.peakOp = code.peakOp->name();
    report.peakLocation = code.peakOp->loc().known() ? code.peakOp->loc().str() : "";
  }
  for (const compile::LiveBuffer& live : code.atPeak) {
    if (live.callee < 0) {
      report.atPeak.push_back(describe(code, live));
    } else {
      addPeak(program, program.codes[static_cast<size_t>(live.callee)], report);
    }
  }
}

}  // namespace

int64_t workersFor(int64_t replicas) { return std::min<int64_t>(replicas, kernels::threadCount()); }

MemoryReport memoryOf(const compile::Program& program, int64_t replicas, const RemoteStorage& storage) {
  MemoryReport report;
  report.frameBytes = program.main().frameBytes * workersFor(replicas) + program.main().laneBytes * replicas +
                      Exchange::bytesFor(program);
  report.variableBytes = program.variableBytes * replicas + program.sharedBytes;
  report.constantBytes = program.constantBytes;
  report.remoteBytes = RemoteMemory::bytesOf(program, replicas, storage);
  report.liveLowerBound = program.main().liveLowerBound;
  addPeak(program, program.main(), report);
  std::stable_sort(report.atPeak.begin(), report.atPeak.end(),
                   [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
  return report;
}

}  // namespace exec

bool MemoryReport::fits(int64_t bytes) const {
  if (bytes < 0) fail(ErrorKind::kValue, "a size of {} bytes: it must not be negative", bytes);
  return total() <= bytes;
}

std::string MemoryReport::table(int64_t limit) const {
  std::string out = fmt::format(
      "memory: frame {}, variables {}, constants {}{}, total {} bytes\n", frameBytes, variableBytes,
      constantBytes, remoteBytes > 0 ? fmt::format(", remote buffers {}", remoteBytes) : "", total());
  if (atPeak.empty()) return out;
  out += fmt::format("the frame is fullest at `{}`{}{}, with {} bytes in use:\n", peakOp,
                     peakLocation.empty() ? "" : " at ", peakLocation, liveLowerBound);
  const auto all = static_cast<int64_t>(atPeak.size());
  const int64_t shown = std::clamp<int64_t>(limit, 0, all);
  for (int64_t i = 0; i < shown; ++i) {
    const MemoryItem& item = atPeak[static_cast<size_t>(i)];
    const std::string what = item.tensor.empty() ? "scratch memory" : item.tensor + " " + item.type;
    const std::string maker = item.op.empty() ? "" : fmt::format("  // {} {}", item.op, item.location);
    out += fmt::format("{:>14}  {}{}\n", item.bytes, what, maker);
  }
  int64_t rest = 0;
  for (int64_t i = shown; i < all; ++i) rest += atPeak[static_cast<size_t>(i)].bytes;
  if (shown < all) out += fmt::format("{:>14}  in {} more\n", rest, all - shown);
  return out;
}

}  // namespace popxl
