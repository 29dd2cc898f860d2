#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "kernels/conv.h"
#include "kernels/matmul.h"
#include "kernels/parallel.h"
#include "kernels/pool.h"

// Matrix products, convolutions and pooling at the sizes of an MLP, a transformer layer and LeNet. The
// counter is floating-point operations a second; the argument is the number of threads.

namespace popxl::kernels {
namespace {

using Maker = std::function<KernelPtr()>;

/// Runs the kernel on memory of `elements` float32 numbers per operand.
void runKernel(benchmark::State& state, const Maker& make, const std::vector<int64_t>& elements) {
  const int before = threadCount();
  setThreadCount(static_cast<int>(state.range(0)));
  const KernelPtr kernel = make();
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::vector<float>> memory;
  std::vector<std::byte*> operands;
  const auto add = [&](int64_t count) {
    memory.emplace_back(static_cast<size_t>(count + 16));
    for (float& x : memory.back()) x = uniform(rng);
    const auto address = reinterpret_cast<uintptr_t>(memory.back().data());
    operands.push_back(reinterpret_cast<std::byte*>((address + 63) / 64 * 64));
  };
  for (const int64_t count : elements) add(count);
  if (kernel->scratchBytes() > 0) add(kernel->scratchBytes() / 4);
  for (auto _ : state) kernel->run(operands);
  setThreadCount(before);
  state.counters["FLOP"] = benchmark::Counter(kernel->flops() * static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

void add(const std::string& name, const Maker& make, const std::vector<int64_t>& elements) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [make, elements](benchmark::State& s) { runKernel(s, make, elements); })
      ->Arg(1)
      ->Arg(2)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

enum class Form { kNN, kNT, kTN };

void addMatmul(const char* what, Form form, int64_t m, int64_t n, int64_t k, int64_t batch = 1,
               DType type = DType::kFloat32) {
  Layout lhs(type, {batch, m, k}), rhs(type, {batch, k, n}), out(type, {batch, m, n});
  if (form == Form::kTN) lhs.strides = {m * k, 1, m};
  if (form == Form::kNT) rhs.strides = {k * n, 1, k};
  const int64_t words = batch * std::max<int64_t>(1, sizeOf(type) / 4);
  constexpr const char* kForms[] = {"NN", "NT", "TN"};
  const std::string name = "matmul " + std::string(what) + " " + std::string(nameOf(type)) + " " +
                           kForms[static_cast<int>(form)] + " " + std::to_string(m) + "x" +
                           std::to_string(n) + "x" + std::to_string(k) +
                           (batch > 1 ? " x" + std::to_string(batch) : "");
  add(name, [=] { return makeMatmul({lhs, rhs, out}); }, {words * m * k, words * k * n, words * m * n});
}

/// The three directions of a square convolution.
void addConv(const char* what, int64_t n, int64_t in, int64_t out, int64_t image, int64_t kernel,
             int64_t pad) {
  const int64_t size = image + 2 * pad - kernel + 1;
  const Layout x(DType::kFloat32, {n, in, image, image}), w(DType::kFloat32, {out, in, kernel, kernel}),
      y(DType::kFloat32, {n, out, size, size});
  const ConvSpec spec{x, w, y, {1, 1}, {pad, pad}, {pad, pad}, {1, 1}, 1, false};
  const std::string name = "conv " + std::string(what) + " n" + std::to_string(n);
  add(name + " forward", [=] { return makeConv(spec); }, {x.numElements(), w.numElements(), y.numElements()});
  add(name + " dX", [=] { return makeConvGradInput(spec); },
      {y.numElements(), w.numElements(), x.numElements()});
  add(name + " dW", [=] { return makeConvGradWeight(spec); },
      {x.numElements(), y.numElements(), w.numElements()});
}

void addPool(int64_t n, int64_t channels, int64_t image) {
  const Layout x(DType::kFloat32, {n, channels, image, image}),
      y(DType::kFloat32, {n, channels, image / 2, image / 2});
  for (const bool average : {false, true}) {
    const PoolSpec spec{x, y, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, average};
    const std::string name = (average ? "average pool 2x2 " : "max pool 2x2 ") + toString(x.shape);
    const int64_t in = x.numElements(), out = y.numElements();
    add(name, [=] { return makePool(spec); }, {in, out});
    if (average) add(name + " gradient", [=] { return makeAveragePoolGrad(spec); }, {out, in});
    if (!average) add(name + " gradient", [=] { return makeMaxPoolGrad(spec); }, {in, out, out, in});
  }
}

const int kRegistered = [] {
  for (const int64_t n : {16, 64, 256, 512, 1024}) addMatmul("square", Form::kNN, n, n, n);
  addMatmul("fc1", Form::kNN, 64, 512, 784);
  addMatmul("fc2", Form::kNN, 64, 10, 512);
  addMatmul("dW1", Form::kTN, 784, 512, 64);
  addMatmul("dX2", Form::kNT, 64, 512, 10);
  addMatmul("dW2", Form::kTN, 512, 10, 64);
  addMatmul("tall dW", Form::kTN, 32, 16, 65536);
  addMatmul("proj", Form::kNN, 1024, 768, 768);
  addMatmul("ffn", Form::kNN, 1024, 3072, 768);
  addMatmul("ffn", Form::kNN, 128, 3072, 768);
  addMatmul("ffn", Form::kNN, 1024, 768, 3072);
  addMatmul("ffn dX", Form::kNT, 1024, 768, 3072);
  addMatmul("ffn dW", Form::kTN, 768, 3072, 1024);
  addMatmul("QK^T", Form::kNT, 128, 128, 64, 96);
  addMatmul("PV", Form::kNN, 128, 64, 128, 96);
  addMatmul("P^T dO", Form::kTN, 128, 64, 128, 96);
  addMatmul("gemv", Form::kNN, 1, 3072, 768);
  addMatmul("gemv", Form::kNT, 1, 3072, 768);
  addMatmul("gemv", Form::kNN, 3072, 1, 768);
  addMatmul("thin", Form::kNN, 4, 3072, 768);
  addMatmul("ffn", Form::kNN, 1024, 3072, 768, 1, DType::kFloat16);
  addMatmul("square", Form::kNN, 512, 512, 512, 1, DType::kFloat64);
  addMatmul("square", Form::kNN, 256, 256, 256, 1, DType::kInt32);
  for (const int64_t n : {32, 64}) {
    addConv("1-8 5x5 28", n, 1, 8, 28, 5, 0);
    addConv("1-16 3x3 28", n, 1, 16, 28, 3, 1);
    addConv("8-16 5x5 12", n, 8, 16, 12, 5, 0);
    addConv("16-32 5x5 12", n, 16, 32, 12, 5, 0);
    addConv("16-32 3x3 14", n, 16, 32, 14, 3, 1);
  }
  addConv("64-64 3x3 56", 8, 64, 64, 56, 3, 1);
  addConv("64-256 1x1 56", 8, 64, 256, 56, 1, 0);
  addConv("256-256 3x3 14", 1, 256, 256, 14, 3, 1);
  addPool(64, 16, 24);
  addPool(64, 32, 8);
  return 0;
}();

}  // namespace
}  // namespace popxl::kernels
