#pragma once

#include <map>

#include "exec/arena.h"

namespace popxl::exec {

/// Memory of a fixed size that is lent in pieces.
class Pool {
 public:
  explicit Pool(int64_t bytes);

  int64_t bytes() const { return arena_.bytes(); }
  int64_t touchedBytes() const { return arena_.touchedBytes(); }
  /// The first piece that is large enough, 64-byte aligned; null when there is none.
  std::byte* take(int64_t bytes);
  /// Of a piece that was taken with as many bytes.
  void giveBack(std::byte* piece, int64_t bytes);

 private:
  Arena arena_;
  std::map<int64_t, int64_t> free_;  // sizes by offset; no two touch
};

}  // namespace popxl::exec
