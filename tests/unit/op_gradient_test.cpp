#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "exec/session.h"
#include "ir/context.h"
#include "ops/ops.h"
#include "passes/autodiff.h"

// Every gradient rule of the table against central differences of the op itself, in float64.
namespace popxl {
namespace {

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

Operand in(Shape shape, double low = 0.5, double high = 1.5) { return {std::move(shape), low, high}; }
Operand constant(DType dtype, Shape shape, std::vector<double> values) {
  return {std::move(shape), 0, 0, std::move(values), dtype};
}
Operand absent() { return {{}, 0, 0, {}, DType::kFloat64, true}; }

struct Case {
  std::string op;
  std::vector<Operand> operands;
  std::vector<Attr> attrs = {};
};

std::shared_ptr<ir::HostData> pack(DType dtype, const std::vector<double>& values) {
  auto data = ir::HostData::allocate(static_cast<int64_t>(values.size()) * sizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* at = data->bytes + static_cast<int64_t>(i) * sizeOf(dtype);
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof(value)); };
    switch (dtype) {
      case DType::kFloat64: put(values[i]); break;
      case DType::kInt32: put(static_cast<int32_t>(values[i])); break;
      case DType::kUInt32: put(static_cast<uint32_t>(values[i])); break;
      case DType::kBool: put(static_cast<uint8_t>(values[i] != 0)); break;
      default: ADD_FAILURE() << "no constants of " << nameOf(dtype);
    }
  }
  return data;
}

