#include "exec/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace popxl::exec {
namespace {

/// Brings names of files that were made or changed in a folder to the disk.
void syncFolderOf(const std::string& path) {
  const int folder =
      ::open(std::filesystem::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read
  ::fsync(folder);
  ::close(folder);
}

}  // namespace

File::File(std::string path, bool create) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
  if (descriptor_ < 0) failTo(create ? "make" : "open");
}

File::~File() { ::close(descriptor_); }

void File::failTo(const char* what) const {
  const int reason = errno;
  fail(ErrorKind::kRuntime, "can't {} {}: {}", what, path_, std::strerror(reason));
}

int64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) failTo("look at");
  return status.st_size;
}

bool File::tryLock() { return ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0; }

void File::read(int64_t offset, void* to, int64_t bytes) const {
  auto* next = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t done = ::pread(descriptor_, next, static_cast<size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) failTo("read");
    if (done == 0) fail(ErrorKind::kRuntime, "{} ends at byte {}, too soon: it was cut off", path_, offset);
    next += done;
    offset += done;
    bytes -= done;
  }
}

void File::write(int64_t offset, const void* from, int64_t bytes) {
  const auto* next = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(descriptor_, next, static_cast<size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) failTo("write to");
    next += done;
    offset += done;
    bytes -= done;
  }
}

void File::allocate(int64_t bytes) {
  // The disk is asked first, so that a size that can't fit does not fill it before it fails.
  struct statvfs disk {};
  if (::fstatvfs(descriptor_, &disk) == 0) {
    const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (static_cast<double>(bytes) > free) {
      fail(ErrorKind::kRuntime,
           "{} needs {} bytes, and its disk has {:.0f} free; make room, or name a folder on another disk",
           path_, bytes, free);
    }
  }
  errno = ::posix_fallocate(descriptor_, 0, bytes);
  if (errno != 0) failTo("reserve the disk space of");
}

void File::truncate() {
  if (::ftruncate(descriptor_, 0) != 0) failTo("empty");
}

void File::sync() {
  if (::fdatasync(descriptor_) != 0) failTo("bring to the disk what was written to");
}

void File::rename(const std::string& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) failTo("rename");
  path_ = path;
  syncFolderOf(path);
}

}  // namespace popxl::exec
