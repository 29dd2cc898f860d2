#include "api_testing.h"

// Parts of programs that are copied, moved and extended through the C++ API.
namespace popxl {
namespace {

TEST(Surgery, ClonesAndCopies) {
  Program p;
  const Tensor x = constant(Floats{1, 2}, {2});
  const Graph twice = p.ir.createGraph(
      "twice", [](const Tensor& x) { return x * 2.0; }, TensorSpec{{2}});
  const Graph more = transforms::cloneGraph(twice);
  transforms::addOutput(more, more.inputs()[0]);
  const InputMap made = transforms::copyOps(twice, p.ir.mainGraph(), {{twice.inputs()[0], x}});
  Floats called, copied;
  p.out(ops::callWithInfo(more, {x}).outputs()[0], called);
  for (const auto& [from, to] : made) {
    if (from == twice.outputs()[0]) p.out(to, copied);
  }
  p.run();
  EXPECT_EQ(called, (Floats{2, 4}));
  EXPECT_EQ(copied, (Floats{2, 4}));
  EXPECT_EQ(twice.outputs().size(), 1u);
  errorOf(ErrorKind::kValue, [&] { transforms::cloneGraph(p.ir.mainGraph()); });
}

TEST(Surgery, MainGraphsBecomeLoopBodies) {
  Program p;
  const Tensor step = variable(Floats{0}, {1}), rate = variable(Floats{0.5}, {1});
  ops::add_(step, rate);
  const auto [graph, variables] = transforms::outlineMain(p.ir, "training_step");
  ASSERT_EQ(variables, (std::vector<Tensor>{step, rate}));
  EXPECT_EQ(p.ir.mainGraph().size(), 0);
  ops::repeatWithInfo(graph, 6, variables);
  Session session(p.ir);
  session.run();
  EXPECT_EQ(session.tensorData<float>(step), (Floats{3}));
}

TEST(Surgery, OutputsAndUses) {
  Program p;
  const Tensor x = constant(Floats{1}, {1}), y = constant(Floats{5}, {1});
  const Graph pair = p.ir.createGraph(
      "pair", [](const Tensor& x) { return std::tuple(x + 1.0, x + 2.0); }, TensorSpec{{1}});
  errorOf(ErrorKind::kIndex, [&] { transforms::removeOutput(pair, 2); });
  transforms::removeOutput(pair, 0);
  const Tensor sum = x + 10.0;
  Floats called, replaced;
  p.out(ops::callWithInfo(pair, {x}).outputs()[0], called);
  p.out(sum, replaced);
  EXPECT_NE(errorOf(ErrorKind::kGraph, [&] { transforms::removeOutput(pair, 0); }).find("surgery_test.cpp"),
            std::string::npos);
  errorOf(ErrorKind::kValue, [&] { transforms::replaceUses(p.ir.mainGraph(), x, sum); });
  errorOf(ErrorKind::kValue, [&] { transforms::replaceUses(p.ir.mainGraph(), x, pair.inputs()[0]); });
  transforms::replaceUses(p.ir.mainGraph(), x, y);
  p.run();
  EXPECT_EQ(called, (Floats{7}));
  EXPECT_EQ(replaced, (Floats{15}));
}

TEST(Surgery, GradientGraphsMadeByHand) {
  Program p;
  const Tensor x = constant(3.0F);
  const Graph square = p.ir.createGraph(
      "square", [](const Tensor& x) { return x * x; }, TensorSpec{});
  const Graph outer = p.ir.createGraph(
      "outer", [&](const Tensor& x) { return ops::callWithInfo(square, {x}).outputs()[0] * 2.0; },
      TensorSpec{});
  const Graph threefold = p.ir.createGraph(
      "threefold", [](const Tensor& dy) { return dy * 3.0; }, TensorSpec{});
  const Tensor in = square.inputs()[0], out = square.outputs()[0];
  const auto info = transforms::makeGradInfo(square, threefold, {{true, out}}, {{true, in}});
  const auto grad = transforms::autodiff(outer, {.gradsProvided = {}, .gradsRequired = {}, .known = {info}});
  const CallSite forward = ops::callWithInfo(outer, {x});
  InputMap inputs = grad.inputsDict(forward);
  Floats dx;
  p.out(ops::callWithInfo(grad.graph, {constant(1.0F)}, inputs).outputs()[0], dx);
  p.run();
  EXPECT_EQ(dx, (Floats{6}));
  errorOf(ErrorKind::kValue, [&] { transforms::makeGradInfo(square, threefold, {}, {{true, in}}); });
  errorOf(ErrorKind::kValue, [&] {
    transforms::makeGradInfo(square, threefold, {{true, in}}, {{true, in}});
  });
  errorOf(ErrorKind::kValue, [&] { transforms::makeGradInfo(square, threefold, {{true, x}}, {{true, in}}); });
}

TEST(Surgery, EmptyHandlesAreRefused) {
  Program p;
  const Tensor x = constant(1.0F);
  const Graph graph = p.ir.createGraph(
      "twice", [](const Tensor& t) { return t * 2.0; }, TensorSpec{});
  const auto refused = [](const auto& body) {
    EXPECT_NE(errorOf(ErrorKind::kValue, body).find("an empty"), std::string::npos);
  };
  refused([&] { transforms::cloneGraph({}); });
  refused([&] { transforms::copyOps({}, p.ir.mainGraph(), {}); });
  refused([&] { transforms::copyOps(graph, {}, {}); });
  refused([&] { transforms::copyOps(graph, p.ir.mainGraph(), {{graph.inputs()[0], {}}}); });
  refused([&] { transforms::addOutput({}, x); });
  refused([&] { transforms::addOutput(graph, {}); });
  refused([&] { transforms::removeOutput({}, 0); });
  refused([&] { transforms::replaceUses(p.ir.mainGraph(), x, {}); });
  refused([&] { transforms::makeGradInfo({}, graph, {}, {}); });
  refused([&] { transforms::makeGradInfo(graph, graph, {{true, {}}}, {}); });
}

}  // namespace
}  // namespace popxl
