#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "compile/compile.h"
#include "passes/autodiff.h"
#include "program_generator.h"

// Compilation takes time in proportion to the program: each case once small and once 8 times as large.
namespace popxl::testing {
namespace {

using Build = std::function<void(Generator&, int)>;

double secondsToCompile(const Build& build, int n) {
  Generator g(1, {});
  ir::Context::current().pushGraph(g.ir->mainGraph());
  ir::Context::current().pushSequence(ir::SequenceMode::kOrdered);
  const auto start = std::chrono::steady_clock::now();
  build(g, n);
  ir::Context::current().popSequence();
  ir::Context::current().popGraph();
  compile::compile(*g.ir);
  const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << n << ": " << taken << " s\n";
  return taken;
}

/// Allows for a factor of 3 above proportional, and for noise where all is quick.
void expectLinear(const Build& build, int n) {
  const double small = secondsToCompile(build, n / 8);
  EXPECT_LT(secondsToCompile(build, n), 24 * small + 0.5);
}

Tensor* variable(Generator& g, const Shape& shape = {4}) {
  const ir::TensorType type{DType::kFloat32, shape, {}};
  return g.ir->mainGraph().addVariable("w", type, ir::HostData::allocate(type.bytes()));
}
void keep(Generator& g, Tensor* t) { g.make("copy_var_update_", {variable(g, t->shape()), t}); }

TEST(CompileScale, ChainOfElementwiseOps) {
  expectLinear(
      [](Generator& g, int n) {
        Tensor* t = variable(g);
        for (int i = 0; i < n; ++i) t = g.make("sin", {t});
        keep(g, t);
      },
      100000);
}

TEST(CompileScale, OpsThatAllWaitForTheirReader) {
  expectLinear(
      [](Generator& g, int n) {
        Tensor* w = variable(g);
        std::vector<Tensor*> all;
        for (int i = 0; i < n; ++i) all.push_back(g.make("sin", {w}));
        keep(g, g.make("concat", all));
      },
      16000);
}

TEST(CompileScale, CallsOfOneGraph) {
  expectLinear(
      [](Generator& g, int n) {
        Tensor* w = variable(g);
        Graph& f = g.ir->createGraph("f");
        Tensor* x = f.addInput("x", w->type());
        ir::Context::current().pushGraph(f);
        f.addOutput(g.make("sin", {x}));
        ir::Context::current().popGraph();
        Tensor* t = w;
        for (int i = 0; i < n; ++i) t = g.make("call", {t}, {Attr(&f)});
        keep(g, t);
      },
      10000);
}

TEST(CompileScale, UpdatesInPlaceOfViews) {
  expectLinear(
      [](Generator& g, int n) {
        Tensor* w = variable(g);
        for (int i = 0; i < n; ++i) {
          Tensor* view =
              g.make("slice_", {w}, {Attr(std::vector<int64_t>{i % 3}), Attr(std::vector<int64_t>{4})});
          g.make("add_", {view, g.make("identity", {view})});
        }
      },
      5000);
}

TEST(CompileScale, UpdatesInPlaceOfManyVariables) {
  expectLinear(
      [](Generator& g, int n) {
        std::vector<Tensor*> sums;
        for (int i = 0; i < n; ++i) sums.push_back(g.make("sin", {variable(g)}));
        for (int i = 0; i < n; ++i) keep(g, sums[static_cast<size_t>(i)]);
      },
      8000);
}

TEST(CompileScale, GradientOfAChain) {
  expectLinear(
      [](Generator& g, int n) {
        Graph& f = g.ir->createGraph("f");
        ir::Context::current().pushGraph(f);
        Tensor* t = f.addInput("x", {DType::kFloat32, {4}, {}});
        for (int i = 0; i < n; ++i) t = g.make("sin", {t});
        f.addOutput(t);
        ir::Context::current().popGraph();
        g.make("call", {variable(g)}, {Attr(&f)});
        passes::autodiff(f);
      },
      40000);
}

}  // namespace
}  // namespace popxl::testing
