#include <gtest/gtest.h>
#include <popxl/popxl.h>

#include <array>
#include <tuple>

namespace popxl {
namespace {

using Floats = std::vector<float>;

/// Message of the Error of `kind` that `body` throws.
template <typename Body>
std::string errorOf(ErrorKind kind, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// A program whose main graph is entered, in order, with its results.
struct Program {
  Ir ir;
  GraphScope scope{ir.mainGraph()};
  InSequence order;
  HostBuffers buffers;

  void out(const Tensor& t, Floats& to) {
    const Stream stream = ir.d2hStream(t.spec());
    ops::hostStore(stream, t);
    to.resize(static_cast<size_t>(t.numElements()));
    buffers.out(stream, to);
  }
  void run() { Session(ir).run(buffers); }
};

TEST(Api, OperatorsFollowBroadcastingAndTakeNumbers) {
  Program p;
  const Tensor x = constant(Floats{1, 2, 3, 4}, {2, 2}), y = constant(Floats{10, 20}, {2});
  Floats sum, mixed, negated, rest, reversed;
  p.out(x + y, sum);
  p.out(1.0 - x * 2.0 / y, mixed);
  p.out(-x, negated);
  p.out(y % constant(3.0f), rest);
  p.out(x.transpose().reshape({-1}), reversed);
  p.run();
  EXPECT_EQ(sum, (Floats{11, 22, 13, 24}));
  EXPECT_EQ(mixed, (Floats{1 - 2.0f / 10, 1 - 4.0f / 20, 1 - 6.0f / 10, 1 - 8.0f / 20}));
  EXPECT_EQ(negated, (Floats{-1, -2, -3, -4}));
  EXPECT_EQ(rest, (Floats{1, 2}));
  EXPECT_EQ(reversed, (Floats{1, 3, 2, 4}));
}

TEST(Api, GraphsFromCallablesOfEveryResultType) {
  Program p;
  const TensorSpec pair{{2}};
  const Graph one = p.ir.createGraph("one", [](const Tensor& x) { return x + 1.0; }, pair);
  const Graph none = p.ir.createGraph("none", [](const Tensor& x) { (void)(x + 1.0); }, pair);
  const Graph two = p.ir.createGraph("two", [](Tensor x, Tensor y) { return std::tuple(x + y, x - y); }, pair, pair);
  const Graph many = p.ir.createGraph(
      "many", [](const std::vector<Tensor>& xs) { return std::array{xs[0] + xs[1], xs[2] * 2.0}; },
      std::vector<TensorSpec>(3, pair));
  EXPECT_EQ(one.outputs().size(), 1u);
  EXPECT_EQ(none.outputs().size(), 0u);
  EXPECT_EQ(two.inputs().size(), 2u);
  EXPECT_EQ(many.inputs().size(), 3u);
  EXPECT_NE(one.name(), none.name());
  const Tensor a = constant(Floats{1, 2}, {2}), b = constant(Floats{5, 7}, {2});
  const CallSite site = ops::callWithInfo(two, {a}, {{two.inputs()[1], b}});
  EXPECT_EQ(site.graphToParent(two.inputs()[1]), b);
  EXPECT_EQ(site.parentToGraph(site.outputs()[1]), two.outputs()[1]);
  Floats sum, difference, last;
  p.out(site.outputs()[0], sum);
  p.out(site.outputs()[1], difference);
  p.out(ops::callWithInfo(many, {a, b, b}).outputs()[1], last);
  p.run();
  EXPECT_EQ(sum, (Floats{6, 9}));
  EXPECT_EQ(difference, (Floats{-4, -5}));
  EXPECT_EQ(last, (Floats{10, 14}));
}

TEST(Api, AGraphWhoseCallableThrowsIsGone) {
  Program p;
  const auto bad = [](const Tensor& x) { return x + constant(Floats{1, 2, 3}, {3}); };
  errorOf(ErrorKind::kGraph, [&] { p.ir.createGraph("bad", bad, TensorSpec{{2}}); });
  EXPECT_EQ(p.ir.graphs().size(), 1u);
}

TEST(Api, RepeatAndReferenceInputs) {
  Program p;
  const Tensor w = variable(Floats{1, 2}, {2}, "w");
  const Graph body = p.ir.createGraph("body", [&](const Tensor& x) {
    const Tensor total = graphInput({{2}}, "total", true);
    ops::add_(total, x);
    return x * 2.0;
  }, TensorSpec{{2}});
  const CallSite loop = ops::repeatWithInfo(body, 3, {constant(Floats{1, 10}, {2})}, {{body.inputs()[1], w}});
  Floats last;
  p.out(loop.outputs()[0], last);
  Session session(p.ir);
  session.run(p.buffers);
  EXPECT_EQ(last, (Floats{8, 80}));
  EXPECT_EQ(session.tensorData<float>(w), (Floats{1 + 7, 2 + 70}));
}

TEST(Api, SessionReadsAndWritesVariables) {
  Program p;
  const Tensor w = variable(Floats{1}, {1}, "w");
  ops::add_(w, constant(Floats{5}, {1}));
  Session session(p.ir);
  session.run();
  EXPECT_EQ(session.tensorData<float>(w), Floats{6});
  session.writeVariable(w, Floats{100});
  session.run();
  EXPECT_EQ(session.tensorData<float>(w), Floats{105});
  EXPECT_GT(session.memory().total(), 0);
  errorOf(ErrorKind::kType, [&] { session.tensorData<int32_t>(w); });
  errorOf(ErrorKind::kValue, [&] { session.writeVariable(w, Floats{1, 2}); });
}

TEST(Api, GradientThroughTheInfo) {
  Program p;
  const Tensor x = variable(Floats{1, 2, 3}, {3}, "x"), w = variable(Floats{4, 5, 6}, {3}, "w");
  const Graph g = p.ir.createGraph("product", [](const Tensor& a, const Tensor& b) { return a * b; }, x, w);
  const CallSite forward = ops::callWithInfo(g, {x, w});
  const auto info = transforms::autodiff(g);
  const CallSite backward =
      ops::callWithInfo(info.graph, {constant(Floats{1, 1, 10}, {3})}, info.inputsDict(forward));
  Floats dx, dw;
  p.out(info.gradientOf(x, forward, backward), dx);
  p.out(info.gradientOf(w, forward, backward), dw);
  p.run();
  EXPECT_EQ(dx, (Floats{4, 5, 60}));
  EXPECT_EQ(dw, (Floats{1, 2, 30}));
}

TEST(Api, ErrorsNameTheCallersLine) {
  Program p;
  const Tensor x = constant(Floats{1, 2}, {2}), y = constant(Floats{1, 2, 3}, {3});
  const int line = __LINE__ + 1;
  const std::string message = errorOf(ErrorKind::kGraph, [&] { (void)(x + y); });
  EXPECT_NE(message.find("api_test.cpp:" + std::to_string(line)), std::string::npos) << message;
  EXPECT_NE(message.find("(2,)"), std::string::npos) << message;
  errorOf(ErrorKind::kValue, [&] { (void)Tensor().shape(); });
  errorOf(ErrorKind::kValue, [&] { variable(Floats{1}, {2}); });
  errorOf(ErrorKind::kValue, [&] { ops::callWithInfo(p.ir.createGraph("f", [](Tensor t) { return t; }, x), {}); });
}

TEST(Api, NoGraphEntered) {
  errorOf(ErrorKind::kRuntime, [] { constant(1.0f); });
}

TEST(Api, HandlesKeepTheProgram) {
  Tensor t;
  {
    Ir ir;
    const GraphScope scope(ir.mainGraph());
    t = constant(Floats{1, 2}, {2}, "kept");
  }
  EXPECT_EQ(t.name(), "kept");
  EXPECT_EQ(t.graph().tensors().size(), 1u);
}

TEST(Api, TextFormAndBack) {
  Program p;
  Floats y;
  p.out(ops::relu(constant(Floats{-1, 2}, {2})), y);
  const std::string text = p.ir.toText();
  EXPECT_EQ(Ir::fromText(text).toText(), text);
  errorOf(ErrorKind::kValue, [] { Ir::fromText("no program"); });
}

TEST(Api, BuffersAreChecked) {
  Program p;
  const Stream in = p.ir.h2dStream({{2}});
  Floats y;
  p.out(ops::hostLoad(in), y);
  errorOf(ErrorKind::kType, [&] { HostBuffers().in(in, std::vector<int32_t>{1, 2}); });
  errorOf(ErrorKind::kValue, [&] { HostBuffers().in(in, Floats{1, 2, 3}); });
  Session session(p.ir);
  errorOf(ErrorKind::kValue, [&] { session.run(p.buffers); });
  const Floats x = {3, 4};
  session.run(p.buffers.in(in, x));
  EXPECT_EQ(y, x);
}

}  // namespace
}  // namespace popxl
