#include "exec/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "exec/file.h"

namespace popxl::exec {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kStaleSeconds = 3600;

struct Entry {
  fs::path path;
  int64_t bytes;
  timespec used;

  bool operator<(const Entry& other) const {  // used later comes first; names decide where times do not
    if (used.tv_sec != other.used.tv_sec) return used.tv_sec > other.used.tv_sec;
    if (used.tv_nsec != other.used.tv_nsec) return used.tv_nsec > other.used.tv_nsec;
    return path < other.path;
  }
};

/// The regular files of a folder, those used last first.
std::vector<Entry> listFiles(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat status;
    if (::stat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    entries.push_back({it->path(), status.st_size, status.st_mtim});
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool isCacheFile(const fs::path& path) { return path.extension() == kCacheFileEnding; }

/// Whether writeFile makes such names, of files that are not in their place yet.
bool isTemporary(const fs::path& path) { return isCacheFile(path.stem()); }

}  // namespace

std::optional<std::string> readFile(const fs::path& path, int64_t limit) {
  try {
    const File file(path, File::Open::kToRead);
    if (!file.isRegular() || file.size() > limit) return std::nullopt;
    std::string bytes(static_cast<size_t>(file.size()), '\0');
    file.read(0, bytes.data(), static_cast<int64_t>(bytes.size()));
    return bytes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string writeFile(const fs::path& path, std::string_view bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return error.message();
  std::string temporary;
  try {
    File file(path, File::Open::kTemporary);
    temporary = file.path();
    file.write(0, bytes.data(), static_cast<int64_t>(bytes.size()));
    file.rename(path);
    return "";
  } catch (const Error& failed) {
    if (!temporary.empty()) fs::remove(temporary, error);
    return failed.what();
  }
}

void touch(const fs::path& path) { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

std::vector<fs::path> cacheFiles(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const Entry& entry : listFiles(folder)) {
    if (isCacheFile(entry.path)) paths.push_back(entry.path);
  }
  return paths;
}

void cleanFolder(const fs::path& folder, const fs::path& kept, int64_t limit) {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::vector<Entry> entries = listFiles(folder);
  std::stable_partition(entries.begin(), entries.end(), [&](const Entry& e) { return e.path == kept; });
  int64_t bytes = 0;
  for (const Entry& entry : entries) {
    if (isCacheFile(entry.path)) {
      bytes += entry.bytes;
      // Another process may have removed it: nothing is wrong then.
      if (bytes > limit && entry.path != kept) ::unlink(entry.path.c_str());
    } else if (isTemporary(entry.path) && now.tv_sec - entry.used.tv_sec > kStaleSeconds) {
      ::unlink(entry.path.c_str());
    }
  }
}

}  // namespace popxl::exec
