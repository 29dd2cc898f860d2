// What one run of a session costs: the smallest program, which adds 1 to a number from the host, through the
// public API.

#include <benchmark/benchmark.h>
#include <popxl/popxl.h>

#include <vector>

namespace {

void runScalarAdd(benchmark::State& state) {
  popxl::Ir ir;
  const popxl::Stream in = ir.h2dStream({{}}, "in"), out = ir.d2hStream({{}}, "out");
  {
    const popxl::GraphScope scope(ir.mainGraph());
    popxl::ops::hostStore(out, popxl::ops::hostLoad(in) + 1.0);
  }
  popxl::Session session(ir);
  const std::vector<float> x = {41.0f};
  std::vector<float> y = {0.0f};
  popxl::HostBuffers buffers;
  buffers.in(in, x).out(out, y);
  for (auto _ : state) session.run(buffers);
  if (y[0] != 42.0f) state.SkipWithError("the sum is wrong");
}
BENCHMARK(runScalarAdd)->Unit(benchmark::kMicrosecond);

}  // namespace
