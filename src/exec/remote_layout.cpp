#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "exec/remote_store.h"

namespace popxl::exec {

RemoteLayout::RemoteLayout(const compile::Program& program, int64_t lanes) : lanes(lanes) {
  for (const auto& b : program.ir->remoteBuffers())
    buffers.push_back({b->id, b->type.str(), b->entries, b->type.bytes(), 0});
  for (const compile::RemoteVariable& v : program.remoteVariables) {
    const auto kept =
        std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.id == v.buffer; });
    kept->bytes = std::max(kept->bytes, v.shardBytes);
  }
  constexpr double kMost = 0x1p62, kOverhead = 4096;  // bytes; of an entry, wherever it is held
  double total = 0;
  int64_t number = 0;
  for (Buffer& b : buffers) {
    b.firstNumber = number;
    total += 2 * (static_cast<double>(b.bytes) + kOverhead) * static_cast<double>(b.entries) *
             static_cast<double>(lanes);
    if (total > kMost) {
      fail(ErrorKind::kValue, "remote buffer {} with {} entries of {} bytes is too large", b.id, b.entries,
           b.bytes);
    }
    number += b.entries * lanes;
  }
}

int64_t RemoteLayout::numEntries() const {
  return buffers.empty() ? 0 : buffers.back().firstNumber + buffers.back().entries * lanes;
}

const RemoteLayout::Buffer& RemoteLayout::bufferOf(int64_t number) const {
  const auto after = std::upper_bound(buffers.begin(), buffers.end(), number,
                                      [](int64_t wanted, const Buffer& b) { return wanted < b.firstNumber; });
  return *std::prev(after);
}

const RemoteLayout::Buffer& RemoteLayout::buffer(int64_t id) const {
  const auto found = std::lower_bound(buffers.begin(), buffers.end(), id,
                                      [](const Buffer& b, int64_t i) { return b.id < i; });
  POPXL_ASSERT(found != buffers.end() && found->id == id, "no remote buffer {}", id);
  return *found;
}

std::string RemoteLayout::describe(int64_t number) const {
  const Buffer& b = bufferOf(number);
  const int64_t at = number - b.firstNumber;
  const std::string what = fmt::format("entry {} of remote buffer {}", at % b.entries, b.id);
  return lanes == 1 ? what : fmt::format("{} of replica {} of this process", what, at / b.entries);
}

}  // namespace popxl::exec
