#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "kernels/parallel.h"

namespace popxl::kernels::dense {

/// Chunks that may be worked on at once, each with a piece of scratch of its own.
inline int64_t lanesFor(int64_t chunks) { return std::clamp<int64_t>(chunks, 1, threadCount()); }

/// Runs body(chunk, lane) for every chunk, each lane taking the next chunk when it is done with one. Which
/// lane works on a chunk varies from run to run; a lane only says which scratch to use.
template <typename Body>
void forLanes(int64_t chunks, int64_t lanes, const Body& body) {
  if (lanes <= 1) {
    for (int64_t i = 0; i < chunks; ++i) body(i, int64_t{0});
    return;
  }
  std::atomic<int64_t> next{0};
  parallelFor(lanes, [&](int64_t lane) {
    for (int64_t i = next.fetch_add(1); i < chunks; i = next.fetch_add(1)) body(i, lane);
  });
}

/// Hands out consecutive 64-byte aligned pieces of scratch: first to sum up sizes, then, given memory, to
/// place them.
class Carver {
 public:
  explicit Carver(std::byte* memory = nullptr) : memory_(memory) {}
  template <typename T>
  T* take(int64_t count) {
    std::byte* at = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  int64_t used() const { return used_; }

 private:
  std::byte* memory_;
  int64_t used_ = 0;
};

}  // namespace popxl::kernels::dense
