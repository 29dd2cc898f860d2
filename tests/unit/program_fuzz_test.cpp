#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "analysis/dependences.h"
#include "exec/session.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/reference.h"
#include "kernels/parallel.h"
#include "passes/autodiff.h"
#include "popxl/error.h"
#include "program_generator.h"
#include "thread_cluster.h"

// Random programs, compiled and run, against the reference engine.
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
Bytes runProgram(const std::shared_ptr<ir::Ir>& ir, const Generator& g,
                 EngineKind engine = EngineKind::kCompiled) {
  exec::Session session(ir, engine);
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
    const int64_t bytes = s.tensor->type().bytes() * ir->instanceReplicationFactor();
    out[s.id()].resize(static_cast<size_t>(bytes));
    if (given == g.loads.end()) continue;
    const auto all = Generator::bytesOf(given->second, s.tensor->dtype());
    std::copy_n(all.begin() + s.tensor->type().bytes() * ir->options().globalReplicaOffset, bytes,
                out[s.id()].begin());
  }
  std::vector<exec::StreamBuffer> buffers;
  for (auto& [id, bytes] : out) buffers.push_back({id, bytes.data(), 1});
  session.run(buffers);
  session.weightsToHost();
  for (const auto& [name, values] : g.variables) {
    const Tensor* t = ir->mainGraph().find(name);
    out[name].assign(t->data()->bytes, t->data()->bytes + t->type().bytes() * t->settings().numGroups);
  }
  return out;
}

/// The same with the replicas spread over processes.
Bytes runSplit(const Generator& g, int32_t processes) {
  const std::string text = ir::print(*g.ir);
  const int64_t replicas = g.ir->replicationFactor(), lanes = replicas / processes;
  std::vector<Bytes> parts(static_cast<size_t>(processes));
  ThreadCluster(processes).run([&](int32_t i) {
    const auto ir = ir::parse(text, ops::table());
    ir->options().enableDistributedReplicatedGraphs = true;
    ir->options().globalReplicationFactor = replicas;
    ir->options().globalReplicaOffset = i * lanes;
    ir->options().enableReplicatedGraphs = lanes > 1;
    ir->options().replicatedGraphCount = lanes;
    parts[static_cast<size_t>(i)] = runProgram(ir, g);
  });
  Bytes all = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    for (const auto& [name, bytes] : parts[i]) {
      if (g.ir->findStream(name) == nullptr) {
        EXPECT_EQ(bytes, all[name]) << name << " of process " << i;
      } else {
        all[name].insert(all[name].end(), bytes.begin(), bytes.end());
      }
    }
  }
  return all;
}

struct WithoutFusion {
  WithoutFusion() { setenv("POPXL_DISABLE_PASSES", "fuse", 1); }
  ~WithoutFusion() { unsetenv("POPXL_DISABLE_PASSES"); }
};

/// Makes every graph run in another order that its dependences allow.
void reorder(ir::Ir& ir, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const Graph* graph : ir.graphs()) {
    const algo::Dag dag = analysis::dependences(*graph);  // ops, then barriers
    std::vector<int32_t> missing = dag.inDegrees(), ready;
    for (int32_t i = 0; i < dag.numNodes(); ++i) {
      if (missing[static_cast<size_t>(i)] == 0) ready.push_back(i);
    }
    ir::Op* last = nullptr;
    while (!ready.empty()) {
      std::swap(ready[random() % ready.size()], ready.back());
      const int32_t node = ready.back();
      ready.pop_back();
      if (static_cast<size_t>(node) < graph->ops().size()) {
        ir::Op* op = graph->ops()[static_cast<size_t>(node)];
        if (last != nullptr) op->addAfter(last);
        last = op;
      }
      for (const int32_t next : dag.successors(node)) {
        if (--missing[static_cast<size_t>(next)] == 0) ready.push_back(next);
      }
    }
  }
}

