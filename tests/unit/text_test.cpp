// The text form: what a program holds is printed, and what is printed is read back as the same program.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#include "ir/text_values.h"
#include "ir/verify.h"
#include "ir_testing.h"
#include "popxl/error.h"

namespace popxl::ir {
namespace {

using testing::makeOp;
using testing::parsed;

TensorType float32(Shape shape) { return {DType::kFloat32, std::move(shape), {}}; }

/// Prints, reads back, compares the texts; returns the program that was read.
std::shared_ptr<Ir> roundTrip(const Ir& program) {
  const std::string once = print(program);
  auto back = parsed(once);
  EXPECT_EQ(print(*back), once);
  verify(*back);
  return back;
}

/// The only op of graph @main whose first result, if any, is on the line that is expected.
std::string lineWith(const std::string& text, std::string_view part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return "no line with " + std::string(part) + " in\n" + text;
  const size_t start = text.rfind('\n', at) + 1;
  return text.substr(text.find_first_not_of(' ', start),
                     text.find('\n', at) - text.find_first_not_of(' ', start));
}

TEST(Text, EmptyProgram) {
  const auto program = Ir::create(ops::table());
  EXPECT_EQ(print(*program), "ir {\n  graph @main {\n  }\n}\n");
  roundTrip(*program);
}

TEST(Text, ScalarAdd) {
  const auto program = Ir::create(ops::table());
  Graph& main = program->mainGraph();
  Tensor* v = main.addVariable("v", float32({}), HostData::allocate(4));
  makeOp(main, "add", {v, v}, {}, {"sum"});
  EXPECT_EQ(lineWith(print(*program), "add"), "%sum = add %v, %v ipu(none) : float32 ()");
  EXPECT_EQ(main.ops()[0]->str(), "%sum = add %v, %v ipu(none) : float32 ()");
  roundTrip(*program);
}

TEST(Text, DefaultsThatParserFillsIn) {
  const auto program = parsed("graph @main(%a: float32 (2, 3)) { %b = transpose %a }");
  const Op& op = *program->mainGraph().ops().at(0);
  EXPECT_EQ(op.output()->shape(), (Shape{3, 2}));
  EXPECT_EQ(op.settings(), (Settings{.ipu = 0}));
  EXPECT_EQ(op.id(), 0);
  EXPECT_EQ(program->counters().op, 1);
}

TEST(Text, NamesOfEveryKind) {
  const auto program = Ir::create(ops::table());
  Graph& g = program->createGraphWithId("odd graph -> \"x\"");
  Graph& h = program->createGraphWithId("main");
  Graph& k = program->createGraph("f");
  for (const std::string& name : std::initializer_list<std::string>{"plain",
                                                                    "a/b",
                                                                    "x__t3",
                                                                    "0",
                                                                    "with space",
                                                                    "%",
                                                                    "quote\"",
                                                                    "back\\slash",
                                                                    "new\nline",
                                                                    "tab\t",
                                                                    "\xc3\xa9t\xc3\xa9",
                                                                    "bad\xff utf8",
                                                                    ".dot",
                                                                    "_",
                                                                    "->",
                                                                    "//",
                                                                    "a//b",
                                                                    "(0)",
                                                                    "none",
                                                                    "variable",
                                                                    std::string("nul\0byte", 8)}) {
    Tensor* t = g.addInput(name, float32({2}));
    makeOp(g, "negate", {t}, {}, {"of " + t->name()});
  }
  h.addOutput(h.addInput("x", float32({1})));
  k.addOutput(k.addInput("x", float32({1})));
  Tensor* x = program->mainGraph().addInput("x", float32({1}));
  makeOp(program->mainGraph(), "call", {x}, {{"graph", &h}});
  makeOp(program->mainGraph(), "call", {x}, {{"graph", &k}});
  const auto back = roundTrip(*program);
  ASSERT_EQ(back->graphs().size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(back->graphs()[i]->id(), program->graphs()[i]->id());
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    EXPECT_EQ(back->graphs()[1]->inputs()[i]->name(), g.inputs()[i]->name());
  }
  EXPECT_NE(print(*program).find("call @\"main\"(%x)"), std::string::npos);
  EXPECT_NE(print(*program).find("call @f_subgraph(0)(%x)"), std::string::npos);
}

TEST(Text, FloatsKeepTheirBits) {
  for (const uint64_t bits : std::initializer_list<uint64_t>{
           0x0000000000000000U, 0x8000000000000000U, 0x3fb999999999999aU, 0x0000000000000001U,
           0x7fefffffffffffffU, 0x7ff0000000000000U, 0xfff0000000000000U, 0x7ff8000000000000U,
           0xfff8000000000000U, 0x7ff8000000000123U, 0x7ff0000000000001U, 0x4008000000000000U}) {
    const auto value = std::bit_cast<double>(bits);
    const auto back = floatFromText(floatText(value));
    ASSERT_TRUE(back.has_value()) << floatText(value);
    EXPECT_EQ(std::bit_cast<uint64_t>(*back), bits) << floatText(value);
    const auto program = Ir::create(ops::table());
    Tensor* x = program->mainGraph().addInput("x", float32({2}));
    makeOp(program->mainGraph(), "scale", {x}, {{"factor", value}});
    const auto again = roundTrip(*program);
    EXPECT_EQ(std::bit_cast<uint64_t>(again->mainGraph().ops()[0]->attr<double>("factor")), bits);
  }
  EXPECT_EQ(floatText(3), "3.0");
  EXPECT_EQ(floatText(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Text, DataOfEveryTypeKeepsItsBytes) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const int64_t elements : {0, 1, 3, 16, 300}) {
      for (int pattern = 0; pattern < 4; ++pattern) {
        const auto program = Ir::create(ops::table());
        const TensorType type{dtype, {elements}, {}};
        const auto data = HostData::allocate(type.bytes());
        // All zero; the same element everywhere; counting; every bit pattern (NaNs and bools that are neither
        // 0 nor 1).
        for (int64_t b = 0; b < data->size; ++b) {
          const int64_t inElement = b % sizeOf(dtype);
          const int64_t value = pattern == 1   ? (inElement == sizeOf(dtype) - 1 ? 0x3f : 1)
                                : pattern == 2 ? (inElement == 0 ? b / sizeOf(dtype) : 0)
                                               : 255 - b * 37 % 256;
          data->bytes[b] = static_cast<std::byte>(pattern == 0 ? 0 : value);
        }
        program->mainGraph().addConstant("c", type, data);
        const auto back = roundTrip(*program);
        const HostData& got = *back->mainGraph().find("c")->data();
        ASSERT_EQ(got.size, data->size);
        EXPECT_EQ(std::memcmp(got.bytes, data->bytes, static_cast<size_t>(data->size)), 0)
            << nameOf(dtype) << " x " << elements << ", pattern " << pattern << "\n"
            << print(*program);
      }
    }
  }
}

TEST(Text, ShortDataIsReadable) {
  const auto text = [](const std::string& declaration) {
    return lineWith(print(*parsed("graph @main { %c = constant " + declaration + " }")), "constant");
  };
  EXPECT_EQ(text("float32 (3) [1, 2.5, -1e-3]"), "%c = constant float32 (3,) [1.0, 2.5, -0.001]");
  EXPECT_EQ(text("float16 () [0.1]"), "%c = constant float16 () [0.099975586]");
  EXPECT_EQ(text("bool (2) [true, false]"), "%c = constant bool (2,) [true, false]");
  EXPECT_EQ(text("int64 (1000) full(7)"), "%c = constant int64 (1000,) full(7)");
  EXPECT_EQ(text("uint8 (2) [255, 255]"), "%c = constant uint8 (2,) full(255)");
  EXPECT_EQ(text("float32 (2, 2) zeros"), "%c = constant float32 (2, 2) zeros");
  EXPECT_EQ(text("float32 (2) base64(\"AACAPwAAAEA=\")"), "%c = constant float32 (2,) [1.0, 2.0]");
}

TEST(Text, ElidedDataSaysSo) {
  const auto program =
      parsed("graph @main { %c = constant int8 (100) full(1)  %d = constant int8 (2) [1, 2] }");
  const std::string text = print(*program, {.elideDataAbove = 10});
  EXPECT_EQ(lineWith(text, "%c"), "%c = constant int8 (100,) elided(100 bytes)");
  EXPECT_EQ(lineWith(text, "%d"), "%d = constant int8 (2,) [1, 2]");
  try {
    parsed(text);
    FAIL() << "an elided text was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("left out when the text was printed"), std::string::npos)
        << error.what();
  }
}

TEST(Text, SettingsLocationsAndOrder) {
  const std::string text = R"(ir {
  stream "out" : float32 (2,) device_to_host loc("m.py":3)
  graph @main(%a: float32 (2,) loc("m.py":4 in "build"), %b: float32 (2,) meta (4,) byref) {
    %c = add %a, %b ipu(3) tiles(io) context(accumulate_outer) scope("s/t") : float32 (2,) loc("m.py":5 in "build")
    #1 host_store %c {stream = "out"} after(%c)
    %d = add_ %b, %a ipu(none) after(#1, %c) : float32 (2,) meta (8,)
    #7 %e = negate %d context(weights_to_host) : float32 (2,)
  }
}
)";
  const auto program = parsed(text);
  EXPECT_EQ(print(*program), text);
  const auto& ops = program->mainGraph().ops();
  EXPECT_EQ(ops[0]->settings().tileSet, TileSet::kIO);
  EXPECT_EQ(*ops[0]->settings().scope, "s/t");
  EXPECT_EQ(ops[0]->loc().str(), "m.py:5");
  EXPECT_EQ(*ops[0]->loc().function, "build");
  EXPECT_EQ(ops[2]->after(), (std::vector<Op*>{ops[1], ops[0]}));
  EXPECT_TRUE(ops[2]->inplace());
  EXPECT_EQ(ops[3]->id(), 7);
  EXPECT_TRUE(program->mainGraph().inputs()[1]->byRef());
  EXPECT_EQ(print(*program, {.locations = false}).find("loc("), std::string::npos);
  roundTrip(*program->clone());
}

