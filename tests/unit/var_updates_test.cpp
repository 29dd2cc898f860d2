#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "exec/session.h"
#include "ops/ops.h"

// Optimiser arithmetic against the formulas in double.
namespace popxl {
namespace {

using ir::Attr;
using ir::Tensor;
using Values = std::vector<double>;

/// Ops on float32 variables, run some number of times.
class Program {
 public:
  Program() : ir_(ir::Ir::create(ops::table())) {}

  Tensor* variable(const Shape& shape, const Values& values) {
    auto data = ir::HostData::allocate(static_cast<int64_t>(values.size() * sizeof(float)));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      std::memcpy(data->bytes + i * sizeof(float), &value, sizeof(float));
    }
    return ir_->mainGraph().addVariable("v", {DType::kFloat32, shape, {}}, data);
  }
  Tensor* scalar(double value) { return variable({}, {value}); }

  Tensor* op(std::string_view name, std::vector<Tensor*> inputs, std::vector<Attr> attrs = {}) {
    ir::OpRequest request;
    request.inputs = std::move(inputs);
    request.attrs = std::move(attrs);
    ir::Op* made = ir_->mainGraph().addOp(ops::def(name), std::move(request));
    if (last_ != nullptr) made->addAfter(last_);
    last_ = made;
    return made->outputs().empty() ? nullptr : made->output();
  }
  /// Keeps what `t` is at this point; the variable to read it from.
  Tensor* keep(Tensor* t) {
    Tensor* to = variable(t->shape(), Values(static_cast<size_t>(t->type().numElements())));
    op("copy_var_update_", {to, t});
    return to;
  }

  void run(int times = 1) {
    exec::Session session(ir_);
    session.attach();
    session.weightsFromHost();
    for (int i = 0; i < times; ++i) session.run({});
    session.weightsToHost();
  }
  static Values values(const Tensor* t) {
    Values out;
    for (int64_t i = 0; i < t->type().numElements(); ++i) {
      float value = 0;
      std::memcpy(&value, t->data()->bytes + i * 4, sizeof(float));
      out.push_back(value);
    }
    return out;
  }

 private:
  std::shared_ptr<ir::Ir> ir_;
  ir::Op* last_ = nullptr;
};

constexpr uint32_t kSeed = 99;

Values randomValues(size_t n, double low, double high, uint32_t seed = kSeed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(static_cast<float>(low), static_cast<float>(high));
  Values out(n);
  for (double& v : out) v = values(random);
  return out;
}

void expectNear(const Values& got, const Values& expected, double tolerance = 2e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << i << ", seed " << kSeed;
  }
}

TEST(VarUpdates, AccumulateInEveryMode) {
  const Values t = randomValues(7, -2, 2), x = randomValues(7, -2, 2, 1);
  const double f = 0.75;
  const std::pair<const char*, double (*)(double, double, double)> modes[] = {
      {"add", [](double a, double b, double k) { return a + k * b; }},
      {"add_square", [](double a, double b, double k) { return a + k * b * b; }},
      {"mean", [](double a, double b, double k) { return k / (k + 1) * a + b / (k + 1); }},
      {"moving_average", [](double a, double b, double k) { return k * a + (1 - k) * b; }},
      {"moving_average_square", [](double a, double b, double k) { return k * a + (1 - k) * b * b; }}};
  for (const auto& [mode, formula] : modes) {
    for (const bool byTensor : {false, true}) {
      SCOPED_TRACE(std::string(mode) + (byTensor ? ", factor as a tensor" : ""));
      Program p;
      Tensor* var = p.variable({7}, t);
      const Attr factor(byTensor ? 123.0 : f);
      p.op("accumulate_", {var, p.variable({7}, x), byTensor ? p.scalar(f) : nullptr},
           {Attr(std::string(mode)), factor});
      p.run();
      Values expected;
      for (size_t i = 0; i < t.size(); ++i) expected.push_back(formula(t[i], x[i], f));
      expectNear(Program::values(var), expected);
    }
  }
}

TEST(VarUpdates, ScaleByZeroAlsoClearsNonFiniteElements) {
  Program p;
  Tensor* cleared = p.variable({3}, {1, INFINITY, NAN});
  Tensor* scaled = p.variable({3}, {1, -2, 3});
  p.op("accumulator_scale_", {cleared, nullptr}, {Attr(0.0)});
  p.op("accumulator_scale_", {scaled, p.scalar(0.5)});
  p.run();
  EXPECT_EQ(Program::values(cleared), (Values{0, 0, 0}));
  EXPECT_EQ(Program::values(scaled), (Values{0.5, -1, 1.5}));
}

