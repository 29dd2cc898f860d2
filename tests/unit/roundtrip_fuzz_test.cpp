// Random programs over the whole op table print, read back and schedule the same; damaged texts give an
// Error, nothing else. A failure prints its seed; POPXL_FUZZ_SEED runs that one alone, POPXL_FUZZ_RUNS sets
// how many are drawn.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "ir/verify.h"
#include "ir_testing.h"
#include "passes/pass_runner.h"
#include "popxl/error.h"

namespace popxl::ir {
namespace {

using testing::parsed;
using Random = std::mt19937_64;

size_t below(Random& random, size_t n) { return static_cast<size_t>(random() % n); }
bool chance(Random& random, size_t oneIn) { return below(random, oneIn) == 0; }

/// Draws a program: inputs, variables, constants, ops of any kind, calls, orders, rewrites.
class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed), program_(Ir::create(ops::table())) {}

  std::shared_ptr<Ir> draw() {
    if (chance(random_, 2)) program_->addStream("in", type(), StreamDirection::kHostToDevice);
    if (chance(random_, 2)) program_->addStream("out", type(), StreamDirection::kDeviceToHost);
    if (chance(random_, 3)) program_->addRemoteBuffer(type(), 1 + static_cast<int64_t>(below(random_, 5)));
    if (chance(random_, 3)) program_->setHostTransfers(2);
    const size_t callees = below(random_, 3);
    for (size_t i = 0; i < callees; ++i) fill(program_->createGraph(name()));
    fill(program_->mainGraph());
    if (chance(random_, 2)) fill(program_->createGraph("late"));
    return program_;
  }

 private:
  std::string name() {
    static const std::vector<std::string> kNames{"t", "x",  "a/b", "odd name", "x__t1",
                                                 "",  "\"", "1",   "main",     "\xc3\xa4"};
    return kNames[below(random_, kNames.size())];
  }

  TensorType type() {
    // Mostly float32, so that operands fit each other often.
    const auto dtype = chance(random_, 3) ? static_cast<DType>(below(random_, kNumDTypes)) : DType::kFloat32;
    static const std::vector<Shape> kShapes{{}, {4}, {2, 4}, {4, 4}, {2, 4}, {1, 2, 4, 4}, {0}};
    return {dtype, kShapes[below(random_, kShapes.size())], chance(random_, 9) ? Shape{8} : Shape{}};
  }

  std::shared_ptr<HostData> data(const TensorType& type) {
    auto data = HostData::allocate(type.bytes());
    const size_t kind = below(random_, 3);
    for (int64_t i = 0; i < data->size; ++i)
      data->bytes[i] = static_cast<std::byte>(kind == 0 ? 0 : kind == 1 ? 1 : random_());
    return data;
  }

  Loc loc() {
    if (chance(random_, 3)) return {};
    return {intern(chance(random_, 2) ? "model.py" : "odd \" file"),
            chance(random_, 2) ? intern("f") : nullptr, static_cast<int32_t>(below(random_, 1000))};
  }

  Attr value(AttrType type) {
    const auto small = [&] { return static_cast<int64_t>(below(random_, 6)) - 2; };
    static const std::vector<double> kNumbers{0.0, -0.0, 0.1, 1e300, 1.0, 1e-5};
    const auto number = [&] { return kNumbers[below(random_, kNumbers.size())]; };
    static const std::vector<std::string> kStrings{"in",   "out",    "zero", "add", "mean",
                                                   "adam", "\n\"\\", "sum",  "none"};
    switch (type) {
      case AttrType::kInt:
        return small();
      case AttrType::kFloat:
        return number();
      case AttrType::kBool:
        return chance(random_, 2);
      case AttrType::kString:
        return kStrings[below(random_, kStrings.size())];
      case AttrType::kDType:
        return static_cast<DType>(below(random_, kNumDTypes));
      case AttrType::kGraph:
        return finished_.empty() ? Attr() : Attr(finished_[below(random_, finished_.size())]);
      case AttrType::kInts: {
        std::vector<int64_t> ints(below(random_, 5));
        for (int64_t& i : ints) i = small();
        return ints;
      }
      case AttrType::kFloats: {
        std::vector<double> numbers(below(random_, 4));
        for (double& x : numbers) x = number();
        return numbers;
      }
    }
    return {};
  }

