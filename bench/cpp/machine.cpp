// What this machine can do, as one line of JSON: fused multiply-adds in registers, and memory bandwidth of a
// triad over arrays far larger than its caches. Everything else is reported as a share of these.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpp/machine.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace machine::HWY_NAMESPACE {
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

void triad(const float* a, const float* b, float* c, size_t n) {
  const hn::ScalableTag<float> d;
  const auto k = hn::Set(d, 3.0f);
  for (size_t i = 0; i < n; i += hn::Lanes(d))
    hn::Stream(hn::MulAdd(k, hn::Load(d, b + i), hn::Load(d, a + i)), d, c + i);
}

size_t lanes() { return hn::Lanes(hn::ScalableTag<float>()); }

}  // namespace machine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace machine {
HWY_EXPORT(multiplyAdd);
HWY_EXPORT(triad);
HWY_EXPORT(lanes);
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Best time of `repeats` runs of work(thread) on `threads` threads.
template <typename Work>
double bestSeconds(int threads, int repeats, const Work& work) {
  double best = 1e30;
  for (int r = 0; r < repeats; ++r) {
    std::vector<std::thread> team;
    const double start = now();
    for (int t = 1; t < threads; ++t) team.emplace_back([&, t] { work(t); });
    work(0);
    for (std::thread& t : team) t.join();
    best = std::min(best, now() - start);
  }
  return best;
}

}  // namespace
}  // namespace machine

int main(int argc, char** argv) {
  using namespace machine;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    fmt::print(stderr, "usage: {} [threads >= 1]\n", argv[0]);
    return 2;
  }
  constexpr int64_t kRounds = 20'000'000;
  std::vector<float> keep(static_cast<size_t>(threads));
  const double fma = bestSeconds(threads, 5, [&](int t) {
    keep[static_cast<size_t>(t)] = HWY_DYNAMIC_DISPATCH(multiplyAdd)(kRounds, static_cast<float>(t));
  });
  const auto lanes = static_cast<double>(HWY_DYNAMIC_DISPATCH(lanes)());
  constexpr size_t kFloats = size_t{48} << 20;  // 192 MiB an array
  auto* memory = static_cast<float*>(std::aligned_alloc(64, 3 * kFloats * sizeof(float)));
  if (memory == nullptr) return 1;
  std::fill_n(memory, 3 * kFloats, 1.0f);
  const size_t part = kFloats / static_cast<size_t>(threads) / 64 * 64;
  const double copy = bestSeconds(threads, 5, [&](int t) {
    const size_t at = static_cast<size_t>(t) * part;
    HWY_DYNAMIC_DISPATCH(triad)(memory + at, memory + kFloats + at, memory + 2 * kFloats + at, part);
  });
  const double flops = 2.0 * 12 * lanes * static_cast<double>(kRounds) * threads;
  const double bytes = 3.0 * sizeof(float) * static_cast<double>(part) * threads;
  fmt::print("{{\"threads\": {}, \"gflops\": {:.1f}, \"gbytes_per_s\": {:.2f}, \"check\": {}}}\n", threads,
             flops / fma / 1e9, bytes / copy / 1e9, keep[0] + memory[2 * kFloats] > 0);
  std::free(memory);
  return 0;
}
#endif
