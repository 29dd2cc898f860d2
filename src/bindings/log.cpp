#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "base/logging.h"
#include "bindings/module.h"

namespace nb = nanobind;

namespace popxl::bindings {

void bindLog(nb::module_& m) {
  // The message is text, not a format.
  const auto level = [&m](const char* name, spdlog::level::level_enum at) {
    m.def(
        name, [at](const std::string& message) { log().log(at, "{}", message); }, nb::arg("message"),
        "Writes a line to the log, when its level is enabled.");
  };
  level("log_trace", spdlog::level::trace);
  level("log_debug", spdlog::level::debug);
  level("log_info", spdlog::level::info);
  level("log_warn", spdlog::level::warn);
  level("log_error", spdlog::level::err);
  level("log_critical", spdlog::level::critical);
  m.def("set_log_level", &setLogLevel, nb::arg("level"),
        "Sets the level: TRACE, DEBUG, INFO, WARN, ERR or OFF.");
  m.def("refresh_log_level", &refreshLogLevel,
        "Reads POPART_LOG_LEVEL again, unless a level was set by name.");
}

}  // namespace popxl::bindings
