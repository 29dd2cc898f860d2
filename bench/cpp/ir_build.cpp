// How many ops a second are added to a graph: a chain of additions through the public API.

#include <benchmark/benchmark.h>
#include <popxl/popxl.h>

namespace {

void addChain(benchmark::State& state) {
  const int64_t count = state.range(0);
  for (auto _ : state) {
    popxl::Ir ir;
    const popxl::GraphScope scope(ir.mainGraph());
    const popxl::Tensor x = popxl::variable(std::vector<float>{1.0f}, {1}, "x");
    popxl::Tensor y = x;
    for (int64_t i = 0; i < count; ++i) y = y + x;
    benchmark::DoNotOptimize(y);
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(addChain)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
