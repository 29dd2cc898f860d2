#include "exec/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

namespace popxl::exec {
namespace {

/// From this size on the system is asked for huge pages: fewer misses of the address cache where weights are
/// streamed through, and fewer faults at first touch.
constexpr int64_t kHugeFrom = 32 << 20;

}  // namespace

Arena::Arena(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (bytes >= kHugeFrom) ::madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a hint
  base_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, static_cast<size_t>(bytes_));
}

int64_t Arena::touchedBytes() const {
  if (base_ == nullptr) return 0;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((static_cast<size_t>(bytes_) + page - 1) / page);
  if (::mincore(base_, static_cast<size_t>(bytes_), resident.data()) != 0) return bytes_;
  const auto pages =
      std::count_if(resident.begin(), resident.end(), [](unsigned char r) { return (r & 1) != 0; });
  return std::min<int64_t>(bytes_, static_cast<int64_t>(pages) * static_cast<int64_t>(page));
}

}  // namespace popxl::exec
