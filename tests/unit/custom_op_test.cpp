#include "popxl/custom_op.h"

#include "api_testing.h"

namespace popxl {
namespace {

CustomOp onArrays(const std::string& name) {
  CustomOp op;
  op.name = name;
  op.operands = {"x", "k"};
  op.attrs = {{"factor", 2.0}, {"shift", 0, "", true}};
  op.forward = [](const OpUse& use, std::span<const InputArray> in, std::span<const OutputArray> out) {
    const auto x = in[0].as<float>();
    const auto k = in[1].as<int32_t>();
    const auto y = out[0].as<float>();
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = static_cast<float>(use.attr<double>("factor") * x[i] + k[i] +
                                static_cast<double>(use.attr<int64_t>("shift")));
    }
  };
  return op;
}

TEST(CustomOp, RunsOnArraysInBothEngines) {
  registerOp(onArrays("scaled_cpp"));
  Program p;
  Floats y(3);
  const Tensor x = constant(Floats{1, 2, 3}, {3}), k = constant(std::vector<int32_t>{10, 20, 30}, {3});
  p.out(ops::byName("scaled_cpp", {x, k}, {{"shift", 1}})[0], y);
  for (const EngineKind kind : {EngineKind::kCompiled, EngineKind::kReference}) {
    std::fill(y.begin(), y.end(), 0.0f);
    Session(p.ir, kind).run(p.buffers);
    EXPECT_EQ(y, (Floats{13, 25, 37}));
  }
  EXPECT_EQ(Ir::fromText(p.ir.toText()).toText(), p.ir.toText());
}

TEST(CustomOp, GradientReadsEverythingByDefault) {
  CustomOp op;
  op.name = "cubed_cpp";
  op.operands = {"x"};
  op.compose = [](const OpUse&, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] * in[0] * in[0]};
  };
  op.composeGradient = [](const OpUse& use, const std::vector<Tensor>& in) {
    EXPECT_EQ(use.operands.size(), 3u);
    return std::vector<Tensor>{in[0] * 3 * in[2] / in[1]};  // 3 out / x
  };
  registerOp(op);
  Program p;
  Floats dx(2);
  const Tensor x = constant(Floats{2, -3}, {2});
  const Graph graph = p.ir.createGraph(
      "cube", [](const Tensor& t) { return ops::byName("cubed_cpp", {t})[0]; }, x);
  const CallSite site = ops::callWithInfo(graph, {x});
  const auto info = transforms::autodiff(graph);
  const Tensor one = constant(Floats{1, 1}, {2});
  p.out(ops::callWithInfo(info.graph, {one}, info.inputsDict(site)).outputs()[0], dx);
  Session(p.ir).run(p.buffers);
  EXPECT_EQ(dx, (Floats{12, 27}));
}

TEST(CustomOp, WhatFunctionsThrowNamesTheOp) {
  CustomOp op;
  op.name = "thrower_cpp";
  op.operands = {"x"};
  op.forward = [](const OpUse&, auto, auto) { throw std::runtime_error("no luck"); };
  registerOp(op);
  Program p;
  Floats y(1);
  p.out(ops::byName("thrower_cpp", {constant(Floats{1}, {1})})[0], y);
  const std::string message = errorOf(ErrorKind::kNumeric, [&] { Session(p.ir).run(p.buffers); });
  EXPECT_NE(message.find("no luck\n  in op `thrower_cpp` at"), std::string::npos) << message;
  EXPECT_NE(message.find("custom_op_test.cpp"), std::string::npos) << message;
}

TEST(CustomOp, WrongTypesAndNames) {
  CustomOp op = onArrays("typed_cpp");
  op.infer = [](const OpUse& use) { return std::vector<TensorSpec>{{{-1}, use.operands[0].dtype}}; };
  registerOp(op);
  op.name = "several_cpp";
  op.infer = [](const OpUse&) { return std::vector<TensorSpec>{}; };
  registerOp(op);
  Program p;
  const Tensor x = constant(Floats{1}, {1});
  const std::vector<NamedAttr> shift = {{"shift", 1}};
  EXPECT_NE(errorOf(ErrorKind::kGraph,
                    [&] {
                      ops::byName("typed_cpp", {x, x}, shift);
                    })
                .find("no tensor can be"),
            std::string::npos);
  EXPECT_NE(errorOf(ErrorKind::kGraph,
                    [&] {
                      ops::byName("several_cpp", {x, x}, shift);
                    })
                .find("`infer` gave 0"),
            std::string::npos);
  errorOf(ErrorKind::kValue, [&] { ops::byName("typed_cpp", {x, x}); });  // shift is missing
  errorOf(ErrorKind::kValue, [&] { ops::byName("typed_cpp", {x}, shift); });
  errorOf(ErrorKind::kKey, [&] { ops::byName("typed_cpp", {x, x}, {{"shape", 1}}); });
  errorOf(ErrorKind::kType, [&] { ops::byName("typed_cpp", {x, x}, {{"shift", 1.5}}); });
  errorOf(ErrorKind::kKey, [&] { ops::byName("no_such_op", {x}); });
  errorOf(ErrorKind::kValue, [&] { registerOp(onArrays("typed_cpp")); });
  errorOf(ErrorKind::kValue, [&] { registerOp(onArrays("Typed")); });
}

TEST(CustomOp, ArraysAndAttributesAreOfTheTypeThatIsAskedFor) {
  CustomOp op;
  op.name = "asks_cpp";
  op.operands = {"x"};
  op.forward = [](const OpUse& use, auto in, auto) {
    errorOf(ErrorKind::kKey, [&] { use.attr<int64_t>("nothing"); });
    (void)in[0].template as<int32_t>();
  };
  registerOp(op);
  Program p;
  Floats y(1);
  p.out(ops::byName("asks_cpp", {constant(Floats{1}, {1})})[0], y);
  const std::string message = errorOf(ErrorKind::kType, [&] { Session(p.ir).run(p.buffers); });
  EXPECT_NE(message.find("the array has dtype float32, not int32"), std::string::npos) << message;
}

TEST(CustomOp, LibrariesThatAreNone) {
  errorOf(ErrorKind::kValue, [] { loadOps("/nowhere/libnothing.so"); });
  const std::string message = errorOf(ErrorKind::kValue, [] { loadOps("libm.so.6"); });
  EXPECT_NE(message.find("is no library of ops"), std::string::npos) << message;
}

}  // namespace
}  // namespace popxl
