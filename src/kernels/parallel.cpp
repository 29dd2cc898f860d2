#include "kernels/parallel.h"

#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
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

/// Chunks of one parallelFor; whoever has time claims the next.
struct Work {
  std::atomic<int64_t> next{0};
  int64_t chunks;
  detail::ChunkFn fn;
  const void* body;

  void help() {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < chunks;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      fn(body, i);
    }
  }
};

#if defined(__SANITIZE_THREAD__)

/// oneTBB is not built for the thread sanitizer, which would take every hand-over of work for a race and,
/// told to ignore them, would miss the races in our own chunks. Plain threads claim the chunks instead.
void share(int threads, Work& work) {
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads; ++i) helpers.emplace_back([&work] { work.help(); });
  work.help();
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

void share(int threads, Work& work) {
  arenaOf(threads).execute([&work, threads] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, std::min<int64_t>(threads, work.chunks), 1),
        [&work](const tbb::blocked_range<int64_t>&) { work.help(); }, tbb::simple_partitioner());
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
  const int threads = static_cast<int>(std::min<int64_t>(threadCount(), chunks));
  if (threads <= 1) {
    for (int64_t i = 0; i < chunks; ++i) fn(body, i);
    return;
  }
  Work work{.next = 0, .chunks = chunks, .fn = fn, .body = body};
  share(threadCount(), work);
}

}  // namespace detail
}  // namespace popxl::kernels
