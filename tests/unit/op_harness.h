#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "exec/session.h"
#include "ops/ops.h"
#include "passes/autodiff.h"

/// One op of a table run from end to end, with its gradient.
namespace popxl::testing {

using ir::Attr;
using ir::Graph;
using ir::Tensor;
using Ints = std::vector<int64_t>;

/// One operand: a float64 input with random values in [low, high), a constant, or an absent one.
struct Operand {
  Shape shape;
  double low = 0.5, high = 1.5;
  std::vector<double> constant = {};
  DType dtype = DType::kFloat64;
  bool absent = false;

  bool isInput() const { return constant.empty() && !absent; }
};

inline Operand in(Shape shape, double low = 0.5, double high = 1.5) { return {std::move(shape), low, high}; }
inline Operand constant(DType dtype, Shape shape, std::vector<double> values) {
  return {std::move(shape), 0, 0, std::move(values), dtype};
}
inline Operand absent() { return {{}, 0, 0, {}, DType::kFloat64, true}; }

struct Case {
  std::string op;
  std::vector<Operand> operands;
  std::vector<Attr> attrs = {};
};

inline std::shared_ptr<ir::HostData> pack(DType dtype, const std::vector<double>& values) {
  auto data = ir::HostData::allocate(static_cast<int64_t>(values.size()) * sizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* at = data->bytes + static_cast<int64_t>(i) * sizeOf(dtype);
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof(value)); };
    switch (dtype) {
      case DType::kFloat64:
        put(values[i]);
        break;
      case DType::kInt32:
        put(static_cast<int32_t>(values[i]));
        break;
      case DType::kUInt32:
        put(static_cast<uint32_t>(values[i]));
        break;
      case DType::kBool:
        put(static_cast<uint8_t>(values[i] != 0));
        break;
      default:
        ADD_FAILURE() << "no constants of " << nameOf(dtype);
    }
  }
  return data;
}

/// The op in a graph of its own, that graph called from the main graph, and a call of its gradient graph.
class Harness {
 public:
  /// With `strided` every input is the transpose of what the op is given, so that the op reads a view.
  explicit Harness(const Case& c, bool strided = false, const ir::OpTable& table = ops::table())
      : ir_(ir::Ir::create(table)) {
    Graph& g = ir_->createGraph("f");
    std::vector<Tensor*> operands;
    for (const Operand& o : c.operands) {
      if (o.absent) {
        operands.push_back(nullptr);
      } else if (o.isInput()) {
        const Shape shape = strided ? Shape(o.shape.rbegin(), o.shape.rend()) : o.shape;
        operands.push_back(g.addInput("x", {DType::kFloat64, shape, {}}));
        if (strided) operands.back() = g.addOp(def("transpose"), request({operands.back()}, {}))->output();
      } else {
        operands.push_back(g.addConstant("c", {o.dtype, o.shape, {}}, pack(o.dtype, o.constant)));
      }
    }
    g.addOutput(g.addOp(def(c.op), request(operands, c.attrs))->output());
    const passes::GradInfo info = passes::autodiff(g).at(&g);

    std::vector<Tensor*> loaded;
    for (const Tensor* t : g.inputs()) loaded.push_back(load("x" + std::to_string(loaded.size()), t->type()));
    ir::Op* call = main().addOp(def("call"), request(loaded, {Attr(&g)}));
    std::vector<Tensor*> gradInputs;
    for (const passes::Connection& connection : info.inputs) {
      if (connection.isGrad) {
        gradInputs.push_back(load("dy", connection.fwd->type()));
      } else if (const size_t i = find(g.inputs(), connection.fwd); i < g.inputs().size()) {
        gradInputs.push_back(loaded[i]);
      } else {
        gradInputs.push_back(call->output(find(g.outputs(), connection.fwd)));
      }
    }
    store("y", call->output());
    const ir::Op* grad = main().addOp(def("call"), request(gradInputs, {Attr(info.graph)}));
    for (size_t i = 0; i < info.outputs.size(); ++i) {
      store("dx" + std::to_string(find(g.inputs(), info.outputs[i].fwd)), grad->output(i));
    }
    inputs = g.inputs().size();
    session_ = std::make_unique<exec::Session>(ir_);
    session_->attach();
    session_->weightsFromHost();
  }