TEST(VarUpdates, AdamUpdaterCountsItsStepsAndCorrectsTheBias) {
  const Values m = randomValues(5, -1, 1), v = randomValues(5, 0.1, 1, 1), w = randomValues(5, -1, 1, 2);
  const double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, decay = 0.01;
  for (const std::string mode : {"adam", "lamb", "adamax"}) {
    for (const bool byTensor : {false, true}) {
      SCOPED_TRACE(mode + (byTensor ? ", numbers as tensors" : ""));
      Program p;
      Tensor* step = p.scalar(0);
      std::vector<Tensor*> inputs = {p.variable({5}, m), p.variable({5}, v), p.variable({5}, w), step};
      std::vector<Attr> attrs = {Attr(mode)};
      for (const double x : {decay, beta1, beta2, eps}) {
        inputs.push_back(byTensor ? p.scalar(x) : nullptr);
        attrs.push_back(byTensor ? Attr() : Attr(x));
      }
      Tensor* update = p.keep(p.op("adam_updater", inputs, attrs));
      const int steps = 3;
      p.run(steps);
      EXPECT_EQ(Program::values(step), Values{steps});
      Values expected;
      for (size_t i = 0; i < m.size(); ++i) {
        const double mc = m[i] / (1 - std::pow(beta1, steps)), vc = v[i] / (1 - std::pow(beta2, steps));
        expected.push_back((mode == "adamax" ? mc / (v[i] + eps) : mc / (std::sqrt(vc) + eps)) +
                           decay * w[i]);
      }
      expectNear(Program::values(update), expected, byTensor ? 1e-4 : 2e-6);  // float32(0.999) is not 0.999
    }
  }
}

TEST(VarUpdates, AdamUpdaterWithoutStepsOrDecay) {
  const Values m = randomValues(5, -1, 1), v = randomValues(5, 0.1, 1, 1);
  Program p;
  Tensor* update = p.keep(p.op("adam_updater", {p.variable({5}, m), p.variable({5}, v)}));
  p.run();
  Values expected;
  for (size_t i = 0; i < m.size(); ++i) expected.push_back(m[i] / (std::sqrt(v[i]) + 1e-7));
  expectNear(Program::values(update), expected);
}

/// The step is written before the updater reads it and after an earlier op did.
TEST(VarUpdates, ReadersOfTheStepSeeItsValueAtTheirPlace) {
  Program p;
  Tensor* step = p.variable({1}, {4});
  Tensor* m = p.variable({1}, {1});
  Tensor* one = p.variable({1}, {1});
  Tensor* before = p.keep(p.op("add", {step, one}));
  p.op("adam_updater", {m, m, nullptr, step}, {Attr(std::string("adam")), Attr(), Attr(0.5), Attr(0.5)});
  Tensor* after = p.keep(p.op("mul", {step, one}));
  p.run();
  EXPECT_EQ(Program::values(before), Values{5});
  EXPECT_EQ(Program::values(after), Values{5});
  EXPECT_EQ(Program::values(step), Values{5});
}

TEST(VarUpdates, AdamVarUpdateUsesTheTrustRatio) {
  const Values w = randomValues(6, -1, 1), x = randomValues(6, -1, 1, 1);
  double r1 = 0, r2 = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    r1 += w[i] * w[i];
    r2 += x[i] * x[i];
  }
  struct Setting {
    double limit;
    bool zeroUpdate;
  };
  for (const auto& [limit, zeroUpdate] : {Setting{0, false}, {0.1, false}, {100, false}, {100, true}}) {
    SCOPED_TRACE(limit);
    const Values change = zeroUpdate ? Values(6, 0.0) : x;
    Program p;
    Tensor* var = p.variable({6}, w);
    Tensor* term = p.variable({6}, change);
    Tensor* norms[] = {p.op("lamb_square", {var}), p.op("lamb_square", {term})};
    p.op("adam_var_update", {var, term, norms[0], norms[1], p.scalar(0.1)}, {Attr(), Attr(limit)});
    p.run();
    const double ratio = limit == 0 || zeroUpdate ? 1 : std::min(std::sqrt(r1), limit) / std::sqrt(r2);
    Values expected;
    for (size_t i = 0; i < w.size(); ++i) expected.push_back(w[i] - 0.1 * ratio * change[i]);
    expectNear(Program::values(var), expected);
  }
}

/// Messages that programs look for.
TEST(VarUpdates, AdamUpdaterSaysWhatIsMissing) {
  Program p;
  Tensor* m = p.variable({2}, {1, 1});
  Tensor* step = p.scalar(0);
  const auto message = [&](std::vector<Tensor*> inputs, std::vector<Attr> attrs) -> std::string {
    try {
      p.op("adam_updater", std::move(inputs), std::move(attrs));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kValue);
      return error.what();
    }
    return "no error";
  };
  const Attr adam(std::string("adam")), adamax(std::string("adamax"));
  EXPECT_NE(message({m, m, nullptr, step}, {adam, Attr(), Attr(0.9)})
                .find("Bias correction requires both beta1 and beta2 to not be None."),
            std::string::npos);
  EXPECT_NE(message({m, m}, {adam, Attr(0.1)}).find("Weight decay requires weight to not be None."),
            std::string::npos);
  EXPECT_NE(message({m, m}, {adamax}).find("AdaMax requires time_step to not be None."), std::string::npos);
}

}  // namespace
}  // namespace popxl
