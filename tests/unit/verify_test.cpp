// The verifier accepts what the builder makes and names what a rewrite left broken.

#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir_testing.h"
#include "popxl/error.h"

namespace popxl::ir {
namespace {

using testing::parsed;

std::string errorOf(const Ir& program) {
  try {
    verify(program);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

void expectBroken(const Ir& program, std::string_view message) {
  const std::string error = errorOf(program);
  EXPECT_NE(error.find(message), std::string::npos) << error;
}

std::shared_ptr<Ir> chain() {
  return parsed(R"(
    graph @f(%x: float32 (2)) -> (%y) { %y = abs %x }
    graph @main(%x: float32 (2)) -> (%e) {
      %a = abs %x loc("model.py":1)
      %b = exp %a loc("model.py":2)
      %c = sum %b {axes = [0], keepdims = true} loc("model.py":3)
      %d = add %c, %b loc("model.py":4)
      %e = call @f(%d) loc("model.py":5)
      %f = log %e loc("model.py":6)
    })");
}

Op& opOf(const Ir& program, std::string_view result) { return *program.mainGraph().find(result)->producer(); }

TEST(Verify, AcceptsWhatTheBuilderMakes) { EXPECT_EQ(errorOf(*chain()), "no error"); }

TEST(Verify, ShowsTheOpItsNeighboursAndTheLine) {
  const auto program = chain();
  opOf(*program, "c").setAttr("axes", std::vector<int64_t>{});
  opOf(*program, "c").setAttr("keepdims", false);
  EXPECT_EQ(errorOf(*program),
            "the program is broken in graph `main`: op `sum`: result %c is float32 (1,), inference gives "
            "float32 ()\n"
            "  made at model.py:3\n"
            "    %a = abs %x : float32 (2,)\n"
            "    %b = exp %a : float32 (2,)\n"
            "  > %c = sum %b : float32 (1,)\n"
            "    %d = add %c, %b : float32 (2,)\n"
            "    %e = call @f(%d) : float32 (2,)");
}

TEST(Verify, InferenceThatRefuses) {
  const auto program = chain();
  opOf(*program, "c").setAttr("axes", std::vector<int64_t>{7});
  expectBroken(*program, "its inference refuses it: ");
}

TEST(Verify, OperandsOfAnotherGraph) {
  const auto program = chain();
  opOf(*program, "b").setInput(0, program->findGraph("f")->find("x"));
  expectBroken(*program, "op `exp`: operand 0 (`t`) is not a tensor of this graph");
}

TEST(Verify, MissingOperand) {
  const auto program = chain();
  opOf(*program, "d").setInput(1, nullptr);
  expectBroken(*program, "op `add`: operand `rhs` is missing");
}

TEST(Verify, DtypeThatTheOpDoesNotTake) {
  const auto program = parsed("graph @main(%x: float32 (2), %y: bool (2)) { %a = exp %x }");
  opOf(*program, "a").setInput(0, program->mainGraph().find("y"));
  expectBroken(*program, "op `exp`: operand 0 (`t`) can't be bool");
}

TEST(Verify, AttributesOfTheWrongType) {
  const auto program = chain();
  opOf(*program, "c").setAttr("keepdims", int64_t{1});
  expectBroken(*program, "attribute `keepdims` has no value of its type");
  opOf(*program, "c").setAttr("keepdims", std::monostate{});
  expectBroken(*program, "attribute `keepdims` has no value of its type");
}

TEST(Verify, GraphsThatAreGone) {
  const auto program = chain();
  program->eraseGraph(program->findGraph("f"));
  expectBroken(*program, "op `call`: attribute `graph` is a graph that is not in this Ir");
}

TEST(Verify, Recursion) {
  const auto program = parsed(R"(
    graph @f(%x: float32 (2)) -> (%y) { %y = abs %x }
    graph @g(%x: float32 (2)) -> (%y) { %y = call @f(%x) }
    graph @h(%x: float32 (2)) -> (%y) { %y = call @g(%x) })");
  program->findGraph("g")->ops()[0]->setAttr("graph", program->findGraph("h"));
  expectBroken(*program, "graph `g`: it calls itself, or graphs that call it");
}

TEST(Verify, CyclesOfDataAndOfConstraints) {
  auto program = chain();
  opOf(*program, "b").setInput(0, program->mainGraph().find("d"));
  expectBroken(*program, "these ops wait for each other:\n  %b = exp %d");
  program = chain();
  opOf(*program, "a").addAfter(&opOf(*program, "d"));
  expectBroken(*program, "these ops wait for each other:");
}

TEST(Verify, ConstraintsOfAnotherGraph) {
  const auto program = chain();
  opOf(*program, "a").addAfter(program->findGraph("f")->ops()[0]);
  expectBroken(*program, "it runs after an op that is not in this graph");
}

TEST(Verify, OperandsThatAnOpSaysItModifies) {
  const auto program = chain();
  opOf(*program, "e").declareModified(3);
  expectBroken(*program, "it modifies operand 3, which it has not");
}

TEST(Verify, DataOfTheWrongSize) {
  const auto program = parsed("graph @main { %v = variable float32 (2) zeros }");
  program->mainGraph().find("v")->setData(HostData::allocate(4));
  expectBroken(*program, "tensor %v has 4 bytes of data, its type takes 8");
}

}  // namespace
}  // namespace popxl::ir
