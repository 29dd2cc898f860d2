// How many ops a second are added to a graph, and freed again: a chain of additions through the public API.

#include <benchmark/benchmark.h>
#include <popxl/popxl.h>

#include <optional>

namespace {

void build(const popxl::Ir& ir, int64_t count) {
  const popxl::GraphScope scope(ir.mainGraph());
  const popxl::Tensor x = popxl::variable(std::vector<float>{1.0f}, {1}, "x");
  popxl::Tensor y = x;
  for (int64_t i = 0; i < count; ++i) y = y + x;
}

void addChain(benchmark::State& state) {
  const int64_t count = state.range(0);
  for (auto _ : state) {
    std::optional<popxl::Ir> ir(std::in_place);
    build(*ir, count);
    state.PauseTiming();
    ir.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(addChain)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void addChainAndFree(benchmark::State& state) {
  const int64_t count = state.range(0);
  for (auto _ : state) {
    const popxl::Ir ir;
    build(ir, count);
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(addChainAndFree)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
