#include "kernels/parallel.h"

#include <sched.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace popxl::kernels {
namespace {

int initialThreads() {
  if (const char* value = std::getenv("POPXL_NUM_THREADS"); value != nullptr) {
    const int n = std::atoi(value);
    if (n < 1) fail(ErrorKind::kValue, "POPXL_NUM_THREADS is `{}`; it must be a number of at least 1", value);
    return n;
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

std::atomic<int>& count() {
  static std::atomic<int> threads{initialThreads()};
  return threads;
}

/// An arena per thread count in use; a change makes a new one and keeps the old until the process ends.
[[maybe_unused]] tbb::task_arena& arena(int threads) {
  static std::mutex mutex;
  static std::unique_ptr<tbb::task_arena> current;
  static std::atomic<tbb::task_arena*> fast{nullptr};
  static std::atomic<int> fastThreads{0};
  if (fastThreads.load(std::memory_order_acquire) == threads) return *fast.load(std::memory_order_acquire);
  const std::lock_guard<std::mutex> lock(mutex);
  static std::unique_ptr<tbb::task_arena> retired[64];
  if (fastThreads.load() != threads) {
    for (auto& slot : retired) {
      if (slot == nullptr) {
        slot = std::move(current);
        break;
      }
    }
    current = std::make_unique<tbb::task_arena>(threads);
    fast.store(current.get(), std::memory_order_release);
    fastThreads.store(threads, std::memory_order_release);
  }
  return *fast.load();
}

}  // namespace

int threadCount() { return count().load(std::memory_order_relaxed); }

void setThreadCount(int n) {
  if (n < 1) fail(ErrorKind::kValue, "the number of threads is {}; it must be at least 1", n);
  count().store(n);
}

namespace detail {

#if defined(__SANITIZE_THREAD__)

/// oneTBB is not built for the thread sanitizer, which would take every hand-over of work for a race and,
/// told to ignore them, would miss the races in our own chunks. Plain threads claim the chunks instead.
void runChunks(int64_t chunks, ChunkFn fn, const void* body) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < chunks; i = next++) fn(body, i);
  };
  std::vector<std::jthread> threads;
  for (int64_t i = 1; i < std::min<int64_t>(threadCount(), chunks); ++i) threads.emplace_back(work);
  work();
}

#else

void runChunks(int64_t chunks, ChunkFn fn, const void* body) {
  const int threads = threadCount();
  if (chunks <= 1 || threads == 1) {
    for (int64_t i = 0; i < chunks; ++i) fn(body, i);
    return;
  }
  arena(threads).execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, chunks, 1),
        [&](const tbb::blocked_range<int64_t>& range) {
          for (int64_t i = range.begin(); i < range.end(); ++i) fn(body, i);
        },
        tbb::simple_partitioner());
  });
}

#endif

}  // namespace detail
}  // namespace popxl::kernels