  /// Some op with some operands; nothing is added when the table refuses it.
  void tryOp(Graph& graph) {
    const auto& defs = ops::table().all();
    const OpDef& def = defs[below(random_, defs.size())];
    const auto tensors = graph.tensors();
    OpRequest request;
    for (const OperandDef& operand : def.operands) {
      const size_t count = operand.arity == Arity::kVariadic ? below(random_, 4) : 1;
      for (size_t i = 0; i < count; ++i) {
        const bool absent = operand.arity == Arity::kOptional && chance(random_, 2);
        request.inputs.push_back(absent || tensors.empty() ? nullptr
                                                           : tensors[below(random_, tensors.size())]);
      }
    }
    for (const AttrDef& attr : def.attrs) {
      const bool given = std::holds_alternative<std::monostate>(attr.fallback)
                             ? !attr.optional || chance(random_, 3)
                             : chance(random_, 3);
      request.attrs.push_back(given ? value(attr.type) : Attr());
    }
    request.inplace = def.alwaysInplace || (def.inplaceOperand >= 0 && chance(random_, 3));
    for (size_t i = below(random_, 3); i > 0; --i) request.outputNames.push_back(name());
    request.settings.ipu = static_cast<int32_t>(below(random_, 3)) - 1;
    if (chance(random_, 4)) request.settings.tileSet = static_cast<TileSet>(below(random_, 3));
    if (chance(random_, contextOdds_))
      request.settings.context = static_cast<ExecutionContext>(below(random_, 4));
    if (chance(random_, 4)) request.settings.scope = intern(name());
    request.loc = loc();
    const std::string before = chance(random_, 20) ? print(*program_) : "";
    try {
      Op* op = graph.addOp(def, std::move(request));
      if (!def.operands.empty() && def.structure == Structure::kCall && !op->inputs().empty() &&
          chance(random_, 2)) {
        op->declareModified(static_cast<int32_t>(below(random_, op->inputs().size())));
      }
      if (graph.ops().size() > 1 && chance(random_, 5))
        op->addAfter(graph.ops()[below(random_, graph.ops().size() - 1)]);
    } catch (const Error&) {
      if (!before.empty()) {
        EXPECT_EQ(print(*program_), before) << "a refused op left something behind";
      }
    }
  }

  /// What rewrites leave: an early op that reads what a later one makes, numbers with gaps.
  void rewrite(Graph& graph) {
    if (graph.ops().empty()) return;
    Op* op = graph.ops()[below(random_, graph.ops().size())];
    if (op->outputs().empty()) return;
    Tensor* old = op->output();
    const OpDef& init = *ops::table().find("init");
    OpRequest request;
    request.attrs.resize(init.attrs.size());
    request.attrs[static_cast<size_t>(init.attrIndex("shape"))] = old->shape();
    request.attrs[static_cast<size_t>(init.attrIndex("dtype"))] = old->dtype();
    if (std::any_of(old->shape().begin(), old->shape().end(), [](int64_t n) { return n < 0; })) return;
    graph.replaceAllUses(old, graph.addOp(init, std::move(request))->output());
    const auto unused = [](const Tensor* t) { return t->uses().empty(); };
    const auto isOutput = [&](const Tensor* t) {
      return std::find(graph.outputs().begin(), graph.outputs().end(), t) != graph.outputs().end();
    };
    const auto& results = op->outputs();
    if (std::all_of(results.begin(), results.end(), unused) &&
        std::none_of(results.begin(), results.end(), isOutput)) {
      graph.eraseOp(op);
    }
  }

  void fill(Graph& graph) {
    for (size_t i = below(random_, 4); i > 0; --i)
      graph.addInput(name(), type(), chance(random_, 4))->setLoc(loc());
    for (size_t i = 1 + below(random_, 4); i > 0; --i) {
      const TensorType t = type();
      Tensor* made = chance(random_, 2) && graph.isMain() ? graph.addVariable(name(), t, data(t))
                                                          : graph.addConstant(name(), t, data(t));
      made->setLoc(loc());
      made->settings().retrieveAllReplicas = chance(random_, 5);
    }
    for (size_t i = below(random_, 300); i > 0; --i) tryOp(graph);
    for (size_t i = below(random_, 3); i > 0; --i) {
      const auto tensors = graph.tensors();
      graph.addOutput(tensors[below(random_, tensors.size())]);
    }
    for (size_t i = below(random_, 3); i > 0; --i) rewrite(graph);
    graph.setCanBeDifferentiated(!chance(random_, 4));
    finished_.push_back(&graph);
  }

  Random random_;
  size_t contextOdds_ = chance(random_, 2) ? 9 : 1000;
  std::shared_ptr<Ir> program_;
  std::vector<Graph*> finished_;  // those that may be called: nothing is added to them later
};

std::vector<int64_t> scheduleOf(const Graph& graph) {
  std::vector<int64_t> ids;
  try {
    for (const Op* op : graph.schedule()) ids.push_back(op->id());
  } catch (const Error&) {
    ids = {-1};  // a drawn order that contradicts the execution contexts
  }
  return ids;
}

void checkRoundTrip(uint64_t seed) {
  SCOPED_TRACE("POPXL_FUZZ_SEED=" + std::to_string(seed));
  const auto program = Drawer(seed).draw();
  verify(*program);
  const std::string text = print(*program);
  std::shared_ptr<Ir> back;
  try {
    back = parsed(text);
  } catch (const std::exception& error) {
    FAIL() << error.what() << "\n" << text;
  }
  verify(*back);
  ASSERT_EQ(print(*back), text);
  ASSERT_EQ(print(*program->clone()), text);
  for (const Graph* graph : program->graphs()) {
    EXPECT_EQ(scheduleOf(*back->findGraph(graph->id())), scheduleOf(*graph)) << text;
  }
}

