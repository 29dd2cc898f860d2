#pragma once

#include <vector>

#include "exec/arena.h"
#include "exec/remote_store.h"

namespace popxl::exec {

/// Entries in RAM, as long as this lives.
class RemoteRam final : public RemoteStore {
 public:
  explicit RemoteRam(const RemoteLayout& layout);
  static int64_t bytesOf(const RemoteLayout& layout);

  void load(int64_t number, std::byte* to, int64_t bytes) override;
  void store(int64_t number, const std::byte* from, int64_t bytes) override;
  int64_t touchedBytes() const override { return arena_.touchedBytes(); }

 private:
  std::byte* at(int64_t number) const;

  const RemoteLayout& layout_;
  std::vector<int64_t> offsets_;  // of the buffers
  Arena arena_;
};

}  // namespace popxl::exec
