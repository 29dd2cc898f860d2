#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace popxl::exec {

/// One zeroed block of memory, 64-byte aligned, taken from the system when made and given back when
/// destroyed.
class Arena {
 public:
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept : mapped_(other.mapped_), base_(other.base_), bytes_(other.bytes_) {
    other.base_ = nullptr;
  }
  Arena& operator=(Arena&&) = delete;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* base() const { return base_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes of it that were ever touched, in whole pages, as the system counts them.
  int64_t touchedBytes() const;

 private:
  std::span<std::byte> mapped_;  ///< what the system gave, from which base_ is cut
  std::byte* base_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace popxl::exec