/// Whether data and orders agree with the execution contexts that were drawn.
bool canRun(const Graph& graph) {
  const auto ids = scheduleOf(graph);
  const auto place = [&](const Op* op) { return std::find(ids.begin(), ids.end(), op->id()); };
  return std::all_of(graph.ops().begin(), graph.ops().end(), [&](const Op* op) {
    const auto before = [&](const Op* other) { return other == nullptr || place(other) < place(op); };
    return place(op) != ids.end() && std::all_of(op->after().begin(), op->after().end(), before) &&
           std::all_of(op->inputs().begin(), op->inputs().end(),
                       [&](const Tensor* t) { return t == nullptr || before(t->producer()); });
  });
}

/// runPass verifies what a pass leaves; it must also read back.
void checkPasses(uint64_t seed) {
  SCOPED_TRACE("POPXL_FUZZ_SEED=" + std::to_string(seed));
  const auto program = Drawer(seed).draw();
  for (const Graph* graph : program->graphs()) {
    if (!canRun(*graph)) return;
  }
  for (const passes::Pass& pass : passes::allPasses()) {
    const auto copy = program->clone();
    const std::string before = print(*copy);
    const bool changed = passes::runPass(pass, *copy);
    const std::string after = print(*copy);
    EXPECT_EQ(changed, before != after) << pass.name;
    EXPECT_EQ(print(*parsed(after)), after) << pass.name;
    EXPECT_FALSE(pass.run(*copy)) << pass.name << " finds more to do the second time\n" << after;
  }
}

std::string damaged(std::string text, Random& random) {
  static const std::vector<std::string> kPieces{
      "%x",    "@main", "(",    ")",  "{",    "}",           "[",      "]",           ",",
      "=",     ":",     "->",   "\"", "#1",   "-",           "9",      "_",           "none",
      "//",    "nan",   "\xff", "\n", "1e99", "float32 (2)", "after(", "modified(0)", "99999999999999999999",
      "%\"\"", "\\x"};
  for (size_t edits = 1 + below(random, 4); edits > 0 && !text.empty(); --edits) {
    const size_t at = below(random, text.size()), length = std::min(text.size() - at, 1 + below(random, 30));
    switch (below(random, 6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(below(random, text.size()), length));
        break;
      case 2:
        text.insert(at, kPieces[below(random, kPieces.size())]);
        break;
      case 3:
        text[at] = static_cast<char>(random());
        break;
      case 4:
        text.resize(at);
        break;
      default:
        std::swap(text[at], text[below(random, text.size())]);
        break;
    }
  }
  return text;
}

/// An Error, or a program that holds together: nothing else may come out of any text.
void checkText(const std::string& text, uint64_t seed) {
  try {
    const auto program = parse(text, ops::table(), {.maxDataBytes = 1 << 20});
    const std::string printed = print(*program);
    ASSERT_EQ(print(*parsed(printed)), printed);
  } catch (const Error&) {
  } catch (const std::exception& error) {
    FAIL() << "POPXL_FUZZ_SEED=" << seed << ": " << error.what() << "\n" << text;
  }
}

size_t runs(size_t fallback) {
  const char* value = std::getenv("POPXL_FUZZ_RUNS");
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 10);
}

std::pair<uint64_t, uint64_t> seeds(size_t fallback) {
  if (const char* value = std::getenv("POPXL_FUZZ_SEED")) {
    const uint64_t seed = std::strtoull(value, nullptr, 10);
    return {seed, seed + 1};
  }
  return {0, runs(fallback)};
}

TEST(RoundTripFuzz, RandomPrograms) {
  const auto [first, end] = seeds(300);
  for (uint64_t seed = first; seed < end && !HasFailure(); ++seed) checkRoundTrip(seed);
}

TEST(RoundTripFuzz, PassesLeaveSoundPrograms) {
  const auto [first, end] = seeds(200);
  for (uint64_t seed = first; seed < end && !HasFailure(); ++seed) checkPasses(seed);
}

TEST(RoundTripFuzz, DrawsMostOpsOfTheTable) {
  std::set<std::string_view> drawn;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto program = Drawer(seed).draw();
    for (const Graph* graph : program->graphs()) {
      for (const Op* op : graph->ops()) drawn.insert(op->def().name);
    }
  }
  EXPECT_GT(drawn.size() * 10, ops::table().all().size() * 6);
}

TEST(RoundTripFuzz, DamagedTexts) {
  const auto [first, end] = seeds(300);
  for (uint64_t seed = first; seed < end && !HasFailure(); ++seed) {
    Random random(seed + 1000000);
    const std::string text = print(*Drawer(seed).draw());
    for (int i = 0; i < 20 && !HasFailure(); ++i) checkText(damaged(text, random), seed);
  }
}

TEST(RoundTripFuzz, RandomBytes) {
  const auto [first, end] = seeds(2000);
  for (uint64_t seed = first; seed < end && !HasFailure(); ++seed) {
    Random random(seed);
    std::string text(below(random, 200), ' ');
    const bool printable = chance(random, 2);
    for (char& c : text) c = static_cast<char>(printable ? 32 + below(random, 95) : random());
    checkText(text, seed);
    checkText("graph @main(%x: float32 (2)) { " + text, seed);
  }
}

}  // namespace
}  // namespace popxl::ir