TEST(Text, OptionsOfTheIr) {
  const auto program = Ir::create(ops::table());
  program->setHostTransfers(8);
  SessionOptions& o = program->options();
  o.enableInplaceAmbiguityChecking = true;
  o.virtualGraphMode = VirtualGraphMode::kExecutionPhases;
  o.enableVariablesCaching = false;
  o.replicatedGraphCount = 4;
  o.partialsTypeMatMuls = "half \"q\"";
  o.engineOptions = {{"a", "1"}, {"b c", ""}};
  o.dotChecks = {"Fwd0", "Final"};
  program->setCounters({5, 6, 7});
  program->addRemoteBuffer({DType::kInt8, {2, 0}, {}}, 3);
  const auto back = roundTrip(*program);
  EXPECT_EQ(back->hostTransfers(), 8);
  EXPECT_EQ(back->options().engineOptions, o.engineOptions);
  EXPECT_EQ(back->options().dotChecks, o.dotChecks);
  EXPECT_EQ(back->options().virtualGraphMode, o.virtualGraphMode);
  EXPECT_EQ(back->options().partialsTypeMatMuls, o.partialsTypeMatMuls);
  EXPECT_FALSE(back->options().enableVariablesCaching);
  EXPECT_EQ(back->counters().tensor, 6);
  EXPECT_EQ(back->counters().graph, 7);
  EXPECT_EQ(back->remoteBuffers().at(0)->entries, 3);
}

