#include "ir/types.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_set>

#include "base/error.h"

namespace popxl::ir {

const std::string* intern(std::string_view text) {
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  static std::mutex mutex;
  static auto* pool =
      new std::unordered_set<std::string, Hash, std::equal_to<>>();  // lives as long as the process
  const std::lock_guard<std::mutex> lock(mutex);
  auto it = pool->find(text);
  if (it == pool->end()) it = pool->emplace(text).first;
  return &*it;
}

std::string Loc::str() const {
  if (!known()) return "unknown location";
  return fmt::format("{}:{}", *file, line);
}

Loc Loc::from(const std::source_location& where) {
  // The literals live as long as the process, so the last one seen is recognised by its address.
  thread_local const char *lastFile = nullptr, *lastFunction = nullptr;
  thread_local const std::string *file = nullptr, *function = nullptr;
  if (where.file_name() != lastFile) {
    lastFile = where.file_name();
    file = intern(lastFile);
  }
  if (where.function_name() != lastFunction) {
    lastFunction = where.function_name();
    function = intern(lastFunction);
  }
  return {file, function, static_cast<int32_t>(where.line())};
}

void TensorType::checkSize() const {
  constexpr int64_t kLimit = int64_t{1} << 47;
  int64_t size = sizeOf(dtype);
  bool fits = true;
  for (const int64_t n : shape) {
    if (n == 0) return;
    fits = fits && !__builtin_mul_overflow(size, n, &size) && size <= kLimit;
  }
  if (!fits) fail(ErrorKind::kValue, "a tensor of type {} is too large: the limit is 2^47 bytes", str());
}

std::string TensorType::str() const { return fmt::format("{} {}", nameOf(dtype), toString(shape)); }

std::shared_ptr<HostData> HostData::allocate(int64_t size) {
  constexpr size_t kAlign = 64;
  const size_t rounded = (static_cast<size_t>(size) + kAlign) / kAlign * kAlign;
  void* memory = std::aligned_alloc(kAlign, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  auto data = std::make_shared<HostData>();
  data->bytes = static_cast<std::byte*>(memory);
  data->size = size;
  data->owner = std::shared_ptr<void>(memory, std::free);
  std::fill_n(data->bytes, rounded, std::byte{0});
  return data;
}

}  // namespace popxl::ir
