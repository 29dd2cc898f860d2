#include "base/error.h"

#include <string_view>

namespace popxl {

void assertionFailed(const char* condition, const char* file, int line, const std::string& state) {
  std::string_view name(file);
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  throw InternalError(
      fmt::format("internal error at {}:{}: `{}` does not hold; {}", name, line, condition, state));
}

}  // namespace popxl
