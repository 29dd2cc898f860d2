#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "exec/access_plan.h"
#include "exec/pool.h"
#include "exec/remote_file.h"
#include "popxl/remote_storage.h"

namespace popxl::exec {

/// Entries in a file, some of them in RAM too: never more than the bytes that are allowed. A thread of its
/// own reads what the plan says is loaded next, and writes what was stored; of what has to go, the entry goes
/// that is used again last. An entry without room is read and written where it is asked for.
class RemoteCache final : public RemoteStore {
 public:
  /// Errors as of RemoteFile. `storage` has a directory.
  RemoteCache(const RemoteLayout& layout, int64_t firstReplica, const RemoteStorage& storage);
  ~RemoteCache() override;
  RemoteCache(const RemoteCache&) = delete;
  RemoteCache& operator=(const RemoteCache&) = delete;

  void load(int64_t number, std::byte* to, int64_t bytes) override;
  void store(int64_t number, const std::byte* from, int64_t bytes) override;
  void beginRun() override { inRun_ = true; }
  void commit() override;
  void rollBack() override;
  void sync() override { file_.sync(); }
  bool isFile() const override { return true; }
  bool isKept(int64_t number) const override { return file_.isKept(number); }
  int64_t commits() const override { return file_.commits(); }
  void undoCommit() override { file_.undoCommit(); }
  int64_t touchedBytes() const override { return pool_.touchedBytes(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  /// An entry in RAM.
  struct Frame {
    std::byte* memory = nullptr;
    bool isDirty = false;   ///< newer than in the file
    bool isAhead = false;   ///< read before it was asked for
    bool isQueued = false;  ///< to be written, or being written
    int64_t nextUse = -1;   ///< its place among those that may go; -1: it must stay
  };

  int64_t bytesOf(int64_t number) const { return layout_.bufferOf(number).bytes; }
  void readPart(int64_t number, std::byte* to, int64_t bytes) const;
  template <typename Work>
  void use(int64_t number, Frame* frame, Lock& lock, const Work& work);
  void claim(int64_t number, Lock& lock);
  void release(int64_t number);
  Frame* find(int64_t number);
  Frame* make(int64_t number);
  std::byte* room(int64_t bytes, int64_t nextUse);
  void mayGo(int64_t number, Frame& frame);
  void mustStay(int64_t number, Frame& frame);
  void notAhead(int64_t number, Frame& frame);
  void queue(int64_t number, Frame& frame);
  void planAnew();

  void workBeside();
  bool readAhead(Lock& lock);
  bool writeOne(Lock& lock);

  const RemoteLayout& layout_;
  const bool syncs_;
  RemoteFile file_;
  Pool pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<int64_t, Frame> frames_;
  std::unordered_set<int64_t> claimed_;              // entries that some thread works on
  std::set<std::pair<int64_t, int64_t>> evictable_;  // (next use, entry) of frames that may go
  std::deque<int64_t> queue_;                        // entries to be written
  int64_t dirty_ = 0;                                // frames
  AccessPlan plan_;
  int64_t ahead_ = 0;      // bytes of frames that are read ahead
  int64_t nextAhead_ = 0;  // place in the plan up to which was read ahead
  bool inRun_ = false, stops_ = false;
  std::exception_ptr error_;  // of writing beside the runs
  std::thread thread_;
};

}  // namespace popxl::exec
