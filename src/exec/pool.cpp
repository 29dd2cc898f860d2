#include "exec/pool.h"

#include <algorithm>
#include <iterator>

#include "algo/offsets.h"

namespace popxl::exec {
namespace {

int64_t roundedUp(int64_t bytes) {
  return (bytes + algo::kOffsetAlignment - 1) / algo::kOffsetAlignment * algo::kOffsetAlignment;
}

}  // namespace

Pool::Pool(int64_t bytes) : arena_(bytes) {
  if (bytes > 0) free_.emplace(0, bytes);
}

std::byte* Pool::take(int64_t bytes) {
  const int64_t wanted = roundedUp(bytes);
  const auto piece =
      std::find_if(free_.begin(), free_.end(), [&](const auto& free) { return free.second >= wanted; });
  if (piece == free_.end()) return nullptr;
  const auto [offset, size] = *piece;
  free_.erase(piece);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  return arena_.base() + offset;
}

void Pool::giveBack(std::byte* piece, int64_t bytes) {
  int64_t offset = piece - arena_.base(), size = roundedUp(bytes);
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && offset + size == after->first) {
    size += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

}  // namespace popxl::exec
