#pragma once

#include <fmt/format.h>

#include "popxl/error.h"

namespace popxl {

/// Throws an Error with a formatted message.
template <typename... T>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<T...> format, T&&... args) {
  throw Error(kind, fmt::format(format, std::forward<T>(args)...));
}

[[noreturn]] void assertionFailed(const char* condition, const char* file, int line,
                                  const std::string& state);

}  // namespace popxl

/// An invariant of ours. `POPXL_ASSERT(n > 0, "n {} op {}", n, name)`: the state is always printed.
#define POPXL_ASSERT(condition, ...)                                                                      \
  do {                                                                                                    \
    if (!(condition)) ::popxl::assertionFailed(#condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)
