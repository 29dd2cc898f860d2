#pragma once

#include <spdlog/spdlog.h>

namespace popxl {

/// The project's logger: writes to file descriptor 2. Its level is read from POPART_LOG_LEVEL (TRACE, DEBUG,
/// INFO, WARN (default), ERR, OFF) whenever refreshLogLevel runs, so that a program may set the variable
/// after loading the library.
spdlog::logger& log();
/// Reads the environment again; called when an Ir or a Session is made. A level set by setLogLevel stays.
void refreshLogLevel();
/// Sets the level by name ("DEBUG", ...). Throws Error(kValue) for an unknown name.
void setLogLevel(const std::string& level);

}  // namespace popxl
