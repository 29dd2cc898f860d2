#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace popxl::exec {

/// An open file of which pieces are read and written. What fails is an Error(kRuntime) with the file's name
/// and the system's reason.
class File {
 public:
  /// What is opened: a file that is there, to be read alone or also written; one that is made if it is not
  /// there; or a new one that only its owner may read, beside `path` with a name of its own.
  enum class Open : uint8_t { kToRead, kThere, kMade, kTemporary };

  /// Does not wait for what is no file.
  File(std::string path, Open how);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const;
  bool isRegular() const;
  /// False when another process or part of this one has it locked.
  bool tryLock();
  void read(int64_t offset, void* to, int64_t bytes) const;
  void write(int64_t offset, const void* from, int64_t bytes);
  /// Gives it so many bytes of the disk, all zero. Error(kRuntime) with the figures when it has too few.
  void allocate(int64_t bytes);
  void truncate();
  /// Returns when what was written is on the disk.
  void sync();
  /// Gives it another name, in place of what has that. `sync` brings the name to the disk.
  void rename(const std::string& path, bool sync = false);

 private:
  struct stat status() const;
  [[noreturn]] void failTo(const char* what) const;

  std::string path_;
  int descriptor_;
  int32_t locker_ = 0;  // the process that has the lock: those that it forks have it too, and must not end it
};

}  // namespace popxl::exec
