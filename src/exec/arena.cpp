#include "exec/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

namespace popxl::exec {
namespace {

/// A huge page. Memory of at least one starts at a multiple and is asked for in huge pages: weights that are
/// streamed through come in twice as fast without the misses of the address cache.
constexpr int64_t kHugePage = 2 << 20;

}  // namespace

Arena::Arena(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePage;
  const auto size = static_cast<size_t>(bytes), spare = static_cast<size_t>(huge ? kHugePage : 0);
  void* const memory =
      ::mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mapped_ = {static_cast<std::byte*>(memory), size + spare};
  const auto address = reinterpret_cast<uintptr_t>(memory);
  base_ = mapped_.data() + (huge ? -address % kHugePage : 0);
  if (huge) ::madvise(base_, size, MADV_HUGEPAGE);  // a hint
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(mapped_.data(), mapped_.size());
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
