#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/file.h"
#include "exec/remote_store.h"

namespace popxl::exec {

/// Entries in a file that is whole whenever the process ends: each has two slots, of which one holds what was
/// committed and is not written, and a commit is one small write. docs/design/052-remote.md has the format.
///
/// Different entries may be read and written by several threads at once; the other functions are for one.
/// Errors are of kRuntime.
class RemoteFile {
 public:
  /// Opens the file of a process's replicas in a folder, or makes both. Error when it is in use, is another
  /// program's, or is damaged; then nothing has been changed.
  RemoteFile(const RemoteLayout& layout, int64_t firstReplica, const std::string& folder);

  /// Whole entries. Error naming the entry when its data are not those that were written.
  void read(int64_t number, std::byte* to) const;
  void write(int64_t number, const std::byte* from);

  /// Makes what was written the state that the file has when it is opened again. `sync`: also after a failure
  /// of power.
  void commit(bool sync);
  /// Back to what was last committed.
  void rollBack();
  void sync() { file_->sync(); }
  /// Back to the commit before the last, when nothing was written since the file was opened. Error when there
  /// is none, or the run after it had begun to write.
  void undoCommit();

  int64_t commits() const { return static_cast<int64_t>(committed_.generation); }
  bool isKept(int64_t number) const;

 private:
  /// What a slot holds: written for which commit (0: never), and the checksum of its data.
  struct Record {
    uint64_t generation = 0, sum = 0, check = 0, unused = 0;
  };
  struct Entry {
    std::array<Record, 2> slots;
    uint8_t latest = 0;  ///< slot that was written last
    bool isNew = false;  ///< and that is not committed yet
  };
  struct Commit {
    uint64_t generation = 0, digest = 0, check = 0;
  };
  /// Where a buffer's slots lie.
  struct Place {
    int64_t offset, slotBytes;
  };

  std::string describe(int64_t firstReplica) const;
  void layOut(int64_t headBytes);
  void make(const std::string& path, const std::string& description);
  void open(const std::string& path, const std::string& description);
  void checkHead(const std::string& description) const;
  void checkSize() const;
  void readCommits();
  void writeCommit(const Commit& commit, uint64_t slot);
  std::vector<std::pair<int64_t, int>> readRecords();
  int64_t slotAt(int64_t number, int slot) const;
  void writeRecord(int64_t number, int slot, Record record);
  static uint64_t checkOf(int64_t number, const Record& record);
  static uint64_t checkOf(const Commit& commit);

  const RemoteLayout& layout_;
  std::unique_ptr<File> file_;
  std::vector<Place> places_;  // of the buffers
  int64_t recordsAt_ = 0, size_ = 0;
  std::vector<Entry> entries_;
  Commit committed_, before_;
  std::mutex mutex_;
  std::vector<int64_t> written_;  // since the last commit
  bool broken_ = false;           // a way back failed half way
};

}  // namespace popxl::exec