std::vector<double> valuesOf(const Bytes& run, const std::string& name, const ir::TensorType& type) {
  std::vector<double> out;
  const auto& bytes = run.at(name);
  for (int64_t i = 0; i < static_cast<int64_t>(bytes.size()) / sizeOf(type.dtype); ++i) {
    const std::byte* at = bytes.data() + i * sizeOf(type.dtype);
    out.push_back(ir::Number(type.dtype, loadElement(type.dtype, at)).real());
  }
  return out;
}

double largestOf(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

const ir::TensorType& typeOf(const Generator& g, const std::string& name) {
  const ir::Stream* stream = g.ir->findStream(name);
  return stream != nullptr ? stream->tensor->type() : g.ir->mainGraph().find(name)->type();
}

void compareWithReference(const Generator& g, const Bytes& expected, const Bytes& got, double largest) {
  for (const auto& [name, bytes] : expected) {
    const ir::TensorType& type = typeOf(g, name);
    const auto want = valuesOf(expected, name, type), have = valuesOf(got, name, type);
    const double scale = type.dtype == DType::kFloat64 ? 1e-8 : type.dtype == DType::kFloat32 ? 2e-3 : 0;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(have[i], want[i], scale * (1 + largest)) << name << " element " << i;
    }
  }
}

/// Writes a program that failed to a file, to be made short.
void keep(uint64_t seed, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("program_" + std::to_string(seed) + ".ir");
  std::ofstream(path) << text;
  std::cout << "seed " << seed << ": python tools/reduce.py " << path.string() << std::endl;
}

GeneratorOptions optionsOf(uint64_t seed, int replicas) {
  GeneratorOptions options;
  options.real = seed % 3 == 0 ? DType::kFloat32 : DType::kFloat64;
  options.inplace = seed % 4 != 0;
  options.replicas = replicas;
  return options;
}

void checkProgram(uint64_t seed, int replicas) {
  Generator g(seed, optionsOf(seed, replicas));
  g.makeMain();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Bytes expected;
  try {
    expected = runProgram(g.ir, g, EngineKind::kReference);
  } catch (const Error& e) {
    if (std::string(e.what()).find("all replicas must reach the collective") != std::string::npos) return;
    FAIL() << e.what();
  }
  double largest = 0;
  for (const auto& [name, bytes] : expected) {
    largest = std::max(largest, largestOf(valuesOf(expected, name, typeOf(g, name))));
  }
  if (!(largest <= 1e4)) return;  // too far out for float arithmetic to be compared
  Bytes got;
  try {
    got = runProgram(g.ir, g);
  } catch (const Error& e) {
    const std::string what = e.what();
    if (what.find("whose elements lie in another order") != std::string::npos) return;
    FAIL() << what;
  }
  compareWithReference(g, expected, got, largest);
  EXPECT_EQ(runProgram(ir::parse(ir::print(*g.ir), ops::table()), g), got) << "printed, parsed and run";
  const auto reordered = ir::parse(ir::print(*g.ir), ops::table());
  reorder(*reordered, seed);
  EXPECT_EQ(runProgram(reordered, g), got) << "in another order";
  kernels::setThreadCount(2);
  EXPECT_EQ(runProgram(g.ir, g), got) << "on 2 threads";
  kernels::setThreadCount(1);
  for (int32_t processes = 2; processes <= replicas; ++processes) {
    if (replicas % processes != 0) continue;
    EXPECT_EQ(runSplit(g, processes), got) << "over " << processes << " processes";
  }
  const WithoutFusion off;
  EXPECT_EQ(runProgram(g.ir, g), got) << "without fusion";
}

