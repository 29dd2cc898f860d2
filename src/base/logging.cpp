#include "base/logging.h"

#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"

namespace popxl {
namespace {

/// Writes to the descriptor itself, not to the C stream, so that redirecting the descriptor always works.
class DescriptorSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }
  void flush_() override {}
};

std::optional<spdlog::level::level_enum> levelFromName(std::string name) {
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  static const std::map<std::string, spdlog::level::level_enum> kLevels = {
      {"TRACE", spdlog::level::trace}, {"DEBUG", spdlog::level::debug},      {"INFO", spdlog::level::info},
      {"WARN", spdlog::level::warn},   {"ERR", spdlog::level::err},          {"ERROR", spdlog::level::err},
      {"OFF", spdlog::level::off},     {"CRITICAL", spdlog::level::critical}};
  const auto it = kLevels.find(name);
  if (it == kLevels.end()) return std::nullopt;
  return it->second;
}

bool levelWasSet = false;

}  // namespace

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("popxl", std::make_shared<DescriptorSink>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%f %t %L: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

void refreshLogLevel() {
  if (levelWasSet) return;
  const char* value = std::getenv("POPART_LOG_LEVEL");
  log().set_level(levelFromName(value == nullptr ? "" : value).value_or(spdlog::level::warn));
}

void setLogLevel(const std::string& level) {
  const auto parsed = levelFromName(level);
  if (!parsed) {
    fail(ErrorKind::kValue, "`{}` is no log level; use TRACE, DEBUG, INFO, WARN, ERR or OFF", level);
  }
  levelWasSet = true;
  log().set_level(*parsed);
}

}  // namespace popxl
