#include <gtest/gtest.h>

#include "ir/ir.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/ops.h"

// The example of docs/add-a-pass.md, word for word.
namespace popxl::passes {
namespace {

/// The tensor that is squared when `t` is a square that only one op reads; null otherwise.
ir::Tensor* squared(const ir::Tensor* t) {
  const ir::Op* op = t->producer();
  if (op == nullptr || op->def().name != "mul" || op->input(0) != op->input(1)) return nullptr;
  return t->uses().size() == 1 ? op->input(0) : nullptr;
}

}  // namespace

bool squareSum(ir::Ir& ir) {
  bool changed = false;
  for (ir::Graph* graph : ir.graphs()) {
    const std::vector<ir::Op*> ops = graph->ops();  // a copy: ops are added on the way
    for (ir::Op* op : ops) {
      if (op->def().name != "sum") continue;
      ir::Tensor* x = squared(op->input(0));
      if (x == nullptr) continue;
      ir::OpRequest request;
      request.inputs = {x};
      request.attrs = op->attrs();
      request.settings = op->settings();  // where and when it runs, and the user's line, stay
      request.loc = op->loc();
      ir::Op* made = graph->addOp(*ir.table().find("sumsquare"), std::move(request));
      for (ir::Op* before : op->after()) made->addAfter(before);
      graph->replaceAllUses(op->output(), made->output());
      graph->eraseOp(op);
      changed = true;
    }
  }
  return changed;
}

}  // namespace popxl::passes

namespace popxl::passes {
namespace {

TEST(AddAPass, TheExampleRewritesWhatItSays) {
  const auto ir = ir::parse(R"(ir { graph @main {
    %x = variable float32 (2,) [1.0, 2.0]
    %a = mul %x, %x
    %s = sum %a {axes = [0]}
    %b = mul %x, %x
    %t = sum %b {axes = [0]}
    %u = add %b, %t
  } })",
                            ops::table());
  EXPECT_TRUE(squareSum(*ir));
  ir::verify(*ir);
  const std::string text = ir::print(*ir);
  EXPECT_NE(text.find("sumsquare %x"), std::string::npos) << text;
  EXPECT_EQ(text.find("sum %a"), std::string::npos) << text;
  EXPECT_NE(text.find("sum %b"), std::string::npos) << text;  // something else reads that square
  EXPECT_FALSE(squareSum(*ir));
}

}  // namespace
}  // namespace popxl::passes
