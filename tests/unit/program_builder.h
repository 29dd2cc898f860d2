#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "exec/session.h"
#include "ir/context.h"
#include "ops/ops.h"
#include "passes/autodiff.h"
#include "popxl/error.h"

namespace popxl::testing {

using ir::Attr;
using ir::Graph;
using ir::Tensor;

/// A program under construction on the low-level classes, and what it gave.
class Builder {
 public:
  Builder() : ir(ir::Ir::create(ops::table())) {
    ir->options().enableInplaceAmbiguityChecking = true;
    ir::Context::current().pushGraph(ir->mainGraph());
    ir::Context::current().pushSequence(ir::SequenceMode::kOrdered);
  }
  ~Builder() {
    ir::Context::current().popSequence();
    ir::Context::current().popGraph();
  }

  std::vector<Tensor*> makeAll(std::string_view name, std::vector<Tensor*> inputs,
                               std::vector<Attr> attrs = {}) {
    bool inplace = false;
    const ir::OpDef* def = ops::table().find(name, &inplace);
    EXPECT_NE(def, nullptr) << name;
    return ir::Context::current().addOp(*def, std::move(inputs), std::move(attrs), {}, inplace)->outputs();
  }
  Tensor* make(std::string_view name, std::vector<Tensor*> inputs, std::vector<Attr> attrs = {}) {
    return makeAll(name, std::move(inputs), std::move(attrs)).front();
  }
  std::shared_ptr<ir::HostData> data(const std::vector<float>& values) {
    auto d = ir::HostData::allocate(static_cast<int64_t>(values.size() * sizeof(float)));
    std::memcpy(d->bytes, values.data(), values.size() * sizeof(float));
    return d;
  }
  Tensor* variable(std::string_view name, const Shape& shape, const std::vector<float>& values) {
    return ir->mainGraph().addVariable(name, {DType::kFloat32, shape, {}}, data(values));
  }
  Tensor* constant(const Shape& shape, const std::vector<float>& values) {
    return ir::Context::current().graph()->addConstant("c", {DType::kFloat32, shape, {}}, data(values));
  }
  void store(std::string_view stream, Tensor* t) {
    const auto& s = ir->addStream(stream, t->type(), ir::StreamDirection::kDeviceToHost);
    const ir::OpDef* def = ops::table().find("host_store");
    ir::Context::current().addOp(*def, {t}, {Attr(s.id())}, {});
    outputs[s.id()].resize(static_cast<size_t>(t->type().numElements()));
  }
  Tensor* load(std::string_view stream, const Shape& shape, const std::vector<float>& values) {
    const auto& s = ir->addStream(stream, {DType::kFloat32, shape, {}}, ir::StreamDirection::kHostToDevice);
    Tensor* init = make("init", {}, {Attr(shape), Attr(DType::kFloat32)});
    outputs[s.id()] = values;
    return make("host_load", {init}, {Attr(s.id())});
  }
  std::vector<exec::StreamBuffer> buffers() {
    std::vector<exec::StreamBuffer> out;
    for (auto& [id, values] : outputs) out.push_back({id, values.data(), 1});
    return out;
  }
  /// Runs the program compiled; the reference engine has to give the same.
  void run() {
    const Values given = outputs, variables = variableValues();
    runOn(EngineKind::kReference);
    const Values expected = outputs, changed = variableValues();
    outputs = given;
    for (const auto& [name, values] : variables) {
      std::memcpy(ir->mainGraph().find(name)->data()->bytes, values.data(), values.size() * sizeof(float));
    }
    runOn(EngineKind::kCompiled);
    expectNear(outputs, expected);
    expectNear(variableValues(), changed);
  }
  static std::vector<float> hostValues(const Tensor* t) {
    std::vector<float> out(static_cast<size_t>(t->type().numElements()));
    std::memcpy(out.data(), t->data()->bytes, out.size() * sizeof(float));
    return out;
  }

  using Values = std::map<std::string, std::vector<float>>;
  std::shared_ptr<ir::Ir> ir;
  Values outputs;

 private:
  void runOn(EngineKind engine) {
    exec::Session session(ir, engine);
    session.attach();
    session.weightsFromHost();
    session.run(buffers());
    session.weightsToHost();
  }
  Values variableValues() const {
    Values out;
    for (const Tensor* t : ir->mainGraph().tensors()) {
      if (t->kind() == ir::TensorKind::kVariable) out[t->name()] = hostValues(t);
    }
    return out;
  }
  static void expectNear(const Values& got, const Values& expected) {
    for (const auto& [name, values] : expected) {
      for (size_t i = 0; i < values.size(); ++i) {
        const float x = values[i];
        if (std::isnan(x)) {
          EXPECT_TRUE(std::isnan(got.at(name)[i])) << name << " element " << i;
        } else if (got.at(name)[i] != x) {
          EXPECT_NEAR(got.at(name)[i], x, 1e-5 * (1 + std::abs(x))) << name << " element " << i;
        }
      }
    }
  }
};

/// x -> x * k + 1, or by reference x -> (x += k) + 1.
inline Graph& affineGraph(Builder& b, bool byRef) {
  Graph& g = b.ir->createGraph("affine");
  Tensor* x = g.addInput("x", {DType::kFloat32, {2}, {}}, byRef);
  Tensor* k = g.addInput("k", {DType::kFloat32, {}, {}});
  ir::Context::current().pushGraph(g);
  Tensor* m = b.make(byRef ? "add_" : "mul", {x, k});
  g.addOutput(b.make("add", {m, b.constant({}, {1.0f})}));
  ir::Context::current().popGraph();
  return g;
}

}  // namespace popxl::testing