void checkPrograms(int n, int replicas) {
  const uint64_t first = firstSeed();
  std::cout << "seeds " << first << " to " << first + static_cast<uint64_t>(n) - 1 << "\n";
  for (int i = 0; i < n && !::testing::Test::HasFailure(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    checkProgram(seed, replicas);
    if (!::testing::Test::HasFailure()) continue;
    Generator g(seed, optionsOf(seed, replicas));
    g.makeMain();
    keep(seed, ir::print(*g.ir));
  }
}

TEST(ProgramFuzz, CompiledProgramsEqualTheReference) { checkPrograms(programs(500), 1); }
TEST(ProgramFuzz, ProgramsOfSeveralReplicasEqualTheReference) {
  for (const int replicas : {2, 4, 6}) checkPrograms(programs(300) / 3, replicas);
}

/// A call of a graph and of its gradient graph with random gradients of the outputs.
class GradientProgram {
 public:
  explicit GradientProgram(uint64_t seed) : g_(seed, {DType::kFloat64, false, true, 2, 1}) {
    const int inputs = 1 + g_.below(3);
    forward_ = &g_.makeGraph(0, inputs, 3 + g_.below(10));
    if (g_.below(3) == 0) forward_->addOutput(forward_->outputs().front());
    ir::Context::current().pushGraph(g_.ir->mainGraph());
    info_ = passes::autodiff(*forward_).at(forward_);
    makeMain();
    ir::Context::current().popGraph();
  }

  void check() {
    const Bytes got = runProgram(g_.ir, g_);
    for (size_t k = 0; k < grads_.size(); ++k) {
      const Tensor* x = info_.outputs[k].fwd;
      const auto at = static_cast<size_t>(std::find(forward_->inputs().begin(), forward_->inputs().end(), x) -
                                          forward_->inputs().begin());
      const auto n = static_cast<size_t>(x->type().numElements());
      const auto have = valuesOf(got, grads_[k], x->type());
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

  std::string store(const std::string& name, Tensor* t) {
    const auto& stream = g_.ir->addStream(name, t->type(), ir::StreamDirection::kDeviceToHost);
    ir::Context::current().addOp(*ops::table().find("host_store"), {t}, {Attr(stream.id())}, {});
    return stream.id();
  }

  void makeMain() {
    std::vector<Tensor*> loaded;
    for (const Tensor* t : forward_->inputs()) {
      Tensor* made = nullptr;
      inputs_.push_back(load(t->type(), made));
      loaded.push_back(made);
    }
    const auto results = g_.makeAll("call", loaded, {Attr(forward_)});
    for (Tensor* t : results) results_.push_back(store("y", t));
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
    for (Tensor* t : g_.makeAll("call", operands, {Attr(info_.graph)})) grads_.push_back(store("dx", t));
  }

  double loss() {
    const Bytes run = runProgram(g_.ir, g_, EngineKind::kReference);
    double sum = 0;
    for (const auto& [output, dy] : seeds_) {
      const auto y = valuesOf(run, results_[output], forward_->outputs()[output]->type());
      for (size_t i = 0; i < dy.size(); ++i) sum += dy[i] * y[i];
    }
    return sum;
  }
  double difference(size_t input, size_t element) {
    constexpr double kStep = 1e-5;
    double& x = g_.loads.at(inputs_[input])[element];
    const double at = x;
    x = at + kStep;
    const double above = loss();
    x = at - kStep;
    const double below = loss();
    x = at;
    return (above - below) / (2 * kStep);
  }

  Generator g_;
  Graph* forward_ = nullptr;
  passes::GradInfo info_;
  std::vector<std::string> inputs_, results_;  // streams
  std::vector<std::pair<size_t, std::vector<double>>> seeds_;
  std::vector<std::string> grads_;
};

TEST(ProgramFuzz, GradientsEqualCentralDifferences) {
  const uint64_t first = firstSeed();
  const int n = programs(500);
  std::cout << "seeds " << first << " to " << first + static_cast<uint64_t>(n) - 1 << "\n";
  for (int i = 0; i < n && !HasFailure(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    GradientProgram program(seed);
    program.check();
    if (HasFailure()) keep(seed, program.text());
  }
}

}  // namespace
}  // namespace popxl::testing
