#include "exec/remote_ram.h"

#include <cstring>

#include "algo/offsets.h"

namespace popxl::exec {
namespace {

/// Bytes from one entry to the next.
int64_t strideOf(const RemoteLayout::Buffer& b) {
  const int64_t unit = algo::kOffsetAlignment;
  return (b.bytes + unit - 1) / unit * unit;
}

}  // namespace

RemoteRam::RemoteRam(const RemoteLayout& layout) : layout_(layout), arena_(bytesOf(layout)) {
  int64_t offset = 0;
  for (const RemoteLayout::Buffer& b : layout.buffers) {
    offsets_.push_back(offset);
    offset += strideOf(b) * b.entries * layout.lanes;
  }
}

int64_t RemoteRam::bytesOf(const RemoteLayout& layout) {
  int64_t bytes = 0;
  for (const RemoteLayout::Buffer& b : layout.buffers) bytes += strideOf(b) * b.entries * layout.lanes;
  return bytes;
}

std::byte* RemoteRam::at(int64_t number) const {
  const RemoteLayout::Buffer& b = layout_.bufferOf(number);
  const auto i = static_cast<size_t>(&b - layout_.buffers.data());
  return arena_.base() + offsets_[i] + (number - b.firstNumber) * strideOf(b);
}

void RemoteRam::load(int64_t number, std::byte* to, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, at(number), static_cast<size_t>(bytes));
}

void RemoteRam::store(int64_t number, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(at(number), from, static_cast<size_t>(bytes));
}

}  // namespace popxl::exec
