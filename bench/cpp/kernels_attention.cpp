#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/parallel.h"
#include "kernels/softmax.h"

// Attention beside the same as two products with a softmax between them. Heads lie side by side in the
// product that they come from. Arguments: threads, batch, query rows, key rows; 12 heads of 64.

namespace popxl::kernels {
namespace {

constexpr int64_t kHeads = 12, kWidth = 64;

/// Memory with numbers in [-1, 1).
std::vector<float> numbers(int64_t count) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> out(static_cast<size_t>(count) + 16);
  for (float& x : out) x = draw(rng);
  return out;
}

std::byte* bytesOf(std::vector<float>& memory) { return reinterpret_cast<std::byte*>(memory.data()); }

/// (batch, heads, rows, width) as part `part` of rows of `parts` x heads x width.
Layout heads(int64_t batch, int64_t rows, int64_t parts) {
  const int64_t row = parts * kHeads * kWidth;
  return {DType::kFloat32, {batch, kHeads, rows, kWidth}, {rows * row, kWidth, row, 1}};
}

Layout swapLast(Layout layout) {
  std::swap(layout.shape[2], layout.shape[3]);
  std::swap(layout.strides[2], layout.strides[3]);
  return layout;
}

/// The operands that all of them work on.
struct Operands {
  explicit Operands(const benchmark::State& state)
      : batch(state.range(1)),
        rows(state.range(2)),
        columns(state.range(3)),
        q(heads(batch, rows, 3)),
        kv(heads(batch, columns, 3)),
        out(heads(batch, rows, 1)),
        scores(DType::kFloat32, {batch, kHeads, rows, columns}),
        queries(numbers(3 * out.numElements())),
        keys(numbers(3 * batch * kHeads * columns * kWidth)),
        mixed(numbers(out.numElements())),
        p(numbers(scores.numElements())),
        dp(numbers(scores.numElements())) {}
  std::byte* at(std::vector<float>& memory, int64_t part) {
    return bytesOf(memory) + part * kHeads * kWidth * 4;
  }

  int64_t batch, rows, columns;
  Layout q, kv, out, scores;
  std::vector<float> queries, keys, mixed, p, dp;
};

class Runner {
 public:
  void run(const KernelPtr& kernel, std::vector<std::byte*> operands) {
    const auto bytes = static_cast<size_t>(kernel->scratchBytes());
    if (scratch_.size() < bytes + 64) scratch_.resize(bytes + 64);
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    if (bytes > 0) operands.push_back(scratch_.data() + (64 - address % 64) % 64);
    kernel->run(operands);
  }

 private:
  std::vector<std::byte> scratch_;
};

template <typename Body>
void measure(benchmark::State& state, double flops, const Body& body) {
  const int before = threadCount();
  setThreadCount(static_cast<int>(state.range(0)));
  body();
  for (auto _ : state) body();
  setThreadCount(before);
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void attention(benchmark::State& state) {
  Operands o(state);
  Runner runner;
  const KernelPtr kernel = makeAttention({o.q, o.kv, o.kv, {}, {}, o.out, {}, 0.125, 0});
  measure(state, kernel->flops(), [&] {
    runner.run(kernel, {bytesOf(o.queries), o.at(o.keys, 1), o.at(o.keys, 2), bytesOf(o.mixed)});
  });
}

void attentionWithProbabilities(benchmark::State& state) {
  Operands o(state);
  Runner runner;
  const KernelPtr kernel = makeAttention({o.q, o.kv, o.kv, {}, {}, o.out, o.scores, 0.125, 0});
  measure(state, kernel->flops(), [&] {
    runner.run(kernel,
               {bytesOf(o.queries), o.at(o.keys, 1), o.at(o.keys, 2), bytesOf(o.mixed), bytesOf(o.p)});
  });
}

void productsAndSoftmax(benchmark::State& state) {
  Operands o(state);
  Runner runner;
  const KernelPtr first = makeMatmul({o.q, swapLast(o.kv), o.scores}),
                  softmax = makeSoftmax(o.scores, o.scores, 3), second = makeMatmul({o.scores, o.kv, o.out});
  measure(state, first->flops() + second->flops(), [&] {
    runner.run(first, {bytesOf(o.queries), o.at(o.keys, 1), bytesOf(o.p)});
    runner.run(softmax, {bytesOf(o.p), bytesOf(o.p)});
    runner.run(second, {bytesOf(o.p), o.at(o.keys, 2), bytesOf(o.mixed)});
  });
}

void gradient(benchmark::State& state) {
  Operands o(state);
  Runner runner;
  std::vector<float> dq = o.queries, dkv = o.keys;
  const KernelPtr kernel = makeAttentionGrad({o.q, o.kv, o.kv, o.scores, o.out, {}, o.q, o.kv, o.kv, 0.125});
  measure(state, kernel->flops(), [&] {
    runner.run(kernel, {bytesOf(o.queries), o.at(o.keys, 1), o.at(o.keys, 2), bytesOf(o.p), bytesOf(o.mixed),
                        bytesOf(dq), o.at(dkv, 1), o.at(dkv, 2)});
  });
}

void gradientByProducts(benchmark::State& state) {
  Operands o(state);
  Runner runner;
  std::vector<float> dq = o.queries, dkv = o.keys;
  const KernelPtr dp = makeMatmul({o.out, swapLast(o.kv), o.scores}),
                  dv = makeMatmul({swapLast(o.scores), o.out, o.kv}),
                  ds = makeSoftmaxGrad(o.scores, o.scores, o.scores, 3),
                  toQ = makeMatmul({o.scores, o.kv, o.q}), toK = makeMatmul({swapLast(o.scores), o.q, o.kv});
  measure(state, 4 * dp->flops(), [&] {
    runner.run(dp, {bytesOf(o.mixed), o.at(o.keys, 2), bytesOf(o.dp)});
    runner.run(dv, {bytesOf(o.p), bytesOf(o.mixed), o.at(dkv, 2)});
    runner.run(ds, {bytesOf(o.p), bytesOf(o.dp), bytesOf(o.dp)});
    runner.run(toQ, {bytesOf(o.dp), o.at(o.keys, 1), bytesOf(dq)});
    runner.run(toK, {bytesOf(o.dp), bytesOf(o.queries), o.at(dkv, 1)});
  });
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int64_t threads : {1, 2}) {
    b->Args({threads, 8, 128, 128})->Args({threads, 1, 256, 256})->Args({threads, 1, 1024, 1024});
  }
}
void forwardSizes(benchmark::internal::Benchmark* b) {
  sizes(b);
  for (const int64_t threads : {1, 2}) b->Args({threads, 1, 1, 1024});
}

BENCHMARK(attention)->Apply(forwardSizes)->UseRealTime();
BENCHMARK(attentionWithProbabilities)->Apply(sizes)->UseRealTime();
BENCHMARK(productsAndSoftmax)->Apply(forwardSizes)->UseRealTime();
BENCHMARK(gradient)->Apply(sizes)->UseRealTime();
BENCHMARK(gradientByProducts)->Apply(sizes)->UseRealTime();

}  // namespace
}  // namespace popxl::kernels
