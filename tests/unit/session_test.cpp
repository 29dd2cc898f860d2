#include "exec/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/parallel.h"
#include "program_builder.h"

namespace popxl {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Tensor;
using testing::affineGraph;
using testing::Builder;

TEST(Session, AddsToAScalarVariable) {
  Builder b;
  Tensor* w = b.variable("w", {}, {2.0f});
  b.make("add_", {w, b.constant({}, {0.5f})});
  b.run();
  EXPECT_EQ(Builder::hostValues(w), std::vector<float>{2.5f});
}

TEST(Session, FusedChainWithBroadcastAndSeveralReaders) {
  Builder b;
  Tensor* x = b.load("x", {2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor* s = b.make("add", {x, b.constant({3}, {10, 20, 30})});
  Tensor* m = b.make("mul", {s, s});
  b.store("s", s);
  b.store("d", b.make("sub", {m, x}));
  b.run();
  const std::vector<float> x0 = {1, 2, 3, 4, 5, 6}, c = {10, 20, 30};
  for (size_t i = 0; i < 6; ++i) {
    const float sum = x0[i] + c[i % 3];
    EXPECT_EQ(b.outputs["s"][i], sum);
    EXPECT_EQ(b.outputs["d"][i], sum * sum - x0[i]);
  }
}

TEST(Session, InplaceChangesEveryNameOfTheMemory) {
  Builder b;
  Tensor* x = b.load("x", {4}, {-1, 2, -3, 4});
  Tensor* y = b.make("add", {x, b.constant({}, {0.0f})});
  b.make("relu_", {y});
  b.store("twice", b.make("add", {y, y}));  // reads y after it was rectified
  b.run();
  EXPECT_EQ(b.outputs["twice"], (std::vector<float>{0, 4, 0, 8}));
}

TEST(Session, ViewOfAVariableThatIsWrittenLaterKeepsTheOldValue) {
  Builder b;
  Tensor* w = b.variable("w", {2, 2}, {1, 2, 3, 4});
  Tensor* t = b.make("transpose", {w}, {Attr(std::vector<int64_t>{1, 0})});
  b.make("add_", {w, b.constant({}, {100.0f})});
  b.store("old", b.make("mul", {t, b.constant({}, {1.0f})}));
  b.run();
  EXPECT_EQ(b.outputs["old"], (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(Builder::hostValues(w), (std::vector<float>{101, 102, 103, 104}));
}

TEST(Session, CallsShareOneGraph) {
  Builder b;
  Graph& g = affineGraph(b, false);
  Tensor* x = b.load("x", {2}, {1, 2});
  Tensor* y = b.make("call", {x, b.constant({}, {3.0f})}, {Attr(&g)});
  b.store("y", b.make("call", {y, b.constant({}, {10.0f})}, {Attr(&g)}));
  b.store("x", x);
  b.run();
  EXPECT_EQ(b.outputs["y"], (std::vector<float>{41, 71}));
}

TEST(Session, CallByReferenceReachesTheVariable) {
  Builder b;
  Graph& g = affineGraph(b, true);
  Tensor* w = b.variable("w", {2}, {1, 2});
  b.store("y", b.make("call", {w, b.constant({}, {3.0f})}, {Attr(&g)}));
  b.run();
  EXPECT_EQ(b.outputs["y"], (std::vector<float>{5, 6}));
  EXPECT_EQ(Builder::hostValues(w), (std::vector<float>{4, 5}));
}

TEST(Session, RepeatCarriesItsFirstInputs) {
  for (const int64_t count : {0, 1, 2, 5}) {
    Builder b;
    Graph& g = affineGraph(b, false);
    Tensor* w = b.variable("w", {2}, {1, 2});
    b.store("y", b.make("repeat", {w, b.constant({}, {2.0f})}, {Attr(&g), Attr(count)}));
    b.run();
    float x0 = 1, x1 = 2;
    for (int64_t i = 0; i < count; ++i) {
      x0 = x0 * 2 + 1;
      x1 = x1 * 2 + 1;
    }
    EXPECT_EQ(b.outputs["y"], (std::vector<float>{x0, x1})) << count;
    EXPECT_EQ(Builder::hostValues(w), (std::vector<float>{1, 2}));
  }
}

TEST(Session, RepeatGivesWhatIsNotCarriedAnewEachTime) {
  Builder b;
  Graph& g = b.ir->createGraph("body");
  Tensor* x = g.addInput("x", {DType::kFloat32, {2}, {}});
  Tensor* k = g.addInput("k", {DType::kFloat32, {2}, {}});  // by value, and the body writes it
  ir::Context::current().pushGraph(g);
  Tensor* written = b.make("add_", {k, b.constant({}, {1.0f})});
  g.addOutput(b.make("add", {x, written}));
  ir::Context::current().popGraph();
  Tensor* w = b.variable("w", {2}, {10, 20});
  b.store("y", b.make("repeat", {b.constant({2}, {0, 0}), w}, {Attr(&g), Attr(int64_t{3})}));
  b.run();
  EXPECT_EQ(b.outputs["y"], (std::vector<float>{33, 63}));
  EXPECT_EQ(Builder::hostValues(w), (std::vector<float>{10, 20}));
}

TEST(Session, GradientOfALinearLayerThroughACall) {
  Builder b;
  Graph& g = b.ir->createGraph("linear");
  Tensor* x = g.addInput("x", {DType::kFloat32, {2, 3}, {}});
  Tensor* w = g.addInput("w", {DType::kFloat32, {3, 2}, {}});
  Tensor* bias = g.addInput("b", {DType::kFloat32, {2}, {}});
  ir::Context::current().pushGraph(g);
  g.addOutput(b.make("tanh", {b.make("add", {b.make("matmul", {x, w}), bias})}));
  ir::Context::current().popGraph();
  const std::vector<float> xs = {0.1f, -0.2f, 0.3f, 0.4f, 0.5f, -0.6f},
                           ws = {0.5f, -0.25f, 0.75f, 0.1f, -0.3f, 0.2f};
  Tensor* xv = b.variable("xv", {2, 3}, xs);
  Tensor* wv = b.variable("wv", {3, 2}, ws);
  Tensor* bv = b.variable("bv", {2}, {0.05f, -0.05f});
  ir::Op* call = b.make("call", {xv, wv, bv}, {Attr(&g)})->producer();
  const passes::GradInfo info = passes::autodiff(g).at(&g);
  std::vector<Tensor*> inputs;
  for (const passes::Connection& c : info.inputs) {
    const auto at = [&](const std::vector<Tensor*>& list) {
      return std::find(list.begin(), list.end(), c.fwd) - list.begin();
    };
    if (c.isGrad) {
      inputs.push_back(b.constant({2, 2}, {1, 1, 1, 1}));
    } else if (const auto i = at(g.inputs()); i < std::ssize(g.inputs())) {
      inputs.push_back(call->input(static_cast<size_t>(i)));
    } else {
      inputs.push_back(call->output(static_cast<size_t>(at(g.outputs()))));
    }
  }
  const auto grads = b.makeAll("call", inputs, {Attr(info.graph)});
  ASSERT_EQ(grads.size(), 3u);
  for (size_t i = 0; i < 3; ++i) b.store("g" + std::to_string(i), grads[i]);
  b.run();
  const auto loss = [&](const std::vector<double>& p) {  // x, w, b concatenated
    double sum = 0;
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < 2; ++c) {
        double z = p[static_cast<size_t>(12 + c)];
        for (int k = 0; k < 3; ++k)
          z += p[static_cast<size_t>(r * 3 + k)] * p[static_cast<size_t>(6 + k * 2 + c)];
        sum += std::tanh(z);
      }
    }
    return sum;
  };
  std::vector<double> p(xs.begin(), xs.end());
  p.insert(p.end(), ws.begin(), ws.end());
  p.insert(p.end(), {0.05f, -0.05f});
  size_t at = 0;
  for (const char* name : {"g0", "g1", "g2"}) {
    for (const float grad : b.outputs[name]) {
      auto up = p, down = p;
      up[at] += 1e-5;
      down[at] -= 1e-5;
      EXPECT_NEAR(grad, (loss(up) - loss(down)) / 2e-5, 1e-5) << name;
      ++at;
    }
  }
}

TEST(Session, AmbiguityIsAnError) {
  Builder b;
  Tensor* w = b.variable("w", {2}, {1, 2});
  ir::Context::current().pushSequence(ir::SequenceMode::kUnordered);
  b.make("relu_", {w});
  b.make("add_", {w, b.constant({}, {1.0f})});
  ir::Context::current().popSequence();
  try {
    exec::Session session(b.ir);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("Inplacing ambiguity detected.", 0), 0u) << error.what();
  }
}

TEST(Session, PlannedMemoryIsWhatIsTouched) {
  const int before = kernels::threadCount();
  kernels::setThreadCount(1);  // a thread that comes late leaves its workspace untouched
  Builder b;
  Tensor* x = b.variable("x", {256, 1024}, std::vector<float>(256 * 1024, 1.0f));
  Tensor* y = b.make("matmul", {x, b.make("transpose", {x}, {Attr(std::vector<int64_t>{1, 0})})});
  b.store("y", b.make("exp", {y}));
  exec::Session session(b.ir);
  const MemoryReport planned = session.memory();
  session.attach();
  session.weightsFromHost();
  session.run(b.buffers());
  constexpr int64_t kPage = 4096;
  EXPECT_LE(session.touchedBytes(), planned.total());
  EXPECT_GE(session.touchedBytes() + 4 * kPage, planned.total());
  kernels::setThreadCount(before);
}

TEST(Session, ResultDoesNotTakeOverMemoryThatItsStepWritesInPlace) {
  Builder b;
  Tensor* x = b.load("x", {2}, {1, 2});
  Tensor* z = b.make("mul", {x, b.constant({}, {3.0f})});
  b.make("add_", {x, z});  // nobody reads x again, but the step writes it
  b.store("z", z);
  b.run();
  EXPECT_EQ(b.outputs["z"], (std::vector<float>{3, 6}));
}

TEST(Session, TwoInplaceUpdatesOfPartsOfOneMemoryBothHappen) {
  Builder b;
  Tensor* w = b.variable("w", {4}, {1, 2, 3, 4});
  using Ints = std::vector<int64_t>;
  Tensor* low = b.make("slice_", {w}, {Attr(Ints{0}), Attr(Ints{2})});
  Tensor* high = b.make("slice_", {w}, {Attr(Ints{2}), Attr(Ints{4})});
  Tensor* first = b.make("copy_var_update_", {low, b.constant({2}, {5, 6})});
  b.make("copy_var_update_", {high, b.make("add", {first, b.constant({}, {2.0f})})});
  b.run();
  EXPECT_EQ(Builder::hostValues(w), (std::vector<float>{5, 6, 7, 8}));
}

TEST(Session, UpdateInPlaceFromAReversedViewOfTheSameMemory) {
  Builder b;
  Tensor* w = b.variable("w", {4}, {1, 2, 3, 4});
  using Ints = std::vector<int64_t>;
  Tensor* back = b.make("slice_", {w}, {Attr(Ints{3}), Attr(Ints{-5}), Attr(Ints{-1})});
  b.make("copy_var_update_", {w, back});
  b.run();
  EXPECT_EQ(Builder::hostValues(w), (std::vector<float>{4, 3, 2, 1}));
}

TEST(Session, TimeStepIsCountedUpAfterWhatReadItBefore) {
  Builder b;
  Tensor* step = b.load("step", {}, {1.0f});
  Tensor* m = b.make("mul", {step, b.constant({}, {2.0f})});
  Tensor* v = b.make("mul", {m, m});
  const std::vector<Attr> attrs = {Attr(std::string("adam")), {}, Attr(0.5), Attr(0.75), Attr(0.0)};
  b.store("u", b.make("adam_updater", {m, v, nullptr, step, nullptr, nullptr, nullptr, nullptr}, attrs));
  b.store("m", m);
  b.run();
  EXPECT_EQ(b.outputs["m"][0], 2.0f);
  EXPECT_NEAR(b.outputs["u"][0], (2.0 / 0.75) / std::sqrt(4.0 / 0.4375), 1e-5);
}

TEST(Session, OperandByValueKeepsItsValueWhileTheSameMemoryGoesByReference) {
  Builder b;
  Graph& g = b.ir->createGraph("g");
  Tensor* changed = g.addInput("changed", {DType::kFloat32, {2}, {}}, true);
  Tensor* value = g.addInput("value", {DType::kFloat32, {2}, {}});
  ir::Context::current().pushGraph(g);
  b.make("relu_", {changed});
  g.addOutput(b.make("add", {value, value}));
  ir::Context::current().popGraph();
  Tensor* x = b.load("x", {2}, {-1, 2});
  b.store("y", b.make("call", {x, x}, {Attr(&g)}));
  b.store("after", x);
  b.run();
  EXPECT_EQ(b.outputs["y"], (std::vector<float>{-2, 4}));
  EXPECT_EQ(b.outputs["after"], (std::vector<float>{0, 2}));
}

TEST(Session, CalleeThatWritesItsCopyLeavesAViewOfTheOperandAlone) {
  Builder b;
  Graph& g = b.ir->createGraph("g");
  Tensor* scratch = g.addInput("scratch", {DType::kFloat32, {2}, {}});
  Tensor* value = g.addInput("value", {DType::kFloat32, {2, 1}, {}});
  ir::Context::current().pushGraph(g);
  b.make("relu_", {scratch});
  g.addOutput(b.make("add", {value, value}));
  ir::Context::current().popGraph();
  Tensor* x = b.load("x", {2}, {-1, 2});
  Tensor* view = b.make("reshape", {x}, {Attr(Shape{2, 1})});
  b.store("y", b.make("call", {x, view}, {Attr(&g)}));
  b.run();
  EXPECT_EQ(b.outputs["y"], (std::vector<float>{-2, 4}));
}

TEST(Session, ReshapeOfRowsThatRunBackwards) {
  Builder b;
  Tensor* x = b.load("x", {2, 3}, {1, 2, 3, 4, 5, 6});
  using Ints = std::vector<int64_t>;
  Tensor* back = b.make("slice", {x}, {Attr(Ints{2}), Attr(Ints{-4}), Attr(Ints{-1}), Attr(Ints{1})});
  b.store("y", b.make("reshape", {back}, {Attr(Shape{6})}));
  b.run();
  EXPECT_EQ(b.outputs["y"], (std::vector<float>{3, 2, 1, 6, 5, 4}));
}

/// The gradient of the sum of f's outputs for input x of f, all in float32.
std::vector<float> gradientOfSum(Builder& b, Graph& f, const std::vector<Tensor*>& operands,
                                 const Tensor* x) {
  const passes::GradInfo info = passes::autodiff(f).at(&f);
  const auto results = b.makeAll("call", operands, {Attr(&f)});
  const auto find = [](const std::vector<Tensor*>& list, const Tensor* t) {
    return static_cast<size_t>(std::find(list.begin(), list.end(), t) - list.begin());
  };
  std::vector<Tensor*> inputs;
  for (const passes::Connection& c : info.inputs) {
    const size_t in = find(f.inputs(), c.fwd);
    if (c.isGrad) {
      inputs.push_back(b.constant(c.fwd->shape(),
                                  std::vector<float>(static_cast<size_t>(c.fwd->type().numElements()), 1)));
    } else {
      inputs.push_back(in < operands.size() ? operands[in] : results[find(f.outputs(), c.fwd)]);
    }
  }
  const auto grads = b.makeAll("call", inputs, {Attr(info.graph)});
  for (size_t i = 0; i < grads.size(); ++i) {
    if (info.outputs[i].fwd == x) b.store("dx", grads[i]);
  }
  b.run();
  return b.outputs["dx"];
}

TEST(Autodiff, TensorThatIsTwoOutputsOfACalledGraphGetsBothGradients) {
  Builder b;
  Graph& inner = b.ir->createGraph("inner");
  Tensor* x = inner.addInput("x", {DType::kFloat32, {}, {}});
  ir::Context::current().pushGraph(inner);
  Tensor* y = b.make("mul", {x, x});
  inner.addOutput(y);
  inner.addOutput(y);
  Graph& f = b.ir->createGraph("f");
  Tensor* in = f.addInput("in", {DType::kFloat32, {}, {}});
  ir::Context::current().pushGraph(f);
  const auto both = b.makeAll("call", {in}, {Attr(&inner)});
  f.addOutput(b.make("add", {b.make("mul", {both[0], b.constant({}, {2.0f})}), both[1]}));
  ir::Context::current().popGraph();
  ir::Context::current().popGraph();
  EXPECT_EQ(gradientOfSum(b, f, {b.load("x", {}, {5.0f})}, in), std::vector<float>{30.0f});  // of 3 x^2
}

TEST(Autodiff, GraphCalledAtTwoLevelsIsDifferentiatedForBoth) {
  Builder b;
  const ir::TensorType scalar{DType::kFloat32, {}, {}};
  Graph& product = b.ir->createGraph("product");
  Tensor *p = product.addInput("p", scalar), *q = product.addInput("q", scalar);
  ir::Context::current().pushGraph(product);
  product.addOutput(b.make("mul", {p, q}));
  Graph& square = b.ir->createGraph("square");
  Tensor* u = square.addInput("u", scalar);
  ir::Context::current().pushGraph(square);
  square.addOutput(b.make("call", {u, u}, {Attr(&product)}));
  Graph& f = b.ir->createGraph("f");
  Tensor* x = f.addInput("x", scalar);
  ir::Context::current().pushGraph(f);
  Tensor* tripled =
      b.make("call", {x, b.constant({}, {3.0f})}, {Attr(&product)});  // needs the gradient of p alone
  f.addOutput(b.make("call", {tripled}, {Attr(&square)}));
  for (int i = 0; i < 3; ++i) ir::Context::current().popGraph();
  EXPECT_EQ(gradientOfSum(b, f, {b.load("x", {}, {2.0f})}, x), std::vector<float>{36.0f});  // of 9 x^2
}

}  // namespace
}  // namespace popxl
