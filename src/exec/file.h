#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace popxl::exec {

/// An open file of which pieces are read and written. What fails is an Error(kRuntime) with the file's name
/// and the system's reason.
class File {
 public:
  /// Makes the file if it is not there and `create` says so.
  File(std::string path, bool create);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const;
  /// False when another process or part of this one has it locked.
  bool tryLock();
  void read(int64_t offset, void* to, int64_t bytes) const;
  void write(int64_t offset, const void* from, int64_t bytes);
  /// Gives it so many bytes of the disk, all zero. Error(kRuntime) with the figures when it has too few.
  void allocate(int64_t bytes);
  void truncate();
  /// Returns when what was written is on the disk.
  void sync();
  /// Gives it another name, in place of what has that.
  void rename(const std::string& path);

 private:
  [[noreturn]] void failTo(const char* what) const;

  std::string path_;
  int descriptor_;
};

}  // namespace popxl::exec
