#include <array>
#include <cmath>
#include <cstring>
#include <tuple>

#include "api_testing.h"

namespace popxl {
namespace {

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
  const Graph one = p.ir.createGraph(
      "one", [](const Tensor& x) { return x + 1.0; }, pair);
  const Graph none = p.ir.createGraph(
      "none", [](const Tensor& x) { (void)(x + 1.0); }, pair);
  const Graph two = p.ir.createGraph(
      "two", [](Tensor x, Tensor y) { return std::tuple(x + y, x - y); }, pair, pair);
  const Graph many = p.ir.createGraph(
      "many",
      [](const std::vector<Tensor>& xs) {
        return std::array{xs[0] + xs[1], xs[2] * 2.0};
      },
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

TEST(Api, RepeatAndReferenceInputs) {
  Program p;
  const Tensor w = variable(Floats{1, 2}, {2}, "w");
  const Graph body = p.ir.createGraph(
      "body",
      [&](const Tensor& x) {
        const Tensor total = graphInput({{2}}, "total", true);
        ops::add_(total, x);
        return x * 2.0;
      },
      TensorSpec{{2}});
  const CallSite loop = ops::repeatWithInfo(body, 3, {constant(Floats{1, 10}, {2})}, {{body.inputs()[1], w}});
  Floats last;
  p.out(loop.outputs()[0], last);
  Session session(p.ir);
  session.run(p.buffers);
  EXPECT_EQ(last, (Floats{8, 80}));
  EXPECT_EQ(session.tensorData<float>(w), (Floats{1 + 7, 2 + 70}));
}

TEST(Api, LoopsThatScanAndEndByThemselves) {
  Program p;
  const Tensor zero = constant(0.0f), xs = variable(Floats{1, 2, 3}, {3}, "xs");
  const Graph add = p.ir.createGraph(
      [](Tensor total, Tensor x) {
        return std::vector<Tensor>{total + x, total * 1.0};
      },
      zero, zero);
  const ops::ScanResult sums = ops::scan(add, {zero}, {xs}, {}, true);
  const Graph twice = p.ir.createGraph([](Tensor x) { return x * 2.0; }, zero);
  const Graph small = p.ir.createGraph([](Tensor x) { return ops::greater(constant(50.0f), x); }, zero);
  const Tensor large = ops::whileLoop(small, twice, 20, {constant(3.0f)}).front();
  const Tensor given =
      ops::repeatWithInfo(twice, constant(int32_t{3}), 5, {constant(1.0f)}).outputs().front();
  Floats last, before, doubled, counted;
  p.out(sums.carried.front(), last);
  p.out(sums.stacked.front(), before);
  p.out(large, doubled);
  p.out(given, counted);
  p.run();
  EXPECT_EQ(last, Floats{6});
  EXPECT_EQ(before, (Floats{5, 3, 0}));
  EXPECT_EQ(doubled, Floats{96});
  EXPECT_EQ(counted, Floats{8});
  errorOf(ErrorKind::kValue, [&] { ops::scan(add, {zero}, {}); });
  errorOf(ErrorKind::kValue, [&] { ops::whileLoop(add, twice, 2, {zero}); });
}

TEST(Api, GradientsThatRecompute) {
  Program p;
  const Tensor x = variable(Floats{0.5f, -1}, {2}, "x");
  const Graph g = p.ir.createGraph([](Tensor t) { return ops::sin(ops::tanh(ops::sin(t))); }, x);
  const CallSite forward = ops::callWithInfo(g, {x});
  const auto info = transforms::autodiff(g);
  const auto again = transforms::recompute(info);
  ASSERT_EQ(again.expectedInputs.size(), 2u);
  EXPECT_EQ(again.expectedInputs[1].forward, g.inputs().front());
  Floats kept, recomputed;
  for (auto [each, to] : {std::pair(&info, &kept), std::pair(&again, &recomputed)}) {
    const CallSite backward =
        ops::callWithInfo(each->graph, {constant(Floats{1, 1}, {2})}, each->inputsDict(forward));
    p.out(backward.outputs().front(), *to);
  }
  p.run();
  EXPECT_EQ(kept, recomputed);
  EXPECT_FALSE(transforms::runPass(p.ir, "pre_alias"));
  errorOf(ErrorKind::kValue, [&] { transforms::runPass(p.ir, "no_pass"); });
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
  const Graph g = p.ir.createGraph(
      "product", [](const Tensor& a, const Tensor& b) { return a * b; }, x, w);
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

TEST(Api, CallsInOneLineAndUnnamedGraphs) {
  Program p;
  const Graph twice = p.ir.createGraph([](const Tensor& x) { return x + x; }, TensorSpec{{2}});
  const Tensor x = constant(Floats{1, 3}, {2});
  Floats called, repeated;
  p.out(ops::call(twice, x)[0], called);
  p.out(ops::repeat(twice, 5, x)[0], repeated);
  p.run();
  EXPECT_EQ(called, (Floats{2, 6}));
  EXPECT_EQ(repeated, (Floats{32, 96}));
}

TEST(Api, GraphsByHand) {
  Program p;
  Graph g = p.ir.createEmptyGraph("sum");
  const Tensor a = g.addInput({{2}}, "a"), b = g.addInput({{2}}, "b");
  {
    const GraphScope inside(g);
    const NameScope names("block");
    g.addOutput(a + b);
    EXPECT_EQ(currentGraph(), g);
  }
  EXPECT_EQ(currentGraph(), p.ir.mainGraph());
  EXPECT_EQ(g.inputs(), (std::vector<Tensor>{a, b}));
  EXPECT_EQ(g.tensor("a"), a);
  EXPECT_EQ(g.outputs()[0].name(), "block/t");
  EXPECT_EQ(g.outputs()[0].id(), g.name() + "/block/t");
  EXPECT_EQ(g.size(), 1);
  const Tensor x = constant(Floats{1, 3}, {2});
  Floats sum;
  p.out(ops::call(g, x, x)[0], sum);
  p.run();
  EXPECT_EQ(sum, (Floats{2, 6}));
}

TEST(Api, OpsAreOnTheIpuInForce) {
  Program p;
  const Tensor x = constant(Floats{1}, {1});
  Tensor y;
  {
    const Ipu second(1);
    y = x + x;
  }
  EXPECT_NE(p.ir.toText().find("ipu(1)"), std::string::npos) << p.ir.toText();
  errorOf(ErrorKind::kValue, [&] { (void)(y + (x + x)); });
}

TEST(Api, RawMemoryOfAnyDtype) {
  Program p;
  const std::vector<uint16_t> halves = {0x3c00, 0xc100};  // 1, -2.5
  const TensorSpec spec{{2}, DType::kFloat16};
  const Tensor h = variable(std::as_bytes(std::span(halves)), spec, "h");
  Floats plain;
  p.out(ops::cast(h + constant(std::as_bytes(std::span(halves)), spec), DType::kFloat32), plain);
  const Stream in = p.ir.h2dStream(spec);
  ops::copy_var_update_(h, ops::hostLoad(in));
  const std::vector<uint16_t> fresh = {0x4000, 0};  // 2, 0
  Session session(p.ir);
  session.run(p.buffers.in(in, std::as_bytes(std::span(fresh))));
  EXPECT_EQ(plain, (Floats{2, -5}));
  const auto bytes = session.tensorData<std::byte>(h);
  ASSERT_EQ(bytes.size(), 4u);
  EXPECT_EQ(std::memcmp(bytes.data(), fresh.data(), 4), 0);
  session.writeVariable(h, std::as_bytes(std::span(halves)));
  session.run(p.buffers);
  EXPECT_EQ(plain, (Floats{2, -5}));
}

TEST(Api, EveryTransferAndReplicaHasItsPlace) {
  Ir ir(2);
  EXPECT_EQ(ir.replicationFactor(), 2);
  ir.setNumHostTransfers(3);
  const GraphScope scope(ir.mainGraph());
  const InSequence order;
  const Stream in = ir.h2dStream({{}}), out = ir.d2hStream({{}});
  const Graph step = ir.createGraph("step", [&] { ops::hostStore(out, ops::hostLoad(in) * 2.0); });
  ops::repeat(step, 3);
  const Floats x = {1, 2, 3, 4, 5, 6};
  Floats y(6), few(2);
  Session session(ir);
  session.run(HostBuffers().in(in, x).out(out, y));
  EXPECT_EQ(y, (Floats{2, 4, 6, 8, 10, 12}));
  errorOf(ErrorKind::kValue, [&] { session.run(HostBuffers().in(in, x).out(out, few)); });
}

TEST(Api, AParsedProgramRuns) {
  Ir written;
  {
    const GraphScope scope(written.mainGraph());
    const InSequence order;
    const Tensor w = variable(Floats{1, 2}, {2}, "w");
    ops::hostStore(written.d2hStream(w.spec(), "y"), w * ops::hostLoad(written.h2dStream(w.spec(), "x")));
  }
  const Ir ir = Ir::fromText(written.toText());
  const Floats x = {5, 7};
  Floats y(2);
  Session(ir).run(HostBuffers().in(ir.stream("x"), x).out(ir.stream("y"), y));
  EXPECT_EQ(y, (Floats{5, 14}));
  EXPECT_EQ(ir.mainGraph().tensor("w").shape(), Shape{2});
}

TEST(Api, GradientsByInputAndOperand) {
  Program p;
  const Tensor x = variable(Floats{0.5f, -1}, {2}, "x"), w = variable(Floats{2, 3}, {2}, "w");
  const Graph g = p.ir.createGraph([](Tensor a, Tensor b) { return ops::tanh(a * b); }, x, w);
  const CallSite forward = ops::callWithInfo(g, {x, w});
  const auto info = transforms::autodiff(g);
  const CallSite backward =
      ops::callWithInfo(info.graph, {constant(Floats{1, 1}, {2})}, info.inputsDict(forward));
  const InputMap byInput = info.forwardInsToGradOuts(backward);
  const InputMap byOperand = info.forwardParentInsToGradOuts(forward, backward);
  ASSERT_EQ(byInput.size(), 2u);
  ASSERT_EQ(byOperand.size(), 2u);
  EXPECT_EQ(byInput[1].first, g.inputs()[1]);
  EXPECT_EQ(byOperand[1].first, w);
  Floats dw;
  p.out(byOperand[1].second, dw);
  p.run();
  // d tanh(x w) / dw by central differences in double
  const double xs[] = {0.5, -1}, ws[] = {2, 3}, h = 1e-6;
  for (size_t i = 0; i < 2; ++i) {
    const double want = (std::tanh(xs[i] * (ws[i] + h)) - std::tanh(xs[i] * (ws[i] - h))) / (2 * h);
    EXPECT_NEAR(dw[i], want, 1e-6);
  }
}

TEST(Api, RemoteBuffersAndVariables) {
  Program p;
  const RemoteBuffer buffer = remoteBuffer({{2}}, 2);
  const Tensor w = remoteVariable(Floats{1, 2}, buffer, 1, "w");
  const Stream at = p.ir.h2dStream({{}, DType::kInt32});
  Floats loaded, inPlace;
  const Tensor entry = ops::hostLoad(at), place = constant(Floats{0, 0}, {2}) + 1.0;
  p.out(ops::remoteLoad(buffer, entry, "loaded"), loaded);
  p.out(ops::remoteLoad_(buffer, 1, place), inPlace);
  ops::remoteStore(buffer, 1, place * 10.0);
  ops::remoteStore(buffer, 4, place);
  EXPECT_EQ(buffer.spec(), (TensorSpec{{2}}));
  buffer.setEntries(5);
  EXPECT_EQ(buffer.entries(), 5);
  EXPECT_EQ(p.ir.mainGraph().tensor("loaded").shape(), Shape{2});
  Session session(p.ir);
  std::vector<int32_t> index = {0};
  p.buffers.in(at, index);
  const auto run = [&](int32_t i) {
    index[0] = i;
    session.run(p.buffers);
  };
  run(0);
  EXPECT_EQ(loaded, (Floats{0, 0}));
  EXPECT_EQ(inPlace, (Floats{1, 2}));
  run(4);
  EXPECT_EQ(loaded, (Floats{1, 2}));
  EXPECT_EQ(inPlace, (Floats{10, 20}));
  EXPECT_EQ(session.tensorData<float>(w), (Floats{100, 200}));
  session.writeVariable(w, Floats{3, 4});
  run(1);
  EXPECT_EQ(loaded, (Floats{3, 4}));
  EXPECT_NE(errorOf(ErrorKind::kValue, [&] { run(5); }).find("asks for entry 5 of remote buffer 1"),
            std::string::npos);
}

}  // namespace
}  // namespace popxl
