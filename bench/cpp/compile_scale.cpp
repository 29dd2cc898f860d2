// Compile time by the size of the program, one case for each thing of which a program may have very many.
// Each should take a time in proportion to its size.

#include <benchmark/benchmark.h>

#include "base/error.h"
#include "compile/compile.h"
#include "ir/context.h"
#include "ops/ops.h"
#include "passes/autodiff.h"

namespace popxl {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Tensor;

/// A program whose main graph is entered, its ops in order.
struct Program {
  Program() {
    ir::Context::current().pushGraph(ir->mainGraph());
    ir::Context::current().pushSequence(ir::SequenceMode::kOrdered);
  }
  ~Program() {
    ir::Context::current().popSequence();
    ir::Context::current().popGraph();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Tensor* make(std::string_view name, std::vector<Tensor*> inputs, std::vector<Attr> attrs = {}) {
    bool inplace = false;
    const ir::OpDef* def = ops::table().find(name, &inplace);
    POPXL_ASSERT(def != nullptr, "no op {}", name);
    return ir::Context::current().addOp(*def, std::move(inputs), std::move(attrs), {}, inplace)->output();
  }
  Tensor* variable(const Shape& shape = {4}) {
    const ir::TensorType type{DType::kFloat32, shape, {}};
    return ir->mainGraph().addVariable("w", type, ir::HostData::allocate(type.bytes()));
  }
  void keep(Tensor* t) { make("copy_var_update_", {variable(t->shape()), t}); }
  Graph& enter() {
    Graph& g = ir->createGraph("f");
    ir::Context::current().pushGraph(g);
    return g;
  }

  std::shared_ptr<ir::Ir> ir = ir::Ir::create(ops::table());
};

void elementwiseChain(Program& p, int64_t n) {
  Tensor* t = p.variable();
  for (int64_t i = 0; i < n; ++i) t = p.make("sin", {t});
  p.keep(t);
}

void allWaitForOneReader(Program& p, int64_t n) {
  Tensor* w = p.variable();
  std::vector<Tensor*> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(p.make("sin", {w}));
  p.keep(p.make("concat", all));
}

void callsOfOneGraph(Program& p, int64_t n) {
  Graph& f = p.enter();
  Tensor* x = f.addInput("x", {DType::kFloat32, {4}, {}});
  f.addOutput(p.make("sin", {x}));
  ir::Context::current().popGraph();
  Tensor* t = p.variable();
  for (int64_t i = 0; i < n; ++i) t = p.make("call", {t}, {Attr(&f)});
  p.keep(t);
}

void updatesOfViews(Program& p, int64_t n) {
  Tensor* w = p.variable();
  for (int64_t i = 0; i < n; ++i) {
    Tensor* view = p.make("slice_", {w}, {Attr(std::vector<int64_t>{i % 3}), Attr(std::vector<int64_t>{4})});
    p.make("add_", {view, p.make("identity", {view})});
  }
}

void gradientOfAChain(Program& p, int64_t n) {
  Graph& f = p.enter();
  Tensor* t = f.addInput("x", {DType::kFloat32, {4}, {}});
  for (int64_t i = 0; i < n; ++i) t = p.make("sin", {t});
  f.addOutput(t);
  ir::Context::current().popGraph();
  p.make("call", {p.variable()}, {Attr(&f)});
  passes::autodiff(f);
}

void compileCase(benchmark::State& state, void (*build)(Program&, int64_t)) {
  for (auto _ : state) {
    Program p;
    build(p, state.range(0));
    benchmark::DoNotOptimize(compile::compile(*p.ir));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(compileCase, elementwise_chain, elementwiseChain)->Arg(12500)->Arg(100000);
BENCHMARK_CAPTURE(compileCase, all_wait_for_one_reader, allWaitForOneReader)->Arg(2000)->Arg(16000);
BENCHMARK_CAPTURE(compileCase, calls_of_one_graph, callsOfOneGraph)->Arg(1250)->Arg(10000);
BENCHMARK_CAPTURE(compileCase, updates_of_views, updatesOfViews)->Arg(625)->Arg(5000);
BENCHMARK_CAPTURE(compileCase, gradient_of_a_chain, gradientOfAChain)->Arg(5000)->Arg(40000);

}  // namespace
}  // namespace popxl
