#include "kernels/parallel.h"

#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace popxl::kernels {
namespace {

constexpr int kMaxThreads = 1 << 16;

int initialThreads() {
  if (const char* value = std::getenv("POPXL_NUM_THREADS"); value != nullptr) {
    int n = 0;
    const char* end = value + std::strlen(value);
    const auto [stop, status] = std::from_chars(value, end, n);
    if (status != std::errc() || stop != end || n < 1 || n > kMaxThreads) {
      fail(ErrorKind::kValue, "POPXL_NUM_THREADS is `{}`; it must be a number from 1 to {}", value,
           kMaxThreads);
    }
    return n;
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::atomic<int>& count() {
  static std::atomic<int> threads{initialThreads()};
  return threads;
}

/// Chunks of one parallelFor. Each thread has a part of its own, so that neighbours of what it computed lie
/// in its caches when the next kernel reads them; whoever is done helps with the other parts.
class Work {
 public:
  Work(int helpers, int64_t chunks, detail::ChunkFn fn, const void* body)
      : parts_(std::min<int64_t>(helpers, kMaxParts)), fn_(fn), body_(body) {
    for (int64_t i = 0; i < parts_; ++i) {
      part(i).next.store(chunks * i / parts_, std::memory_order_relaxed);
      part(i).end = chunks * (i + 1) / parts_;
    }
  }

  /// Runs chunks until all are claimed, those of part `self` modulo their number first.
  void help(int64_t self) {
    for (int64_t i = 0; i < parts_; ++i) {
      Part& from = part((self + i) % parts_);
      for (int64_t chunk = claim(from); chunk < from.end; chunk = claim(from)) fn_(body_, chunk);
    }
  }

 private:
  static constexpr int64_t kMaxParts = 64;
  struct alignas(64) Part {
    std::atomic<int64_t> next;
    int64_t end;
  };
  Part& part(int64_t i) { return all_[static_cast<size_t>(i)]; }
  static int64_t claim(Part& from) { return from.next.fetch_add(1, std::memory_order_relaxed); }

  std::array<Part, kMaxParts> all_;  // the first parts_ of them
  int64_t parts_;
  detail::ChunkFn fn_;
  const void* body_;
};

#if defined(__SANITIZE_THREAD__)

/// oneTBB is not built for the thread sanitizer, which would take every hand-over of work for a race and,
/// told to ignore them, would miss the races in our own chunks. Plain threads claim the chunks instead.
void share(int helpers, Work& work) {
  std::vector<std::jthread> threads;
  for (int i = 1; i < helpers; ++i) threads.emplace_back([&work, i] { work.help(i); });
  work.help(0);
}

#else

struct Arena {
  explicit Arena(int n) : threads(n), arena(n) {}
  int threads;
  tbb::task_arena arena;
};

/// One arena for every number of threads that was ever set. They live until the process ends, as a run on
/// another thread may still use the last one; the current one is found without a lock.
tbb::task_arena& arenaOf(int threads) {
  static std::atomic<Arena*> current{nullptr};
  if (Arena* arena = current.load(std::memory_order_acquire); arena != nullptr && arena->threads == threads) {
    return arena->arena;
  }
  static std::mutex mutex;
  static auto& all = *new std::map<int, Arena>();
  const std::lock_guard<std::mutex> lock(mutex);
  // More threads than cores are allowed too; of several limits the lowest would hold.
  static int most = 0;
  static tbb::global_control* limit = nullptr;
  if (threads > most) {
    most = threads;
    delete limit;
    limit = new tbb::global_control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(most));
  }
  Arena& arena = all.try_emplace(threads, threads).first->second;
  current.store(&arena, std::memory_order_release);
  return arena.arena;
}

void share(int helpers, Work& work) {
  arenaOf(threadCount()).execute([&work, helpers] {
    tbb::parallel_for(
        tbb::blocked_range<int>(0, helpers, 1),
        [&work](const tbb::blocked_range<int>&) { work.help(tbb::this_task_arena::current_thread_index()); },
        tbb::simple_partitioner());
  });
}

#endif

}  // namespace

int threadCount() { return count().load(std::memory_order_relaxed); }

void setThreadCount(int n) {
  if (n < 1 || n > kMaxThreads) {
    fail(ErrorKind::kValue, "the number of threads is {}; it must be from 1 to {}", n, kMaxThreads);
  }
  count().store(n, std::memory_order_relaxed);
}

namespace detail {

void runChunks(int64_t chunks, ChunkFn fn, const void* body) {
  const int helpers = static_cast<int>(std::min<int64_t>(threadCount(), chunks));
  if (helpers <= 1) {
    for (int64_t i = 0; i < chunks; ++i) fn(body, i);
    return;
  }
  Work work(helpers, chunks, fn, body);
  share(helpers, work);
}

}  // namespace detail
}  // namespace popxl::kernels
