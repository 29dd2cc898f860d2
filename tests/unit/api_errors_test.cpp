#include "api_testing.h"

namespace popxl {
namespace {

/// Expects an Error of `kind` that says `what` and names `line` of this file.
template <typename Body>
void expectErrorAt(int line, ErrorKind kind, const std::string& what, const Body& body) {
  const std::string message = errorOf(kind, body);
  EXPECT_NE(message.find(what), std::string::npos) << message;
  const std::string place = "api_errors_test.cpp:" + std::to_string(line);
  EXPECT_NE(message.find(place), std::string::npos) << place << " in: " << message;
}

TEST(ApiErrors, ErrorsNameTheCallersLine) {
  Program p;
  const Tensor x = constant(Floats{1, 2}, {2}), y = constant(Floats{1, 2, 3}, {3});
  const int line = __LINE__ + 1;
  const std::string message = errorOf(ErrorKind::kGraph, [&] { (void)(x + y); });
  EXPECT_NE(message.find("api_errors_test.cpp:" + std::to_string(line)), std::string::npos) << message;
  EXPECT_NE(message.find("(2,)"), std::string::npos) << message;
  errorOf(ErrorKind::kValue, [&] { (void)Tensor().shape(); });
  errorOf(ErrorKind::kValue, [&] { variable(Floats{1}, {2}); });
  errorOf(ErrorKind::kValue, [&] {
    ops::callWithInfo(p.ir.createGraph(
                          "f", [](Tensor t) { return t; }, x),
                      {});
  });
}

TEST(ApiErrors, NoGraphEntered) {
  errorOf(ErrorKind::kRuntime, [] { constant(1.0f); });
}

TEST(ApiErrors, BuffersAreChecked) {
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

TEST(ApiErrors, AGraphWhoseCallableThrowsIsGone) {
  Program p;
  const auto bad = [](const Tensor& x) { return x + constant(Floats{1, 2, 3}, {3}); };
  errorOf(ErrorKind::kGraph, [&] { p.ir.createGraph("bad", bad, TensorSpec{{2}}); });
  EXPECT_EQ(p.ir.graphs().size(), 1u);
}

TEST(ApiErrors, OperatorsAndOps) {
  Program p;
  const Tensor x = constant(Floats{1, 2}, {2}), i = constant(std::vector<int32_t>{1}, {1});
  expectErrorAt(__LINE__, ErrorKind::kValue, "1.5 is no int32", [&] { (void)(i * 1.5); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "is no int32", [&] { (void)(i + 3e9); });
  expectErrorAt(__LINE__, ErrorKind::kGraph, "dtype", [&] { (void)(x - i); });
  expectErrorAt(__LINE__, ErrorKind::kGraph, "reshape", [&] { (void)x.reshape({3}); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "`lhs` is missing", [&] { (void)ops::matmul(Tensor(), x); });
  errorOf(ErrorKind::kValue, [&] { (void)(Tensor() + x); });
  EXPECT_EQ(p.ir.mainGraph().size(), 0);
}

TEST(ApiErrors, DataAndInputs) {
  Program p;
  expectErrorAt(__LINE__ + 1, ErrorKind::kValue, "needs 2 elements, the data has 1",
                [&] { variable(Floats{1}, {2}); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "negative dimension", [&] { constant(Floats{1}, {-1}); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "the main graph has no inputs", [&] { graphInput({{2}}); });
  const auto inner = [] { variable(Floats{1}, {1}, "w"); };
  expectErrorAt(__LINE__ - 1, ErrorKind::kValue, "variables live in the main graph",
                [&] { p.ir.createGraph(inner); });
  EXPECT_EQ(p.ir.mainGraph().tensors().size(), 0u);
  errorOf(ErrorKind::kKey, [&] { (void)p.ir.mainGraph().tensor("none"); });
  errorOf(ErrorKind::kKey, [&] { (void)p.ir.stream("none"); });
  errorOf(ErrorKind::kValue, [] { Ir(0); });
  errorOf(ErrorKind::kValue, [&] { p.ir.setNumHostTransfers(0); });
  errorOf(ErrorKind::kValue, [] { Ipu(-1); });
  errorOf(ErrorKind::kValue, [] { Graph().inputs(); });
}

TEST(ApiErrors, Calls) {
  Program p;
  const TensorSpec pair{{2}};
  const Graph g = p.ir.createGraph(
      "g", [](const Tensor& x) { return x + 1.0; }, pair);
  const Tensor x = constant(Floats{1, 2}, {2}), y = constant(Floats{1}, {1});
  const Tensor in = g.inputs()[0];
  expectErrorAt(__LINE__, ErrorKind::kValue, "Not enough inputs", [&] { ops::call(g); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "Too many inputs", [&] { ops::call(g, x, x); });
  expectErrorAt(__LINE__ + 1, ErrorKind::kValue, "specified twice", [&] {
    ops::callWithInfo(g, {x}, {{in, x}});
  });
  expectErrorAt(__LINE__ + 1, ErrorKind::kValue, "not in the called graph", [&] {
    ops::callWithInfo(g, {}, {{x, x}});
  });
  expectErrorAt(__LINE__, ErrorKind::kGraph, "must be equal", [&] { ops::call(g, y); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "Repeat count", [&] { ops::repeat(g, -1, x); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "empty Graph", [&] { ops::call(Graph(), x); });
  const Graph other = Ir().createEmptyGraph("other");
  expectErrorAt(__LINE__, ErrorKind::kValue, "another Ir", [&] { ops::call(other); });
  EXPECT_EQ(p.ir.mainGraph().size(), 0);
  const CallSite site = ops::callWithInfo(g, {x});
  errorOf(ErrorKind::kValue, [&] { (void)site.graphToParent(x); });
  errorOf(ErrorKind::kValue, [&] { (void)site.parentToGraph(y); });
  errorOf(ErrorKind::kValue, [&] { CallSite(site).setParentInputModified(y); });
  errorOf(ErrorKind::kValue, [&] { g.addOutput(x); });
  errorOf(ErrorKind::kRuntime, [&] { const GraphScope scope(other); });
  EXPECT_EQ(currentGraph(), p.ir.mainGraph());
}

TEST(ApiErrors, Autodiff) {
  Program p;
  const TensorSpec pair{{2}};
  const Graph g = p.ir.createGraph(
      "g", [](const Tensor& x, const Tensor& y) { return x * y; }, pair, pair);
  const Graph other = p.ir.createGraph(
      "other", [](const Tensor& x) { return x; }, pair);
  const Graph inPlace = p.ir.createGraph(
      "changes", [](const Tensor& x) { return ops::add_(x, x * x); }, pair);
  const Tensor x = constant(Floats{1, 2}, {2});
  errorOf(ErrorKind::kValue, [] { transforms::autodiff(Graph()); });
  errorOf(ErrorKind::kValue, [&] { transforms::autodiff(g, {std::vector<Tensor>{Tensor()}, std::nullopt}); });
  errorOf(ErrorKind::kGraph, [&] { transforms::autodiff(inPlace); });
  const auto info = transforms::autodiff(g, {std::nullopt, std::vector<Tensor>{g.inputs()[0]}});
  const CallSite forward = ops::callWithInfo(g, {x, constant(Floats{3, 4}, {2}, "second")});
  const CallSite wrong = ops::callWithInfo(other, {x});
  const CallSite backward = ops::callWithInfo(info.graph, {x}, info.inputsDict(forward));
  errorOf(ErrorKind::kType, [&] { (void)info.inputsDict(wrong); });
  errorOf(ErrorKind::kType, [&] { (void)info.gradientOf(x, wrong, backward); });
  errorOf(ErrorKind::kType, [&] { (void)info.forwardInsToGradOuts(forward); });
  errorOf(ErrorKind::kValue, [&] { (void)info.gradientOf(forward.inputs()[1], forward, backward); });
}

TEST(ApiErrors, Streams) {
  Program p;
  Ir other;
  const Stream in = p.ir.h2dStream({{2}}), out = p.ir.d2hStream({{2}}), foreign = other.h2dStream({{2}});
  const Tensor x = constant(Floats{1}, {1});
  expectErrorAt(__LINE__, ErrorKind::kValue, "to the host", [&] { ops::hostLoad(out); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "another Ir", [&] { ops::hostLoad(foreign); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "stream", [&] { ops::hostStore(out, x); });
  expectErrorAt(__LINE__, ErrorKind::kValue, "from the host", [&] { ops::hostStore(in, x); });
  EXPECT_EQ(p.ir.mainGraph().size(), 0);
  Floats two(2);
  errorOf(ErrorKind::kValue, [&] { HostBuffers().out(in, two); });
  errorOf(ErrorKind::kValue, [&] { HostBuffers().in(out, two); });
  errorOf(ErrorKind::kValue, [&] { Session(p.ir).run(HostBuffers().in(foreign, two)); });
}

TEST(ApiErrors, SessionsAndTensorsOfOthers) {
  Program p;
  const Tensor w = variable(Floats{1}, {1}, "w"), sum = w + w;
  Session session(p.ir);
  errorOf(ErrorKind::kType, [&] { session.tensorData<float>(sum); });
  errorOf(ErrorKind::kType, [&] { session.tensorData<float>(Tensor()); });
  errorOf(ErrorKind::kType, [&] { session.writeVariable(constant(1.0f), Floats{1}); });
  const Ir other = Ir::fromText(p.ir.toText());
  errorOf(ErrorKind::kValue, [&] { session.tensorData<float>(other.mainGraph().tensor("w")); });
  errorOf(ErrorKind::kValue, [&] { session.writeVariable(w, std::vector<std::byte>(3)); });
  EXPECT_EQ(session.tensorData<float>(w), Floats{1});
}

TEST(ApiErrors, AfterAFailedRunVariablesHaveToBeWritten) {
  Program p;
  const Tensor w = variable(Floats{1}, {1}, "w"), v = variable(Floats{10}, {1}, "v");
  ops::add_(w, constant(Floats{1}, {1}));
  const Stream in = p.ir.h2dStream({{1}});
  ops::add_(v, ops::hostLoad(in));
  ops::add_(v, ops::hostLoad(in));
  Session session(p.ir);
  const Floats enough = {1, 2}, tooFew = {1};
  session.run(HostBuffers().in(in, enough));
  errorOf(ErrorKind::kValue, [&] { session.run(); });  // refused before it began: nothing is lost
  EXPECT_EQ(session.tensorData<float>(w), Floats{2});
  session.run(HostBuffers().in(in, enough));
  errorOf(ErrorKind::kValue, [&] { session.run(HostBuffers().in(in, tooFew)); });
  errorOf(ErrorKind::kDevice, [&] { session.tensorData<float>(w); });
  errorOf(ErrorKind::kDevice, [&] { session.run(HostBuffers().in(in, enough)); });
  session.writeVariable(v, Floats{5});
  errorOf(ErrorKind::kDevice, [&] { session.run(HostBuffers().in(in, enough)); });
  session.writeVariable(w, Floats{30});
  session.run(HostBuffers().in(in, enough));
  EXPECT_EQ(session.tensorData<float>(w), Floats{31});
  EXPECT_EQ(session.tensorData<float>(v), Floats{8});
}

TEST(ApiErrors, RemoteBuffers) {
  const RemoteBuffer foreign = [] {
    Program other;
    return remoteBuffer({{2}});
  }();
  Program p;
  const RemoteBuffer buffer = remoteBuffer({{2}}, 3);
  const Tensor x = constant(Floats{1, 2, 3}, {3});
  const auto fails = [](int line, ErrorKind kind, const std::string& what, const auto& body) {
    expectErrorAt(line, kind, what, body);
  };
  fails(__LINE__, ErrorKind::kValue, "positive integer, not 0", [] { remoteBuffer({{2}}, 0); });
  fails(__LINE__, ErrorKind::kValue, "negative dimension", [] { remoteBuffer({{-2}}); });
  fails(__LINE__, ErrorKind::kValue, "another Ir", [&] { ops::remoteLoad(foreign, 0); });
  fails(__LINE__, ErrorKind::kValue, "no entry -1", [&] { ops::remoteLoad(buffer, -1); });
  EXPECT_EQ(p.ir.toText().find("init"), std::string::npos);  // nor is there memory to load into
  fails(__LINE__, ErrorKind::kValue, "remote buffer 1", [&] { ops::remoteStore(buffer, 0, x); });
  fails(__LINE__, ErrorKind::kValue, "remote buffer 1", [&] { ops::remoteLoad_(buffer, 0, x); });
  fails(__LINE__ + 1, ErrorKind::kType, "holds float32", [&] {
    remoteVariable(std::vector<int32_t>{1, 2}, buffer);
  });
  fails(__LINE__, ErrorKind::kValue, "needs 2 elements", [&] { remoteVariable(Floats{1}, buffer); });
  fails(__LINE__, ErrorKind::kValue, "in entry -1", [&] { remoteVariable(Floats{1, 2}, buffer, -1); });
  fails(__LINE__, ErrorKind::kValue, "can't have 0 entries", [&] { buffer.setEntries(0); });
}

}  // namespace
}  // namespace popxl
