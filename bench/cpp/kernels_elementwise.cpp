#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"

// Elementwise kernels, by machine code unless "tiles" is said, and reductions. The argument is the number of
// threads; "ns" is the time per position. "compile" is the time to make the machine code of a group that no
// other one equals.

namespace popxl::kernels {
namespace {

/// 64-byte aligned memory of one operand, small positive numbers.
class Operand {
 public:
  explicit Operand(const Layout& layout) : memory_(static_cast<size_t>(layout.bytes() / 64 + 1)) {
    if (layout.dtype != DType::kFloat32) return;
    auto* values = reinterpret_cast<float*>(data());
    for (int64_t i = 0; i < layout.numElements(); ++i) values[i] = static_cast<float>(i % 1000) * 0.004f;
  }
  std::byte* data() { return memory_[0].bytes; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_;
};

/// Operands that appear in `same` (output, input) share memory.
void run(benchmark::State& state, const Kernel& kernel, std::vector<Layout> layouts, int64_t positions,
         int64_t bytes, const std::vector<std::pair<size_t, size_t>>& same = {}) {
  if (kernel.scratchBytes() > 0) layouts.emplace_back(DType::kInt8, Shape{kernel.scratchBytes()});
  std::vector<Operand> memory;
  std::vector<std::byte*> operands;
  for (const Layout& l : layouts) memory.emplace_back(l);
  for (Operand& o : memory) operands.push_back(o.data());
  for (const auto& [to, from] : same) operands[to] = operands[from];
  const int before = threadCount();
  setThreadCount(static_cast<int>(state.range(0)));
  for (auto _ : state) kernel.run(operands);
  setThreadCount(before);
  state.SetBytesProcessed(state.iterations() * bytes);
  state.counters["ns"] = benchmark::Counter(static_cast<double>(state.iterations() * positions) * 1e-9,
                                            benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void elementwise(benchmark::State& state, ElementwiseSpec spec, Backend backend = Backend::kBest,
                 const std::vector<std::pair<size_t, size_t>>& same = {}) {
  std::vector<Layout> layouts = spec.inputs;
  layouts.insert(layouts.end(), spec.outputs.begin(), spec.outputs.end());
  int64_t bytes = 0;
  for (const Layout& l : layouts) bytes += l.bytes();
  const int64_t positions = numElements(spec.space);
  run(state, *makeElementwise(std::move(spec), backend), std::move(layouts), positions, bytes, same);
}

Layout f32(Shape shape) { return Layout(DType::kFloat32, std::move(shape)); }

void add(benchmark::State& state, int64_t n) {
  ElementwiseSpec spec{.expr = {}, .space = {n}, .inputs = {f32({n}), f32({n})}, .outputs = {f32({n})}};
  spec.expr.outputs() = {(input(spec.expr, 0, VType::kF32) + input(spec.expr, 1, VType::kF32)).id};
  elementwise(state, std::move(spec));
}

void primitive(benchmark::State& state, Prim prim) {
  const int64_t n = 16 * 1024;
  ElementwiseSpec spec{.expr = {}, .space = {n}, .inputs = {f32({n}), f32({n})}, .outputs = {f32({n})}};
  const Val x = input(spec.expr, 0, VType::kF32), y = input(spec.expr, 1, VType::kF32);
  spec.expr.outputs() = {(arity(prim) == 2 ? binary(prim, x, y) : unary(prim, x)).id};
  elementwise(state, std::move(spec));
}

ElementwiseSpec geluSpec(DType dtype) {
  const Shape space = {1024, 3072};
  ElementwiseSpec spec{.expr = {},
                       .space = space,
                       .inputs = {Layout(dtype, space), Layout(dtype, {3072})},
                       .outputs = {Layout(dtype, space)}};
  const Val x = input(spec.expr, 0, VType::kF32) + input(spec.expr, 1, VType::kF32);
  const Val y = x * 0.5 * (tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1.0);
  spec.expr.outputs() = {y.id};
  return spec;
}

void geluTanh(benchmark::State& state, DType dtype, Backend backend) {
  elementwise(state, geluSpec(dtype), backend);
}

ElementwiseSpec adamSpec(int64_t n) {
  ElementwiseSpec spec{.expr = {},
                       .space = {n},
                       .inputs = {f32({n}), f32({n}), f32({n}), f32({n}), f32({})},
                       .outputs = {f32({n}), f32({n}), f32({n})}};
  Expr& e = spec.expr;
  const Val w = input(e, 0, VType::kF32), g = input(e, 1, VType::kF32), m = input(e, 2, VType::kF32);
  const Val v = input(e, 3, VType::kF32), rate = input(e, 4, VType::kF32);
  const Val m2 = m * 0.9 + g * 0.1, v2 = v * 0.999 + g * g * 0.001;
  e.outputs() = {(w - rate * m2 / (sqrt(v2) + 1e-8)).id, m2.id, v2.id};
  return spec;
}

void adam(benchmark::State& state, Backend backend) {
  elementwise(state, adamSpec(10'000'000), backend, {{5, 0}, {6, 2}, {7, 3}});
}

/// 64 operations, of which 16 are transcendental, on four operands.
ElementwiseSpec largeSpec() {
  const Layout l = f32({1000});
  ElementwiseSpec spec{.expr = {}, .space = {1000}, .inputs = {l, l, l, l}, .outputs = {l, l}};
  std::vector<Val> values;
  for (int32_t i = 0; i < 4; ++i) values.push_back(input(spec.expr, i, VType::kF32));
  constexpr Prim kFunctions[] = {Prim::kExp, Prim::kTanh, Prim::kLog, Prim::kErf};
  for (size_t i = 0; i < 16; ++i) {
    const Val a = values[values.size() - 1 - i % 4], b = values[i % values.size()];
    const Val sum = unary(kFunctions[i % 4], a) * 0.5 + b;
    values.push_back(select(sum < a, sum, a));
  }
  spec.expr.outputs() = {values.back().id, values[values.size() - 2].id};
  return spec;
}

void compile(benchmark::State& state, const ElementwiseSpec& spec) {
  for (auto _ : state) benchmark::DoNotOptimize(makeElementwise(spec, Backend::kBest));
}

void reduce(benchmark::State& state, Reduction kind, Shape space, std::vector<int64_t> axes) {
  Shape kept = space;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  ReduceSpec spec{
      .kind = kind, .expr = {}, .space = space, .inputs = {f32(space)}, .axes = axes, .out = f32(kept)};
  spec.expr.outputs() = {input(spec.expr, 0, VType::kF32).id};
  run(state, *makeReduce(spec), {spec.inputs[0], spec.out}, numElements(space), spec.inputs[0].bytes());
}

BENCHMARK_CAPTURE(add, scalar, 1)->Arg(1);
BENCHMARK_CAPTURE(add, 1000, 1000)->Arg(1);
BENCHMARK_CAPTURE(add, 1M, 1 << 20)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(add, 16M, 1 << 24)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(primitive, exp, Prim::kExp)->Arg(1);
BENCHMARK_CAPTURE(primitive, log, Prim::kLog)->Arg(1);
BENCHMARK_CAPTURE(primitive, tanh, Prim::kTanh)->Arg(1);
BENCHMARK_CAPTURE(primitive, erf, Prim::kErf)->Arg(1);
BENCHMARK_CAPTURE(primitive, sin, Prim::kSin)->Arg(1);
BENCHMARK_CAPTURE(primitive, pow, Prim::kPow)->Arg(1);
BENCHMARK_CAPTURE(geluTanh, f32, DType::kFloat32, Backend::kBest)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(geluTanh, f32_tiles, DType::kFloat32, Backend::kTiles)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(geluTanh, f16, DType::kFloat16, Backend::kBest)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(geluTanh, f16_tiles, DType::kFloat16, Backend::kTiles)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(adam, 10M, Backend::kBest)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(adam, 10M_tiles, Backend::kTiles)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(compile, gelu, geluSpec(DType::kFloat32));
BENCHMARK_CAPTURE(compile, adam, adamSpec(1000));
BENCHMARK_CAPTURE(compile, 64_ops, largeSpec());
BENCHMARK_CAPTURE(reduce, sum_all_4M, Reduction::kSum, {1 << 22}, {0})->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(reduce, sum_rows_1024x768, Reduction::kSum, {1024, 768}, {1})
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();
BENCHMARK_CAPTURE(reduce, sum_columns_1024x3072, Reduction::kSum, {1024, 3072}, {0})
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();
BENCHMARK_CAPTURE(reduce, max_rows_1024x768, Reduction::kMax, {1024, 768}, {1})->Arg(1);
BENCHMARK_CAPTURE(reduce, bias_32x64x28x28, Reduction::kSum, {32, 64, 28, 28}, {0, 2, 3})
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();
BENCHMARK_CAPTURE(reduce, short_rows_200000x10, Reduction::kSum, {200000, 10}, {1})->Arg(1);

}  // namespace
}  // namespace popxl::kernels