TEST(Text, VariableSettings) {
  const std::string line =
      "%v = variable int32 (1,) groups(2: [0, 1, 0, 1]) retrieve_all remote(1, 2, shards [0, 0, 1, 1]) [3, "
      "4] loc(\"a\":1)";
  const auto program = parsed("graph @main { " + line + " }");
  const Tensor& v = *program->mainGraph().find("v");
  EXPECT_EQ(v.settings().numGroups, 2);
  EXPECT_EQ(v.settings().groupOf, (std::vector<int32_t>{0, 1, 0, 1}));
  EXPECT_TRUE(v.settings().retrieveAllReplicas && v.settings().shardOf.size() == 4);
  EXPECT_EQ(v.settings().remoteEntry, 2);
  EXPECT_EQ(v.data()->size, 8);
  EXPECT_EQ(lineWith(print(*program), "%v"), line);
}

TEST(Text, CallsComeBeforeOrAfterTheirGraphs) {
  const auto program = parsed(R"(
    graph @outer(%x: float32 (2)) -> (%y) { %y = call @inner(%x) modified(0) }
    graph @main(%x: float32 (2), %go: bool ()) {
      %y = call @outer(%x)
      %z = repeat @inner(%x) {repeat_count = 3}
      %w = conditional @inner @outer(%go, %x, %y)
    }
    graph @inner(%x: float32 (2)) -> (%y) no_autodiff { %y = negate %x })");
  EXPECT_EQ(program->graphs()[1]->id(), "outer");
  EXPECT_FALSE(program->findGraph("inner")->canBeDifferentiated());
  EXPECT_EQ(program->findGraph("outer")->ops()[0]->declaredModified(), (std::vector<int32_t>{0}));
  EXPECT_EQ(lineWith(print(*program), "conditional"),
            "%w = conditional @inner @outer(%go, %x, %y) : float32 (2,)");
  roundTrip(*program);
}

