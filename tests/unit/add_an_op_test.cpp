#include "op_harness.h"
#include "ops/define.h"

// The example of docs/add-an-op.md, word for word, in a table of its own.
namespace popxl::ops {
namespace {

void softplus(Defs& defs) {
  addUnary(
      defs, {"softplus", "Softplus", "Logarithm of 1 + e^x, a smooth form of relu."},
      [](ExprContext&, Val t) {
        const Val x = real(t);
        return max(x, x.constant(0)) + log(1.0 + exp(-abs(x)));
      },
      OfInput{}, [](ExprContext&, Val dy, Val x) { return dy / (1.0 + exp(-x)); });
}

const ir::OpTable& tableWithSoftplus() {
  static const ir::OpTable all = [] {
    Defs defs = table().all();
    softplus(defs);
    return ir::OpTable(std::move(defs));
  }();
  return all;
}

TEST(AddAnOp, TheExampleComputesAndDifferentiates) {
  const testing::Case c = {"softplus", {testing::in({3, 4}, -30, 30)}};
  testing::checkGradients(c, false, tableWithSoftplus());
  testing::Harness h(c, false, tableWithSoftplus());
  std::vector<double>& x = h.streams.at("x0");
  for (size_t i = 0; i < x.size(); ++i) x[i] = 5.0 * static_cast<double>(i) - 30;
  h.run();
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(h.streams.at("y")[i], std::log1p(std::exp(x[i])), 1e-13 * std::max(1.0, x[i])) << x[i];
  }
}

TEST(AddAnOp, TheGradientIsAnEntryToo) {
  const ir::OpDef* grad = tableWithSoftplus().find("softplus_grad");
  ASSERT_NE(grad, nullptr);
  EXPECT_EQ(grad->type, "SoftplusGrad");
  EXPECT_EQ(grad->operands.size(), 2u);
  EXPECT_EQ(grad->visibility, ir::Visibility::kInternal);
}

}  // namespace
}  // namespace popxl::ops
