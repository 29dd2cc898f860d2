#include "popxl/machine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/machine.cpp"
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::machine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Runs `rounds` rounds of twelve independent multiply-adds; returns something that depends on all of them.
float multiplyAdd(int64_t rounds, float seed) {
  const hn::ScalableTag<float> d;
  // Different starts: the compiler would make one chain of twelve equal ones.
  const auto start = [&](float i) HWY_ATTR { return hn::Set(d, seed + i); };
  auto a0 = start(0), a1 = start(1), a2 = start(2), a3 = start(3), a4 = start(4), a5 = start(5);
  auto a6 = start(6), a7 = start(7), a8 = start(8), a9 = start(9), a10 = start(10), a11 = start(11);
  const auto x = hn::Set(d, 0.999f), y = hn::Set(d, 0.001f);
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, x, y), a1 = hn::MulAdd(a1, x, y), a2 = hn::MulAdd(a2, x, y),
    a3 = hn::MulAdd(a3, x, y);
    a4 = hn::MulAdd(a4, x, y), a5 = hn::MulAdd(a5, x, y), a6 = hn::MulAdd(a6, x, y),
    a7 = hn::MulAdd(a7, x, y);
    a8 = hn::MulAdd(a8, x, y), a9 = hn::MulAdd(a9, x, y), a10 = hn::MulAdd(a10, x, y),
    a11 = hn::MulAdd(a11, x, y);
  }
  const auto sum =
      hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(a6, a7)));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, hn::Add(hn::Add(a8, a9), hn::Add(a10, a11)))));
}

/// c = a + 3 b over n floats, c past the caches.
void streamTriad(const float* a, const float* b, float* c, size_t n) {
  const hn::ScalableTag<float> d;
  const auto k = hn::Set(d, 3.0f);
  for (size_t i = 0; i < n; i += hn::Lanes(d))
    hn::Stream(hn::MulAdd(k, hn::Load(d, b + i), hn::Load(d, a + i)), d, c + i);
}

void cachedTriad(const float* a, const float* b, float* c, size_t n) {
  const hn::ScalableTag<float> d;
  const auto k = hn::Set(d, 3.0f);
  for (size_t i = 0; i < n; i += hn::Lanes(d))
    hn::Store(hn::MulAdd(k, hn::Load(d, b + i), hn::Load(d, a + i)), d, c + i);
}

size_t lanes() { return hn::Lanes(hn::ScalableTag<float>()); }

}  // namespace popxl::kernels::machine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "kernels/parallel.h"

namespace popxl {
namespace kernels::machine {
HWY_EXPORT(multiplyAdd);
HWY_EXPORT(streamTriad);
HWY_EXPORT(cachedTriad);
HWY_EXPORT(lanes);
namespace {

constexpr int64_t kChunksPerThread = 4;  // a thread that starts late leaves its chunks to the others

/// Shortest of some times that the pool takes for work(0) ... work(chunks - 1); for so long that the system
/// gives each thread a core of its own.
template <typename Work>
double bestSeconds(int64_t chunks, const Work& work) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  constexpr double kSeconds = 0.05;
  const auto first = Clock::now();
  double best = 1e30;
  for (int repeat = 0; repeat < 5 || since(first) < kSeconds; ++repeat) {
    const auto start = Clock::now();
    parallelFor(chunks, work);
    best = std::min(best, since(start));
  }
  return best;
}

double flopsPerSecond(int threads) {
  constexpr int64_t kRounds = 250'000;
  const int64_t chunks = threads * kChunksPerThread;
  std::atomic<float> sum = 0;  // keeps the compiler from dropping the work
  const double seconds = bestSeconds(chunks, [&](int64_t chunk) {
    sum.fetch_add(HWY_DYNAMIC_DISPATCH(multiplyAdd)(kRounds, static_cast<float>(chunk)));
  });
  const auto lanes = static_cast<double>(HWY_DYNAMIC_DISPATCH(lanes)());
  return 2.0 * 12 * lanes * static_cast<double>(kRounds * chunks) / seconds;
}

/// Three arrays of `floats` for each of the chunks, which are gone over `rounds` times.
double triadBytesPerSecond(int64_t chunks, size_t floats, int rounds, bool cached) {
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  constexpr size_t kHugePage = size_t{2} << 20;  // as the memory of programs has them
  const size_t all = 3 * floats * static_cast<size_t>(chunks);
  const size_t bytes = (all * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
  const std::unique_ptr<float, Free> memory(static_cast<float*>(std::aligned_alloc(kHugePage, bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory.get(), bytes, MADV_HUGEPAGE);  // a hint
  const auto arrays = [&](int64_t chunk) { return memory.get() + 3 * floats * static_cast<size_t>(chunk); };
  // Pages lie near the thread that touches them first.
  parallelFor(chunks, [&](int64_t chunk) { std::fill_n(arrays(chunk), 3 * floats, 1.0f); });
  const double seconds = bestSeconds(chunks, [&](int64_t chunk) {
    float* a = arrays(chunk);
    for (int round = 0; round < rounds; ++round) {
      if (cached) {
        HWY_DYNAMIC_DISPATCH(cachedTriad)(a, a + floats, a + 2 * floats, floats);
      } else {
        HWY_DYNAMIC_DISPATCH(streamTriad)(a, a + floats, a + 2 * floats, floats);
      }
    }
  });
  return static_cast<double>(all * sizeof(float)) * rounds / seconds;
}

/// A core's own second-level cache; a usual size where the system does not say.
double ownCacheBytes() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<double>(bytes) : 512.0 * 1024;
}

MachinePeaks measureNow(int threads) {
  constexpr size_t kLargeFloats = size_t{48} << 20;  // of one array, all chunks together
  const int64_t chunks = threads * kChunksPerThread;
  const size_t share = kLargeFloats / static_cast<size_t>(chunks) / 64 * 64;
  const auto cachedFloats = static_cast<size_t>(ownCacheBytes() / 2 / 3 / sizeof(float)) / 64 * 64;
  MachinePeaks peaks;
  peaks.threads = threads;
  peaks.flopsPerSecond = flopsPerSecond(threads);
  peaks.memoryBytesPerSecond = triadBytesPerSecond(chunks, share, 1, false);
  peaks.cacheBytesPerSecond = triadBytesPerSecond(threads, cachedFloats, 100, true);
  peaks.cacheBytes = ownCacheBytes() * threads;
  return peaks;
}

}  // namespace
}  // namespace kernels::machine

double MachinePeaks::bytesPerSecond(double bytes) const {
  return bytes <= cacheBytes ? cacheBytesPerSecond : memoryBytesPerSecond;
}

bool MachinePeaks::boundByBytes(double flops, double bytes) const {
  return bytes / bytesPerSecond(bytes) >= flops / flopsPerSecond;
}

double MachinePeaks::secondsFor(double flops, double bytes) const {
  return std::max(flops / flopsPerSecond, bytes / bytesPerSecond(bytes));
}

MachinePeaks MachinePeaks::measure() {
  static std::mutex mutex;
  static std::map<int, MachinePeaks> known;
  const int threads = kernels::threadCount();
  const std::lock_guard<std::mutex> lock(mutex);
  const auto at = known.find(threads);
  return at != known.end() ? at->second
                           : known.emplace(threads, kernels::machine::measureNow(threads)).first->second;
}

}  // namespace popxl
#endif  // HWY_ONCE
