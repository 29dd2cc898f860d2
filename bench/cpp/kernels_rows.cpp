#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/copy.h"
#include "kernels/gather.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/random.h"
#include "kernels/softmax.h"

// Row kernels at the sizes of a small transformer. The argument is the number of threads.

namespace popxl::kernels {
namespace {

/// One operand: 64-byte aligned memory with numbers in [0, 1) (integers in [0, 100)).
class Operand {
 public:
  explicit Operand(const Layout& layout) : memory_(static_cast<size_t>(layout.bytes() / 8 + 16)) {
    std::mt19937 rng(1);
    for (int64_t i = 0; i < layout.numElements(); ++i) {
      if (layout.dtype == DType::kFloat32) {
        reinterpret_cast<float*>(data())[i] = std::uniform_real_distribution<float>(0, 1)(rng);
      } else if (layout.dtype == DType::kInt32) {
        reinterpret_cast<int32_t*>(data())[i] = static_cast<int32_t>(rng() % 100);
      }
    }
  }
  std::byte* data() {
    auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
  }

 private:
  std::vector<uint64_t> memory_;
};

/// Runs the kernel on operands of these layouts; `bytes` is what it has to move at least.
void runBenchmark(benchmark::State& state, const KernelPtr& kernel, const std::vector<Layout>& layouts) {
  std::vector<std::unique_ptr<Operand>> operands;
  std::vector<std::byte*> pointers;
  int64_t bytes = 0;
  for (const Layout& layout : layouts) {
    operands.push_back(std::make_unique<Operand>(Layout(layout.dtype, layout.shape)));
    pointers.push_back(operands.back()->data());
    bytes += layout.bytes();
  }
  Operand scratch(Layout(DType::kInt8, {kernel->scratchBytes()}));
  if (kernel->scratchBytes() > 0) pointers.push_back(scratch.data());
  const int before = threadCount();
  setThreadCount(static_cast<int>(state.range(0)));
  for (auto _ : state) kernel->run(pointers);
  setThreadCount(before);
  state.SetBytesProcessed(state.iterations() * bytes);
}

Layout f32(const Shape& shape) { return Layout(DType::kFloat32, shape); }

void softmax(benchmark::State& state) {
  const Layout x = f32({1536, 128});
  runBenchmark(state, makeSoftmax(x, x, 1), {x, x});
}

void softmaxGrad(benchmark::State& state) {
  const Layout x = f32({1536, 128});
  runBenchmark(state, makeSoftmaxGrad(x, x, x, 1), {x, x, x});
}

void softmaxHalf(benchmark::State& state) {
  const Layout x(DType::kFloat16, {1536, 128});
  runBenchmark(state, makeSoftmax(x, x, 1), {x, x});
}

void softmaxOuterAxis(benchmark::State& state) {
  const Layout x = f32({128, 1536});
  runBenchmark(state, makeSoftmax(x, x, 0), {x, x});
}

void layerNorm(benchmark::State& state) {
  const Layout x = f32({1024, 768}), parameter = f32({768}), rows = f32({1024});
  runBenchmark(state, makeGroupNorm({x, parameter, rows, 1, 1e-5}, x),
               {x, parameter, parameter, x, rows, rows});
}

void layerNormGrad(benchmark::State& state) {
  const Layout x = f32({1024, 768}), parameter = f32({768}), rows = f32({1024});
  runBenchmark(state, makeGroupNormGrad({x, parameter, rows, 1, 1e-5}, x, x),
               {x, parameter, rows, rows, x, x, parameter, parameter});
}

void crossEntropy(benchmark::State& state) {
  const Layout probs = f32({1024, 1000}), labels(DType::kInt32, {1024}), scalar = f32({});
  const NllSpec spec{probs, labels, scalar, LossReduction::kMean, std::nullopt, false};
  runBenchmark(state, makeNllWithSoftmaxGrad(spec, scalar, probs), {probs, labels, scalar, scalar, probs});
}

void copyContiguous(benchmark::State& state) {
  const Layout x = f32({1024, 768});
  runBenchmark(state, makeCopy(x, x), {x, x});
}

void copyLarge(benchmark::State& state) {
  const Layout x = f32({16 * 1024 * 1024});
  runBenchmark(state, makeCopy(x, x), {x, x});
}

void transpose(benchmark::State& state) {
  const Layout src(DType::kFloat32, {768, 1024}, {1, 768}), dst = f32({768, 1024});
  runBenchmark(state, makeCopy(src, dst), {src, dst});
}

void transposeHeads(benchmark::State& state) {
  const Layout src(DType::kFloat32, {8, 12, 128, 64}, {128 * 768, 64, 768, 1}), dst = f32({8, 12, 128, 64});
  runBenchmark(state, makeCopy(src, dst), {src, dst});
}

void gather(benchmark::State& state) {
  const Layout table = f32({30000, 768}), indices(DType::kInt32, {1024}), out = f32({1024, 768});
  runBenchmark(state, makeGather(table, indices, out, 0), {table, indices, out});
}

void gatherGrad(benchmark::State& state) {
  const Layout table = f32({3000, 768}), indices(DType::kInt32, {1024}), out = f32({1024, 768});
  runBenchmark(state, makeGatherGrad(out, indices, table, 0), {out, indices, table});
}

void randomNormal(benchmark::State& state) {
  const Layout seed(DType::kUInt32, {2}), out = f32({1024, 768});
  runBenchmark(state, makeRandomNormal(seed, out, 0, 1), {seed, out});
}

void randomUniform(benchmark::State& state) {
  const Layout seed(DType::kUInt32, {2}), out = f32({1024, 768});
  runBenchmark(state, makeRandomUniform(seed, out, 0, 1), {seed, out});
}

#define POPXL_ROWS_BENCHMARK(name) \
  BENCHMARK(name)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond)->UseRealTime()
POPXL_ROWS_BENCHMARK(softmax);
POPXL_ROWS_BENCHMARK(softmaxGrad);
POPXL_ROWS_BENCHMARK(softmaxHalf);
POPXL_ROWS_BENCHMARK(softmaxOuterAxis);
POPXL_ROWS_BENCHMARK(layerNorm);
POPXL_ROWS_BENCHMARK(layerNormGrad);
POPXL_ROWS_BENCHMARK(crossEntropy);
POPXL_ROWS_BENCHMARK(copyContiguous);
POPXL_ROWS_BENCHMARK(copyLarge);
POPXL_ROWS_BENCHMARK(transpose);
POPXL_ROWS_BENCHMARK(transposeHeads);
POPXL_ROWS_BENCHMARK(gather);
POPXL_ROWS_BENCHMARK(gatherGrad);
POPXL_ROWS_BENCHMARK(randomNormal);
POPXL_ROWS_BENCHMARK(randomUniform);

}  // namespace
}  // namespace popxl::kernels
