#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace popxl::exec {

/// The ending of the names of cache files.
inline constexpr std::string_view kCacheFileEnding = ".popef";

/// A file's bytes; nothing where it is missing, not a regular file, can't be read, or has more than `limit`
/// bytes.
std::optional<std::string> readFile(const std::filesystem::path& path, int64_t limit);

/// Puts a file in its place by a rename, so that a reader finds all of it or what was there before, making
/// the folder where it is missing. Empty when done, else what went wrong.
std::string writeFile(const std::filesystem::path& path, std::string_view bytes);

/// Notes that a file was used now.
void touch(const std::filesystem::path& path);

/// The cache files of a folder, those used last first.
std::vector<std::filesystem::path> cacheFiles(const std::filesystem::path& folder);

/// Removes the cache files used longest ago until the others, `kept` always among them, have at most `limit`
/// bytes; and what writers that were killed left behind more than an hour ago.
void cleanFolder(const std::filesystem::path& folder, const std::filesystem::path& kept, int64_t limit);

}  // namespace popxl::exec