TEST(Text, AnOpMayUseWhatALaterOneMakes) {
  const auto program = Ir::create(ops::table());
  Graph& main = program->mainGraph();
  Tensor* x = main.addInput("x", float32({2}));
  Op* early = makeOp(main, "negate", {x}, {}, {"early"});
  Op* user = makeOp(main, "exp", {early->output()}, {}, {"user"});
  Op* late = makeOp(main, "add", {x, x}, {}, {"late"});
  main.addOutput(early->output());
  main.replaceAllUses(early->output(), late->output());
  main.eraseOp(early);
  const auto back = roundTrip(*program);
  ASSERT_EQ(back->mainGraph().ops().size(), 2U);
  EXPECT_EQ(back->mainGraph().ops()[0]->id(), user->id());
  EXPECT_EQ(back->mainGraph().ops()[1]->id(), late->id());
  EXPECT_EQ(back->mainGraph().ops()[0]->input(0), back->mainGraph().ops()[1]->output());
  EXPECT_EQ(back->mainGraph().outputs()[0]->name(), "late");
}

TEST(Text, AbsentOperandsAndAttributesOfEveryType) {
  std::vector<OpDef> defs(1);
  defs[0].name = "probe";
  defs[0].operands = {{"a"}, {"b", kAny, "", Arity::kOptional}, {"c", kAny, "", Arity::kOptional}};
  defs[0].attrs = {{"i", AttrType::kInt, "", int64_t{1}},
                   {"f", AttrType::kFloat},
                   {"b", AttrType::kBool, "", {}, true},
                   {"s", AttrType::kString, "", std::string("d")},
                   {"is", AttrType::kInts},
                   {"fs", AttrType::kFloats},
                   {"t", AttrType::kDType, "", DType::kInt8, true}};
  defs[0].infer = [](const Op& op, std::vector<TensorType>& out) { out.push_back(op.input(0)->type()); };
  const OpTable table(std::move(defs));
  const std::string text = R"(ir {
  graph @main(%x: int8 ()) {
    %a = probe %x, _, %x {i = -9223372036854775808, f = -0.0, b = false, s = "\"\x00\n", is = [], fs = [1.0, -inf, nan], t = float8_143} : int8 ()
    %b = probe %x, %x, _ {f = 0.1, is = [-1, 2], fs = []} : int8 ()
    %c = probe %x, _, _ {f = 1e+300, is = [0], fs = [2.5], t = none} : int8 ()
  }
}
)";
  EXPECT_EQ(print(*parse(text, table)), text);
}

TEST(Text, NoOpHasAWordOfTheLanguageAsName) {
  for (const OpDef& def : ops::table().all()) {
    for (const std::string_view word : {"variable", "constant", "stream_handle", "ipu", "tiles", "context",
                                        "scope", "modified", "after", "loc", "none", "inf", "nan", "_"}) {
      EXPECT_NE(def.name, word);
    }
    for (const char c : def.name) EXPECT_TRUE(isNameChar(c) && c != '.' && c != '/') << def.name;
    for (const AttrDef& attr : def.attrs) {
      for (const char c : attr.name)
        EXPECT_TRUE(isNameChar(c) && c != '.' && c != '/') << def.name << " " << attr.name;
    }
  }
}

}  // namespace
}  // namespace popxl::ir
