#include "exec/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
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

File::File(std::string path, Open how) : path_(std::move(path)) {
  if (how == Open::kTemporary) {
    path_ += ".XXXXXX";
    descriptor_ = ::mkostemp(path_.data(), O_CLOEXEC);
  } else {
    const int access = how == Open::kToRead ? O_RDONLY | O_NONBLOCK : O_RDWR;
    descriptor_ = ::open(path_.c_str(), access | O_CLOEXEC | (how == Open::kMade ? O_CREAT : 0), 0666);
  }
  if (descriptor_ < 0) failTo(how == Open::kToRead || how == Open::kThere ? "open" : "make");
}

File::~File() {
  if (::getpid() == locker_) ::flock(descriptor_, LOCK_UN);
  ::close(descriptor_);
}

void File::failTo(const char* what) const {
  const int reason = errno;
  fail(ErrorKind::kRuntime, "can't {} {}: {}", what, path_, std::strerror(reason));
}

struct stat File::status() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) failTo("look at");
  return status;
}

int64_t File::size() const { return status().st_size; }

bool File::isRegular() const { return S_ISREG(status().st_mode); }

bool File::tryLock() {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) return false;
  locker_ = ::getpid();
  return true;
}

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

void File::rename(const std::string& path, bool sync) {
  if (::rename(path_.c_str(), path.c_str()) != 0) failTo("rename");
  path_ = path;
  if (sync) syncFolderOf(path);
}

}  // namespace popxl::exec
