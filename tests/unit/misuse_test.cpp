// What a user can get wrong about whole programs: each is an error of theirs, and nothing is left behind.

#include "program_builder.h"

namespace popxl {
namespace {

using testing::affineGraph;
using testing::Attr;
using testing::Builder;
using testing::Graph;
using testing::Tensor;

TEST(Misuse, ACallWhoseGraphChangedIsAnError) {
  Builder b;
  Graph& g = affineGraph(b, false);
  b.store("y", b.make("call", {b.variable("w", {2}, {1, 2}), b.constant({}, {2.0f})}, {Attr(&g)}));
  g.addInput("late", {DType::kFloat32, {2}, {}});
  try {
    exec::Session session(b.ir);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kGraph);
    EXPECT_NE(std::string(error.what()).find("`call`"), std::string::npos) << error.what();
  }
}

TEST(Misuse, DataAgainstTheOrderOfContextsIsAnError) {
  Builder b;
  Tensor* w = b.variable("w", {2}, {1, 2});
  Tensor* later = b.make("exp", {w});
  ir::Context::current().pushExecution(ir::ExecutionContext::kWeightsFromHost);
  b.make("add_", {w, later});
  ir::Context::current().popExecution();
  for (const bool checked : {true, false}) {
    b.ir->options().enableInplaceAmbiguityChecking = checked;
    try {
      exec::Session session(b.ir);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("execution context"), std::string::npos) << error.what();
    }
  }
}

TEST(Misuse, GraphsThatRunEachOtherAreAnError) {
  Builder b;
  Graph& first = affineGraph(b, false);
  Graph& second = b.ir->createGraph("second");
  const auto call = [&](Graph& from, Graph& to) {
    ir::Context::current().pushGraph(from);
    Tensor* x = from.inputs().empty() ? from.addInput("x", {DType::kFloat32, {2}, {}}) : from.inputs()[0];
    Tensor* k = from.inputs().size() > 1 ? from.inputs()[1] : from.addInput("k", {DType::kFloat32, {}, {}});
    std::vector<Tensor*> operands = {x, k};
    operands.resize(to.inputs().size());
    try {
      b.make("call", operands, {Attr(&to)});
    } catch (...) {
      ir::Context::current().popGraph();
      throw;
    }
    ir::Context::current().popGraph();
  };
  call(second, first);
  EXPECT_THROW(call(first, second), Error);
  EXPECT_THROW(call(second, b.ir->mainGraph()), Error);
}

TEST(Misuse, AFailureLeavesTheProgramAsItWas) {
  Builder b;
  Graph& inner = b.ir->createGraph("inner");
  Tensor* x = inner.addInput("x", {DType::kFloat32, {2}, {}});
  ir::Context::current().pushGraph(inner);
  inner.addOutput(b.make("mul", {b.make("exp", {x}), x}));  // its gradient needs the exponential
  ir::Context::current().popGraph();
  Graph& outer = b.ir->createGraph("outer");
  Tensor* y = outer.addInput("y", {DType::kFloat32, {2}, {}});
  ir::Context::current().pushGraph(outer);
  Tensor* called = b.make("call", {y}, {Attr(&inner)});
  outer.addOutput(b.make("exp", {b.make("sin", {called})}));  // so does the sine's
  ir::Context::current().popGraph();
  // As a branch the outer graph cannot gain the outputs that its gradient needs.
  Tensor* c = b.constant({2}, {1, 2});
  Tensor* yes = b.make("greater", {b.constant({}, {2}), b.constant({}, {1})});
  b.make("conditional", {yes, c, c}, {Attr(&outer), Attr(&outer)});
  const size_t graphs = b.ir->graphs().size();
  EXPECT_THROW(passes::autodiff(outer), Error);
  EXPECT_EQ(b.ir->graphs().size(), graphs);
  EXPECT_EQ(inner.outputs().size(), 1u);
  EXPECT_EQ(outer.outputs().size(), 1u);
  EXPECT_EQ(called->producer()->outputs().size(), 1u);
}

}  // namespace
}  // namespace popxl