  void run() {
    std::vector<exec::StreamBuffer> buffers;
    for (auto& [id, values] : streams) buffers.push_back({id, values.data(), 1});
    session_->run(buffers);
  }

  size_t inputs = 0;
  std::map<std::string, std::vector<double>> streams;

 private:
  static size_t find(const std::vector<Tensor*>& list, const Tensor* t) {
    return static_cast<size_t>(std::find(list.begin(), list.end(), t) - list.begin());
  }
  static ir::OpRequest request(std::vector<Tensor*> inputs, std::vector<Attr> attrs) {
    ir::OpRequest r;
    r.inputs = std::move(inputs);
    r.attrs = std::move(attrs);
    return r;
  }
  const ir::OpDef& def(std::string_view name) const {
    const ir::OpDef* found = ir_->table().find(name);
    POPXL_ASSERT(found != nullptr, "no op {}", name);
    return *found;
  }
  Graph& main() { return ir_->mainGraph(); }
  Tensor* load(const std::string& name, const ir::TensorType& type) {
    const auto& stream = ir_->addStream(name, type, ir::StreamDirection::kHostToDevice);
    streams[stream.id()].resize(static_cast<size_t>(type.numElements()));
    Tensor* place = main().addOp(def("init"), request({}, {Attr(type.shape), Attr(type.dtype)}))->output();
    return main().addOp(def("host_load"), request({place}, {Attr(stream.id())}))->output();
  }
  void store(const std::string& name, Tensor* t) {
    const auto& stream = ir_->addStream(name, t->type(), ir::StreamDirection::kDeviceToHost);
    streams[stream.id()].resize(static_cast<size_t>(t->type().numElements()));
    main().addOp(def("host_store"), request({t}, {Attr(stream.id())}));
  }

  std::shared_ptr<ir::Ir> ir_;
  std::unique_ptr<exec::Session> session_;
};

inline constexpr uint32_t kSeed = 20240607;

/// The gradients of all inputs against central differences, with the harness's op as the only thing that is
/// trusted.
inline void checkGradients(const Case& c, bool strided = false, const ir::OpTable& table = ops::table()) {
  SCOPED_TRACE(c.op + (strided ? " on views" : ""));
  Harness h(c, strided, table);
  std::mt19937_64 random(kSeed);
  size_t index = 0;
  for (const Operand& o : c.operands) {
    if (!o.isInput()) continue;
    std::uniform_real_distribution<double> values(o.low, o.high);
    for (double& v : h.streams.at("x" + std::to_string(index++))) v = values(random);
  }
  std::uniform_real_distribution<double> weights(-1, 1);
  for (double& v : h.streams.at("dy")) v = weights(random);
  const std::vector<double> dy = h.streams.at("dy");
  const auto loss = [&] {
    h.run();
    double sum = 0;
    const std::vector<double>& y = h.streams.at("y");
    for (size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  };
  h.run();
  std::vector<std::vector<double>> grads;
  for (size_t i = 0; i < h.inputs; ++i) grads.push_back(h.streams.at("dx" + std::to_string(i)));
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < h.inputs; ++i) {
    std::vector<double>& x = h.streams.at("x" + std::to_string(i));
    for (size_t j = 0; j < x.size(); ++j) {
      const double at = x[j];
      x[j] = at + kStep;
      const double above = loss();
      x[j] = at - kStep;
      const double below = loss();
      x[j] = at;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(grads[i][j], expected, 1e-7 + 1e-6 * std::abs(expected))
          << "operand " << i << " element " << j << ", seed " << kSeed;
    }
  }
}

}  // namespace popxl::testing
