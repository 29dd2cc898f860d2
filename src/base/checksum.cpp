#include "base/checksum.h"

#include <array>
#include <cstring>

namespace popxl {
namespace {

constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;

/// One to one in either argument while the other stays.
uint64_t mixed(uint64_t state, uint64_t word) {
  state = (state ^ word) * kPrime;
  return state ^ (state >> 32);
}

}  // namespace

uint64_t checksum(const std::byte* data, size_t bytes) {
  // Four words at a time, whose products do not wait for each other.
  std::array<uint64_t, 4> lanes = {1, 2, 3, 4}, words{};
  const size_t whole = bytes / sizeof(words) * sizeof(words);
  for (size_t at = 0; at < whole; at += sizeof(words)) {
    std::memcpy(words.data(), data + at, sizeof(words));
    for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = mixed(lanes[i], words[i]);
  }
  words = {};
  if (whole < bytes) std::memcpy(words.data(), data + whole, bytes - whole);
  uint64_t sum = bytes;
  for (size_t i = 0; i < lanes.size(); ++i) sum = mixed(sum, mixed(lanes[i], words[i]));
  return sum;
}

}  // namespace popxl
