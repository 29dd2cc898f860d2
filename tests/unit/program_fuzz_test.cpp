#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "exec/session.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "kernels/parallel.h"
#include "passes/autodiff.h"
#include "popxl/error.h"
#include "program_generator.h"

// Random programs, compiled and run, against an interpreter that knows nothing of compilation.
namespace popxl::testing {
namespace {

int programs(int fallback) {
  const char* value = std::getenv("POPXL_FUZZ_PROGRAMS");
  return value == nullptr ? fallback : std::atoi(value);
}
uint64_t firstSeed() {
  const char* value = std::getenv("POPXL_FUZZ_SEED");
  return value == nullptr ? 1 : std::strtoull(value, nullptr, 10);
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

/// All that a run leaves behind: stores and variables, by name.
Bytes runCompiled(const std::shared_ptr<ir::Ir>& ir, const Generator& g) {
  exec::Session session(ir);
  session.attach();
  for (const auto& [name, values] : g.variables) {
    Tensor* t = ir->mainGraph().find(name);
    const auto bytes = Generator::bytesOf(values, t->dtype());
    std::memcpy(t->data()->bytes, bytes.data(), bytes.size());
  }
  session.weightsFromHost();
  Bytes out;
  for (const ir::Stream& s : ir->streams()) {
    const auto given = g.loads.find(s.id());
    out[s.id()] = given == g.loads.end()
                      ? std::vector<std::byte>(static_cast<size_t>(s.tensor->type().bytes()))
                      : Generator::bytesOf(given->second, s.tensor->dtype());
  }
  std::vector<exec::StreamBuffer> buffers;
  for (auto& [id, bytes] : out) buffers.push_back({id, bytes.data(), 1});
  session.run(buffers);
  session.weightsToHost();
  for (const auto& [name, values] : g.variables) {
    const Tensor* t = ir->mainGraph().find(name);
    out[name].assign(t->data()->bytes, t->data()->bytes + t->type().bytes());
  }
  return out;
}

struct WithoutFusion {
  WithoutFusion() { setenv("POPXL_DISABLE_PASSES", "fuse", 1); }
  ~WithoutFusion() { unsetenv("POPXL_DISABLE_PASSES"); }
};

void compareWithInterpreter(const Generator& g, const Interpreter& expected, const Bytes& got) {
  const auto compare = [&](const std::string& name, const ir::TensorType& type,
                           const std::vector<double>& want) {
    const auto have = Interpreter::valuesOf(got.at(name).data(), type.dtype, type.numElements());
    const double scale = type.dtype == DType::kFloat64 ? 1e-8 : type.dtype == DType::kFloat32 ? 2e-3 : 0;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(have[i], want[i], scale * (1 + expected.largest)) << name << " element " << i;
    }
  };
  for (const auto& [id, values] : expected.streams) compare(id, g.ir->findStream(id)->tensor->type(), values);
  for (const auto& [name, values] : expected.variables)
    compare(name, g.ir->mainGraph().find(name)->type(), values);
}

void checkProgram(uint64_t seed) {
  GeneratorOptions options;
  options.real = seed % 3 == 0 ? DType::kFloat32 : DType::kFloat64;
  options.inplace = seed % 4 != 0;
  Generator g(seed, options);
  g.makeMain();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Interpreter expected;
  expected.streams = g.loads;
  expected.variables = g.variables;
  expected.run(*g.ir);
  if (expected.largest > 1e4) return;  // too far out for float arithmetic to be compared
  Bytes got;
  try {
    got = runCompiled(g.ir, g);
  } catch (const Error& e) {
    const std::string what = e.what();
    if (what.find("whose elements lie in another order") != std::string::npos) return;
    FAIL() << what;
  }
  compareWithInterpreter(g, expected, got);
  EXPECT_EQ(runCompiled(ir::parse(ir::print(*g.ir), ops::table()), g), got) << "printed, parsed and run";
  kernels::setThreadCount(2);
  EXPECT_EQ(runCompiled(g.ir, g), got) << "on 2 threads";
  kernels::setThreadCount(1);
  const WithoutFusion off;
  EXPECT_EQ(runCompiled(g.ir, g), got) << "without fusion";
}

TEST(ProgramFuzz, CompiledProgramsEqualTheInterpreter) {
  const uint64_t first = firstSeed();
  const int n = programs(300);
  std::cout << "seeds " << first << " to " << first + static_cast<uint64_t>(n) - 1 << "\n";
  for (int i = 0; i < n && !HasFailure(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    checkProgram(seed);
    if (!HasFailure()) continue;
    GeneratorOptions options;
    options.real = seed % 3 == 0 ? DType::kFloat32 : DType::kFloat64;
    options.inplace = seed % 4 != 0;
    Generator g(seed, options);
    g.makeMain();
    std::cout << "seed " << seed << "\n" << ir::print(*g.ir) << std::endl;
  }
}

/// A call of a graph and of its gradient graph with random gradients of the outputs.
class GradientProgram {
 public:
  explicit GradientProgram(uint64_t seed) : g_(seed, {DType::kFloat64, false, true, 2}) {
    const int inputs = 1 + g_.below(3);
    forward_ = &g_.makeGraph(0, inputs, 3 + g_.below(10));
    if (g_.below(3) == 0) forward_->addOutput(forward_->outputs().front());
    ir::Context::current().pushGraph(g_.ir->mainGraph());
    info_ = passes::autodiff(*forward_).at(forward_);
    makeMain();
    ir::Context::current().popGraph();
  }

  void check() {
    const Bytes got = runCompiled(g_.ir, g_);
    for (size_t k = 0; k < grads_.size(); ++k) {
      const Tensor* x = info_.outputs[k].fwd;
      const auto at = static_cast<size_t>(std::find(forward_->inputs().begin(), forward_->inputs().end(), x) -
                                          forward_->inputs().begin());
      const auto n = static_cast<size_t>(x->type().numElements());
      const auto have =
          Interpreter::valuesOf(got.at(grads_[k]).data(), DType::kFloat64, x->type().numElements());
      for (size_t j = 0; j < n; ++j) {
        const double want = difference(at, j);
        ASSERT_NEAR(have[j], want, 1e-5 * (1 + std::abs(want))) << "input " << at << " element " << j;
      }
    }
  }
  std::string text() const { return ir::print(*g_.ir); }

 private:
  std::string load(const ir::TensorType& type, Tensor*& made) {
    const auto& stream = g_.ir->addStream("x", type, ir::StreamDirection::kHostToDevice);
    auto& values = g_.loads[stream.id()];
    for (int64_t i = 0; i < type.numElements(); ++i) values.push_back((g_.below(2001) - 1000) / 700.0);
    made = g_.make("host_load", {g_.make("init", {}, {Attr(type.shape), Attr(type.dtype)})},
                   {Attr(stream.id())});
    return stream.id();
  }

  void makeMain() {
    std::vector<Tensor*> loaded;
    for (const Tensor* t : forward_->inputs()) {
      Tensor* made = nullptr;
      inputs_.push_back(g_.loads[load(t->type(), made)]);
      loaded.push_back(made);
    }
    const auto results = g_.makeAll("call", loaded, {Attr(forward_)});
    std::vector<Tensor*> operands;
    for (const passes::Connection& c : info_.inputs) {
      const auto find = [&](const std::vector<Tensor*>& list) {
        return static_cast<size_t>(std::find(list.begin(), list.end(), c.fwd) - list.begin());
      };
      Tensor* made = nullptr;
      if (c.isGrad) {
        seeds_.emplace_back(find(forward_->outputs()), g_.loads[load(c.fwd->type(), made)]);
      } else if (const size_t i = find(forward_->inputs()); i < loaded.size()) {
        made = loaded[i];
      } else {
        made = results[find(forward_->outputs())];
      }
      operands.push_back(made);
    }
    if (info_.outputs.empty()) return;
    for (Tensor* t : g_.makeAll("call", operands, {Attr(info_.graph)})) {
      const auto& stream = g_.ir->addStream("dx", t->type(), ir::StreamDirection::kDeviceToHost);
      ir::Context::current().addOp(*ops::table().find("host_store"), {t}, {Attr(stream.id())}, {});
      grads_.push_back(stream.id());
    }
  }

  double loss(const std::vector<std::vector<double>>& inputs) const {
    const auto results = Interpreter().call(*forward_, inputs);
    double sum = 0;
    for (const auto& [output, dy] : seeds_) {
      for (size_t i = 0; i < dy.size(); ++i) sum += dy[i] * results[output][i];
    }
    return sum;
  }
  double difference(size_t input, size_t element) {
    constexpr double kStep = 1e-5;
    auto x = inputs_;
    x[input][element] += kStep;
    const double above = loss(x);
    x[input][element] -= 2 * kStep;
    return (above - loss(x)) / (2 * kStep);
  }

  Generator g_;
  Graph* forward_ = nullptr;
  passes::GradInfo info_;
  std::vector<std::vector<double>> inputs_;
  std::vector<std::pair<size_t, std::vector<double>>> seeds_;
  std::vector<std::string> grads_;
};

TEST(ProgramFuzz, GradientsEqualCentralDifferences) {
  const uint64_t first = firstSeed();
  const int n = programs(300);
  std::cout << "seeds " << first << " to " << first + static_cast<uint64_t>(n) - 1 << "\n";
  for (int i = 0; i < n && !HasFailure(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    GradientProgram program(seed);
    program.check();
    if (HasFailure()) std::cout << "seed " << seed << "\n" << program.text() << std::endl;
  }
}

}  // namespace
}  // namespace popxl::testing