/// The op in a graph of its own, that graph called from the main graph, and a call of its gradient graph.
class Harness {
 public:
  /// With `strided` every input is the transpose of what the op is given, so that the op reads a view.
  explicit Harness(const Case& c, bool strided = false) : ir_(ir::Ir::create(ops::table())) {
    Graph& g = ir_->createGraph("f");
    std::vector<Tensor*> operands;
    for (const Operand& o : c.operands) {
      if (o.absent) {
        operands.push_back(nullptr);
      } else if (o.isInput()) {
        const Shape shape = strided ? Shape(o.shape.rbegin(), o.shape.rend()) : o.shape;
        operands.push_back(g.addInput("x", {DType::kFloat64, shape, {}}));
        if (strided) operands.back() = g.addOp(ops::def("transpose"), request({operands.back()}, {}))->output();
      } else {
        operands.push_back(g.addConstant("c", {o.dtype, o.shape, {}}, pack(o.dtype, o.constant)));
      }
    }
    g.addOutput(g.addOp(ops::def(c.op), request(operands, c.attrs))->output());
    const passes::GradInfo info = passes::autodiff(g).at(&g);

    std::vector<Tensor*> loaded;
    for (const Tensor* t : g.inputs()) loaded.push_back(load("x" + std::to_string(loaded.size()), t->type()));
    ir::Op* call = main().addOp(ops::def("call"), request(loaded, {Attr(&g)}));
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
    const ir::Op* grad = main().addOp(ops::def("call"), request(gradInputs, {Attr(info.graph)}));
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
  Graph& main() { return ir_->mainGraph(); }
  Tensor* load(const std::string& name, const ir::TensorType& type) {
    const auto& stream = ir_->addStream(name, type, ir::StreamDirection::kHostToDevice);
    streams[stream.id()].resize(static_cast<size_t>(type.numElements()));
    Tensor* place = main().addOp(ops::def("init"), request({}, {Attr(type.shape), Attr(type.dtype)}))->output();
    return main().addOp(ops::def("host_load"), request({place}, {Attr(stream.id())}))->output();
  }
  void store(const std::string& name, Tensor* t) {
    const auto& stream = ir_->addStream(name, t->type(), ir::StreamDirection::kDeviceToHost);
    streams[stream.id()].resize(static_cast<size_t>(t->type().numElements()));
    main().addOp(ops::def("host_store"), request({t}, {Attr(stream.id())}));
  }

  std::shared_ptr<ir::Ir> ir_;
  std::unique_ptr<exec::Session> session_;
};

constexpr uint32_t kSeed = 20240607;

void check(const Case& c, bool strided) {
  SCOPED_TRACE(c.op + (strided ? " on views" : ""));
  Harness h(c, strided);
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

Attr integers(Ints values) { return Attr(std::move(values)); }
Attr text(const char* value) { return Attr(std::string(value)); }
Attr number(int64_t value) { return Attr(value); }
const Attr kNone = {};

std::vector<Case> elementwiseCases() {
  std::vector<Case> cases;
  for (const char* op : {"ceil", "floor", "sign"}) cases.push_back({op, {in({2, 3}, 1.2, 1.8)}});
  for (const char* op : {"abs", "negate", "sin", "cos", "exp", "tanh", "relu", "gelu", "geluerf", "swish"}) {
    cases.push_back({op, {in({3, 5}, -2, 2)}});
  }
  for (const char* op : {"sqrt", "log"}) cases.push_back({op, {in({3, 5})}});
  cases.push_back({"clip", {in({4, 4}, -2, 2)}, {Attr(-1.0), Attr(0.5)}});
  cases.push_back({"clip", {in({4, 4}, -2, 2)}});
  cases.push_back({"increment_mod", {in({5}, 0.1, 0.9)}, {Attr(2.0), Attr(5.0)}});
  cases.push_back({"cast", {in({3})}, {Attr(DType::kFloat64)}});
  for (const char* op : {"add", "sub", "mul", "div", "pow"}) {
    cases.push_back({op, {in({2, 3}), in({2, 3})}});
    cases.push_back({op, {in({2, 1, 4}), in({3, 1})}});
    cases.push_back({op, {in({}), in({2, 2})}});
  }
  cases.push_back({"fmod", {in({2, 3}, 2.1, 2.9), in({3}, 0.95, 1.04)}});
  cases.push_back({"maximum", {in({2, 3}), in({3}), in({2, 1})}});
  cases.push_back({"add_n", {in({2, 3}), in({3}), in({2, 3})}});
  cases.push_back({"scaled_add", {in({4}), in({4}), absent(), absent()}, {Attr(2.0), Attr(-0.5)}});
  cases.push_back({"scaled_add",
                   {in({4}), in({4}), constant(DType::kFloat64, {}, {3}), constant(DType::kFloat64, {}, {0.25})}});
  cases.push_back({"where", {constant(DType::kBool, {2, 3}, {1, 0, 1, 0, 0, 1}), in({2, 3}), in({3})}});
  cases.push_back({"where", {constant(DType::kBool, {3}, {1, 0, 1}), in({2, 1}), in({})}});
  cases.push_back({"dropout", {in({40}), constant(DType::kUInt32, {2}, {7, 11})}, {Attr(0.3)}});
  return cases;
}

std::vector<Case> reductionCases() {
  std::vector<Case> cases;
  for (const char* op : {"sum", "mean", "sumsquare", "l1", "l2", "logsum", "logsumexp", "max", "min", "prod", "median"}) {
    cases.push_back({op, {in({2, 3, 4})}, {integers({1}), Attr(false)}});
    cases.push_back({op, {in({2, 3, 4})}, {integers({0, -1}), Attr(true)}});
    cases.push_back({op, {in({2, 3})}, {integers({}), Attr(false)}});
  }
  cases.push_back({"topk", {in({3, 6}, -2, 2)}, {number(2), number(-1), Attr(true), Attr(true)}});
  cases.push_back({"topk", {in({5, 2}, -2, 2)}, {number(3), number(0), Attr(false), Attr(true)}});
  for (const bool exclusive : {false, true}) {
    cases.push_back({"cumsum", {in({3, 4}), constant(DType::kInt32, {}, {1})}, {Attr(exclusive), Attr(!exclusive)}});
  }
  cases.push_back({"softmax", {in({3, 4}, -2, 2)}, {number(-1)}});
  cases.push_back({"softmax", {in({2, 3, 2}, -2, 2)}, {number(1)}});
  return cases;
}

std::vector<Case> movementCases() {
  std::vector<Case> cases;
  const Operand picks = constant(DType::kInt32, {2, 2}, {2, 0, 2, 1});
  cases.push_back({"reshape", {in({2, 6})}, {integers({3, -1})}});
  cases.push_back({"transpose", {in({2, 3, 4})}, {integers({2, 0, 1})}});
  cases.push_back({"transpose", {in({2, 3})}});
  cases.push_back({"slice", {in({4, 5})}, {integers({1, 4}), integers({3, -6}), integers({1, -2}), integers({0, 1})}});
  cases.push_back({"slice", {in({4, 5})}, {integers({-2}), integers({100}), integers({}), integers({1})}});
  cases.push_back({"subsample", {in({5, 4})}, {integers({2, 3})}});
  cases.push_back({"identity", {in({3})}});
  cases.push_back({"concat", {in({2, 3}), in({2, 1}), in({2, 2})}, {number(-1)}});
  cases.push_back({"split", {in({5, 2})}, {integers({2, 3}), number(0)}});
  cases.push_back({"gather", {in({3, 4}), picks}, {number(0)}});
  cases.push_back({"gather", {in({2, 3, 2}), picks}, {number(1)}});
  cases.push_back({"gather", {in({3}), constant(DType::kInt32, {4}, {-1, 0, 5, 2})}, {number(0), kNone, Attr(true)}});
  cases.push_back({"tied_gather", {in({3, 4}), picks}, {number(0)}});
  cases.push_back({"onehot", {picks, constant(DType::kInt32, {}, {3}), in({2})}, {number(1)}});
  const Operand place = constant(DType::kInt32, {2}, {1, 2});
  const std::vector<Attr> window = {integers({0, 2}), integers({2, 1}), Attr(true)};
  cases.push_back({"dynamic_slice", {in({3, 2, 4}), place}, window});
  cases.push_back({"dynamic_update", {in({3, 2, 4}), place, in({2, 2, 1})}, window});
  cases.push_back({"ipu_copy", {in({3})}, {number(1), number(0)}});
  cases.push_back({"io_tile_copy", {in({3})}});
  return cases;
}

std::vector<Case> denseCases() {
  std::vector<Case> cases;
  for (const auto& [lhs, rhs] : std::vector<std::pair<Shape, Shape>>{{{2, 3}, {3, 4}},
                                                                     {{3}, {3}},
                                                                     {{3}, {2, 3, 2}},
                                                                     {{2, 2, 3}, {3}},
                                                                     {{2, 1, 2, 3}, {3, 3, 2}},
                                                                     {{2, 2, 3}, {3, 2}}}) {
    cases.push_back({"matmul", {in(lhs), in(rhs)}});
  }
  const auto convolution = [&](Shape x, Shape w, Ints stride, Ints padding, Ints dilation, int64_t groups, const char* pad) {
    cases.push_back({"conv", {in(std::move(x)), in(std::move(w))},
                     {integers(std::move(stride)), integers(std::move(padding)), integers(std::move(dilation)),
                      number(groups), text(pad)}});
  };
  convolution({1, 2, 5, 4}, {3, 2, 3, 2}, {}, {}, {}, 1, "not_set");
  convolution({2, 4, 5, 5}, {2, 2, 2, 3}, {2, 1}, {1, 0, 1, 2}, {1, 2}, 2, "not_set");
  convolution({1, 1, 7}, {2, 1, 3}, {2}, {}, {}, 1, "same_upper");
  for (const char* op : {"average_pool", "max_pool"}) {
    cases.push_back({op, {in({1, 2, 5, 5}, -2, 2)}, {integers({2, 3}), integers({2, 1}), integers({1, 0, 0, 1})}});
    cases.push_back({op, {in({1, 1, 6, 5}, -2, 2)},
                     {integers({3, 2}), integers({2, 2}), kNone, kNone, kNone, kNone, text("not_set"), Attr(true)}});
  }
  cases.push_back({"group_norm", {in({2, 4, 3}, -2, 2), in({4}), in({4})}, {number(2)}});
  cases.push_back({"group_norm", {in({3, 5}, -2, 2), in({5}), in({5})}, {number(1), Attr(1e-3)}});
  cases.push_back({"batch_norm_inference", {in({2, 3, 2}, -2, 2), in({3}), in({3}), in({3}), in({3})}});
  const Operand labels = constant(DType::kInt32, {4}, {2, 0, 1, 2});
  for (const char* reduction : {"mean", "sum", "none"}) {
    cases.push_back({"nll_loss", {in({4, 3}), labels}, {kNone, text(reduction)}});
    cases.push_back({"nll_loss", {in({4, 3}), labels}, {number(2), text(reduction), Attr(true)}});
  }
  return cases;
}

void checkAll(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    check(c, false);
    check(c, true);
  }
}

TEST(OpGradient, Elementwise) { checkAll(elementwiseCases()); }
TEST(OpGradient, Reductions) { checkAll(reductionCases()); }
TEST(OpGradient, Movement) { checkAll(movementCases()); }
TEST(OpGradient, Dense) { checkAll(denseCases()); }

TEST(OpGradient, ProductWithZeros) {
  for (const std::vector<double>& zeros : {std::vector<double>{0, 2, 3}, {0, 0, 3}, {4, 2, 3}}) {
    Harness h({"prod", {in({3})}, {integers({}), Attr(false)}});
    h.streams.at("x0") = zeros;
    h.streams.at("dy") = {2};
    h.run();
    const std::vector<double> expected = {2 * zeros[1] * zeros[2], 2 * zeros[0] * zeros[2], 2 * zeros[0] * zeros[1]};
    EXPECT_EQ(h.streams.at("dx0"), expected);
  }
}

/// A rule without a case here would go unchecked.
TEST(OpGradient, EveryRuleHasACase) {
  std::set<std::string> covered = {"print_tensor"};  // the identity; prints
  for (const auto& cases : {elementwiseCases(), reductionCases(), movementCases(), denseCases()}) {
    for (const Case& c : cases) covered.insert(c.op);
  }
  for (const ir::OpDef& def : ops::table().all()) {
    if (def.grad == nullptr || def.visibility == ir::Visibility::kInternal) continue;
    EXPECT_TRUE(covered.contains(std::string(def.name))) << def.name;
  }
}

}  // namespace
}  // namespace popxl
