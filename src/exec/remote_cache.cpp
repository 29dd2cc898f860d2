#include "exec/remote_cache.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "algo/offsets.h"

namespace popxl::exec {
namespace {

/// RAM for all entries, or as much as is allowed.
int64_t poolBytes(const RemoteLayout& layout, int64_t allowed) {
  double all = 0;
  for (const RemoteLayout::Buffer& b : layout.buffers)
    all += static_cast<double>((b.bytes + algo::kOffsetAlignment) * b.entries * layout.lanes);
  return all < static_cast<double>(allowed) ? static_cast<int64_t>(all) : allowed;
}

}  // namespace

RemoteCache::RemoteCache(const RemoteLayout& layout, int64_t firstReplica, const RemoteStorage& storage)
    : layout_(layout),
      syncs_(storage.syncEveryRun),
      file_(layout, firstReplica, storage.directory),
      pool_(poolBytes(layout, storage.ramBytes)),
      thread_([this] { workBeside(); }) {}

RemoteCache::~RemoteCache() {
  {
    const Lock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// Waits until no other thread works on an entry.
void RemoteCache::claim(int64_t number, Lock& lock) {
  changed_.wait(lock, [&] { return !claimed_.contains(number); });
  claimed_.insert(number);
}

void RemoteCache::release(int64_t number) {
  claimed_.erase(number);
  changed_.notify_all();
}

RemoteCache::Frame* RemoteCache::find(int64_t number) {
  const auto found = frames_.find(number);
  return found == frames_.end() ? nullptr : &found->second;
}

/// A frame for an entry, or null when those in RAM are used sooner.
RemoteCache::Frame* RemoteCache::make(int64_t number) {
  std::byte* const memory = room(bytesOf(number), plan_.nextUse(number));
  return memory == nullptr ? nullptr : &frames_.emplace(number, Frame{memory}).first->second;
}

/// Memory for what is used at a place of the plan, taken from what is used later.
std::byte* RemoteCache::room(int64_t bytes, int64_t nextUse) {
  if (bytes > pool_.bytes()) return nullptr;
  while (true) {
    if (std::byte* const memory = pool_.take(bytes)) return memory;
    if (evictable_.empty() || evictable_.rbegin()->first < nextUse) return nullptr;
    const int64_t last = evictable_.rbegin()->second;
    Frame& frame = frames_.at(last);
    mustStay(last, frame);
    notAhead(last, frame);
    pool_.giveBack(frame.memory, bytesOf(last));
    frames_.erase(last);
  }
}

void RemoteCache::mayGo(int64_t number, Frame& frame) {
  if (frame.isDirty) return;
  frame.nextUse = plan_.nextUse(number);
  evictable_.emplace(frame.nextUse, number);
}

void RemoteCache::mustStay(int64_t number, Frame& frame) {
  if (frame.nextUse >= 0) evictable_.erase({frame.nextUse, number});
  frame.nextUse = -1;
}

void RemoteCache::notAhead(int64_t number, Frame& frame) {
  if (frame.isAhead) ahead_ -= bytesOf(number);
  frame.isAhead = false;
}

void RemoteCache::queue(int64_t number, Frame& frame) {
  if (!frame.isQueued) queue_.push_back(number);
  frame.isQueued = true;
}

void RemoteCache::readPart(int64_t number, std::byte* to, int64_t bytes) const {
  const int64_t all = bytesOf(number);
  if (bytes == all) return file_.read(number, to);
  std::vector<std::byte> whole(static_cast<size_t>(all));
  file_.read(number, whole.data());
  std::memcpy(to, whole.data(), static_cast<size_t>(bytes));
}

/// Does work on an entry that is claimed, and on its frame if it has one, while others go on.
template <typename Work>
void RemoteCache::use(int64_t number, Frame* frame, Lock& lock, const Work& work) {
  if (frame != nullptr) mustStay(number, *frame);
  lock.unlock();
  try {
    work();
  } catch (...) {
    lock.lock();
    if (frame != nullptr) mayGo(number, *frame);
    release(number);
    throw;
  }
  lock.lock();
  if (frame != nullptr) mayGo(number, *frame);
  release(number);
}

void RemoteCache::load(int64_t number, std::byte* to, int64_t bytes) {
  if (bytes == 0) return;
  Lock lock(mutex_);
  claim(number, lock);
  if (inRun_) plan_.note(number, false);
  Frame* const frame = find(number);
  if (frame != nullptr) notAhead(number, *frame);
  use(number, frame, lock, [&] {
    if (frame != nullptr) {
      std::memcpy(to, frame->memory, static_cast<size_t>(bytes));
    } else {
      readPart(number, to, bytes);
    }
  });
}

void RemoteCache::store(int64_t number, const std::byte* from, int64_t bytes) {
  const int64_t all = bytesOf(number);
  if (bytes == 0) return;
  if (bytes < all) {  // the rest stays
    std::vector<std::byte> whole(static_cast<size_t>(all));
    load(number, whole.data(), all);
    std::memcpy(whole.data(), from, static_cast<size_t>(bytes));
    return store(number, whole.data(), all);
  }
  Lock lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
  claim(number, lock);
  const bool storedLater = inRun_ && plan_.note(number, true);
  Frame* frame = find(number);
  if (frame == nullptr) frame = make(number);
  if (frame != nullptr) {
    notAhead(number, *frame);
    mustStay(number, *frame);
    dirty_ += frame->isDirty ? 0 : 1;
    frame->isDirty = true;
    if (!storedLater) queue(number, *frame);
  }
  use(number, frame, lock, [&] {
    if (frame != nullptr) {
      std::memcpy(frame->memory, from, static_cast<size_t>(all));
    } else {
      file_.write(number, from);
    }
  });
}

void RemoteCache::commit() {
  Lock lock(mutex_);
  for (auto& [number, frame] : frames_) {
    if (frame.isDirty) queue(number, frame);
  }
  while (error_ == nullptr && dirty_ > 0) {
    if (!writeOne(lock)) changed_.wait(lock);
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
  file_.commit(syncs_);
  planAnew();
}

void RemoteCache::rollBack() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return claimed_.empty(); });
  for (const auto& [number, frame] : frames_) pool_.giveBack(frame.memory, bytesOf(number));
  frames_.clear();
  evictable_.clear();
  queue_.clear();
  dirty_ = ahead_ = 0;
  error_ = nullptr;
  file_.rollBack();
  if (inRun_) plan_.forget();
  planAnew();
}

/// A run is over: what it did is what the next will do.
void RemoteCache::planAnew() {
  if (inRun_) {
    plan_.begin();
    nextAhead_ = 0;
    for (auto& [number, frame] : frames_) {
      if (frame.nextUse < 0) continue;
      mustStay(number, frame);
      mayGo(number, frame);
    }
  }
  inRun_ = false;
  changed_.notify_all();
}

// What the thread beside the runs does.

void RemoteCache::workBeside() {
  Lock lock(mutex_);
  while (!stops_) {
    if (!readAhead(lock) && !writeOne(lock)) changed_.wait(lock);
  }
}

/// Reads one entry that will be loaded. False when there is none, or no room.
bool RemoteCache::readAhead(Lock& lock) {
  const std::vector<AccessPlan::Use>& uses = plan_.uses();
  nextAhead_ = std::max(nextAhead_, plan_.now());
  for (; nextAhead_ < static_cast<int64_t>(uses.size()); ++nextAhead_) {
    const AccessPlan::Use& use = uses[static_cast<size_t>(nextAhead_)];
    const int64_t number = use.entry, bytes = bytesOf(number);
    if (use.isDone || use.stores || plan_.nextUse(number) != nextAhead_ || bytes == 0 ||
        bytes > pool_.bytes() || frames_.contains(number) || claimed_.contains(number)) {
      continue;
    }
    // The other entries in RAM are those that are used again soonest.
    if (ahead_ > 0 && ahead_ + bytes > pool_.bytes() / 4) return false;
    std::byte* const memory = room(bytes, nextAhead_);
    if (memory == nullptr) return false;
    claim(number, lock);
    ++nextAhead_;
    lock.unlock();
    bool isRead = true;
    try {
      file_.read(number, memory);
    } catch (const std::exception&) {  // whoever asks for it will meet the error
      isRead = false;
    }
    lock.lock();
    if (isRead) {
      ahead_ += bytes;
      mayGo(number, frames_.emplace(number, Frame{memory, false, true}).first->second);
    } else {
      pool_.giveBack(memory, bytes);
    }
    release(number);
    return true;
  }
  return false;
}

/// Writes one entry that was stored. False when there is none, or others work on them.
bool RemoteCache::writeOne(Lock& lock) {
  const auto next =
      std::find_if(queue_.begin(), queue_.end(), [&](int64_t n) { return !claimed_.contains(n); });
  if (next == queue_.end() || error_ != nullptr) return false;
  const int64_t number = *next;
  queue_.erase(next);
  claim(number, lock);
  Frame& frame = frames_.at(number);
  lock.unlock();
  std::exception_ptr error;
  try {
    file_.write(number, frame.memory);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  lock.lock();
  if (error == nullptr) {
    frame.isDirty = frame.isQueued = false;
    --dirty_;
    mayGo(number, frame);
  } else {
    error_ = error;
  }
  release(number);
  return true;
}

}  // namespace popxl::exec
