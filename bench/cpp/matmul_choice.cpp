// Which path the cost model of matrix products picks, beside what every path takes: the table to which the
// constants of src/kernels/matmul_choice.cpp are fitted. One thread, microseconds of processor time, the
// least of many runs; `loss` is what the choice takes over the best. bench_matmul_choice [MICROSECONDS
// [avx2]].

#include <fmt/format.h>
#include <hwy/highway.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/gemm_simd.h"
#include "kernels/matmul.h"
#include "kernels/parallel.h"

namespace popxl::kernels {
namespace {

struct Shape {
  const char* what;
  const char* form;  // NN, NT, TN
  int64_t m, n, k, batch = 1;
};

constexpr Shape kShapes[] = {
    {"square", "NN", 8, 8, 8},         {"square", "NN", 16, 16, 16},      {"square", "NN", 32, 32, 32},
    {"square", "NN", 64, 64, 64},      {"square", "NN", 96, 96, 96},      {"square", "NN", 128, 128, 128},
    {"square", "NN", 256, 256, 256},   {"square", "NN", 512, 512, 512},   {"square", "NN", 1024, 1024, 1024},
    {"fc1", "NN", 64, 512, 784},       {"fc1 dW", "TN", 784, 512, 64},    {"fc2", "NN", 64, 10, 512},
    {"fc2 dX", "NT", 64, 512, 10},     {"fc2 dW", "TN", 512, 10, 64},     {"conv", "NN", 32, 64, 400},
    {"tall dW", "TN", 32, 16, 65536},  {"qkv", "NN", 1024, 2304, 768},    {"proj", "NN", 1024, 768, 768},
    {"proj dX", "NT", 1024, 768, 768}, {"proj dW", "TN", 768, 768, 1024}, {"up", "NN", 1024, 3072, 768},
    {"down", "NN", 1024, 768, 3072},   {"up dX", "NT", 1024, 768, 3072},  {"up dW", "TN", 768, 3072, 1024},
    {"up", "NN", 128, 3072, 768},      {"down", "NN", 128, 768, 3072},    {"up dX", "NT", 128, 768, 3072},
    {"up", "NN", 32, 3072, 768},       {"up", "NN", 8, 3072, 768},        {"up", "NN", 4, 3072, 768},
    {"up", "NN", 1, 3072, 768},        {"down", "NN", 1, 768, 3072},      {"up", "NT", 1, 3072, 768},
    {"up", "NT", 8, 3072, 768},        {"head", "NT", 128, 8192, 768},    {"QK^T", "NT", 128, 128, 64, 12},
    {"part", "NN", 128, 512, 512},     {"part dX", "NT", 128, 512, 512},  {"part dX", "NT", 256, 512, 512},
    {"part dW", "TN", 512, 512, 256},  {"PV", "NN", 128, 64, 128, 12},    {"P^T dO", "TN", 128, 64, 128, 12},
};

double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

/// The kernels' least times in microseconds, sampled in turn for about `budget` microseconds each.
std::vector<double> timeInTurn(const std::vector<KernelPtr>& kernels, std::span<std::byte* const> operands,
                               double budget) {
  std::vector<double> best(kernels.size(), 1e300);
  const double until = now() + budget * static_cast<double>(kernels.size());
  for (int round = 0; round < 3 || now() < until; ++round) {
    for (size_t i = 0; i < kernels.size(); ++i) {
      for (int warm = 0; warm < 3; ++warm) {
        const double start = now();
        double taken = 0;
        int count = 0;
        while (taken < 20) {
          kernels[i]->run(operands);
          taken = now() - start;
          ++count;
        }
        best[i] = std::min(best[i], taken / count);
      }
    }
  }
  return best;
}

void row(const Shape& s, std::vector<float>& memory, double budget) {
  const DType f32 = DType::kFloat32;
  Layout lhs(f32, {s.batch, s.m, s.k}), rhs(f32, {s.batch, s.k, s.n}), out(f32, {s.batch, s.m, s.n});
  const std::string_view form = s.form;
  if (form == "TN") lhs.strides = {s.m * s.k, 1, s.m};
  if (form == "NT") rhs.strides = {s.k * s.n, 1, s.k};
  const MatmulSpec spec{lhs, rhs, out};
  const MatmulPath chosen = matmulPath(spec);
  std::vector<KernelPtr> kernels;
  std::vector<MatmulPath> paths;
  int64_t scratch = 0;
  for (int i = 0; i < kMatmulPaths; ++i) {
    const auto path = static_cast<MatmulPath>(i);
    if (path == MatmulPath::kStreamed && s.m > 4 && s.n > 1) continue;
    if (path == MatmulPath::kPanels && s.batch > 1) continue;
    paths.push_back(path);
    kernels.push_back(makeMatmul(spec, path));
    scratch = std::max(scratch, kernels.back()->scratchBytes() / 4);
  }
  const int64_t sizes[] = {lhs.numElements(), rhs.numElements(), out.numElements(), scratch};
  int64_t all = 0;
  for (const int64_t size : sizes) all += (size + 31) / 16 * 16;
  if (memory.size() < static_cast<size_t>(all)) memory.resize(static_cast<size_t>(all), 0.25f);
  std::vector<std::byte*> operands;
  auto* at = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  for (const int64_t size : sizes) {
    operands.push_back(at);
    at += (size + 15) / 16 * 64;
  }
  const std::vector<double> times = timeInTurn(kernels, operands, budget);
  const double best = *std::min_element(times.begin(), times.end());
  std::string cells;
  double taken = best;
  for (int i = 0; i < kMatmulPaths; ++i) {
    const auto p = std::find(paths.begin(), paths.end(), static_cast<MatmulPath>(i));
    const auto time = p == paths.end() ? 0 : times[static_cast<size_t>(p - paths.begin())];
    cells += p == paths.end() ? fmt::format(" {:>11}", "-") : fmt::format(" {:>11.2f}", time);
    if (p != paths.end() && *p == chosen) taken = time;
  }
  const double flops = kernels.front()->flops();
  fmt::print("{:8} {} {:>18} {} {:>9} {:5.0f}% {:8.1f}\n", s.what, s.form,
             fmt::format("{}x{}x{}", s.m, s.n, s.k) + (s.batch > 1 ? fmt::format(" x{}", s.batch) : ""),
             cells, nameOf(chosen), 100 * (taken / best - 1), flops / taken / 1e3);
  std::fflush(stdout);
}

}  // namespace
}  // namespace popxl::kernels

int main(int argc, char** argv) {
  using namespace popxl::kernels;
  const double budget = argc > 1 ? std::strtod(argv[1], nullptr) : 50e3;
  if (argc > 2 && std::string_view(argv[2]) == "avx2") {  // with ONEDNN_MAX_CPU_ISA=AVX2 for the library
    hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  }
  setThreadCount(1);
  fmt::print("vectors of {} floats; microseconds a product\n", simd::gemmOps<float>().lanes);
  fmt::print("{:30}", "product");
  for (int i = 0; i < kMatmulPaths; ++i) fmt::print(" {:>11}", nameOf(static_cast<MatmulPath>(i)));
  fmt::print(" {:>9} {:>6} {:>8}\n", "chosen", "loss", "GFLOP/s");
  std::vector<float> memory;
  for (const Shape& shape : kShapes) row(shape, memory, budget);
}
