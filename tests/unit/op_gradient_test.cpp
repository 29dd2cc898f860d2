#include <set>

#include "op_harness.h"

// Every gradient rule of the table against central differences of the op itself, in float64.
namespace popxl::testing {
namespace {

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
  cases.push_back(
      {"scaled_add",
       {in({4}), in({4}), constant(DType::kFloat64, {}, {3}), constant(DType::kFloat64, {}, {0.25})}});
  cases.push_back({"where", {constant(DType::kBool, {2, 3}, {1, 0, 1, 0, 0, 1}), in({2, 3}), in({3})}});
  cases.push_back({"where", {constant(DType::kBool, {3}, {1, 0, 1}), in({2, 1}), in({})}});
  cases.push_back({"shaped_dropout",
                   {in({6, 5}), constant(DType::kUInt32, {2}, {7, 11})},
                   {integers({6, 1}), Attr(0.3)}});
  cases.push_back({"dropout", {in({40}), constant(DType::kUInt32, {2}, {7, 11})}, {Attr(0.3)}});
  return cases;
}

std::vector<Case> reductionCases() {
  std::vector<Case> cases;
  for (const char* op :
       {"sum", "mean", "sumsquare", "l1", "l2", "logsum", "logsumexp", "max", "min", "prod", "median"}) {
    cases.push_back({op, {in({2, 3, 4})}, {integers({1}), Attr(false)}});
    cases.push_back({op, {in({2, 3, 4})}, {integers({0, -1}), Attr(true)}});
    cases.push_back({op, {in({2, 3})}, {integers({}), Attr(false)}});
  }
  cases.push_back({"topk", {in({3, 6}, -2, 2)}, {number(2), number(-1), Attr(true), Attr(true)}});
  cases.push_back({"topk", {in({5, 2}, -2, 2)}, {number(3), number(0), Attr(false), Attr(true)}});
  for (const bool exclusive : {false, true}) {
    cases.push_back(
        {"cumsum", {in({3, 4}), constant(DType::kInt32, {}, {1})}, {Attr(exclusive), Attr(!exclusive)}});
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
  cases.push_back(
      {"slice", {in({4, 5})}, {integers({1, 4}), integers({3, -6}), integers({1, -2}), integers({0, 1})}});
  cases.push_back({"slice", {in({4, 5})}, {integers({-2}), integers({100}), integers({}), integers({1})}});
  cases.push_back({"subsample", {in({5, 4})}, {integers({2, 3})}});
  cases.push_back({"identity", {in({3})}});
  cases.push_back({"concat", {in({2, 3}), in({2, 1}), in({2, 2})}, {number(-1)}});
  cases.push_back({"split", {in({5, 2})}, {integers({2, 3}), number(0)}});
  cases.push_back({"gather", {in({3, 4}), picks}, {number(0)}});
  cases.push_back({"gather", {in({2, 3, 2}), picks}, {number(1)}});
  cases.push_back(
      {"gather", {in({3}), constant(DType::kInt32, {4}, {-1, 0, 5, 2})}, {number(0), kNone, Attr(true)}});
  cases.push_back({"tied_gather", {in({3, 4}), picks}, {number(0)}});
  cases.push_back({"onehot", {picks, constant(DType::kInt32, {}, {3}), in({2})}, {number(1)}});
  const Operand place = constant(DType::kInt32, {2}, {1, 2});
  const std::vector<Attr> window = {integers({0, 2}), integers({2, 1}), Attr(true)};
  cases.push_back({"dynamic_slice", {in({3, 2, 4}), place}, window});
  cases.push_back({"dynamic_update", {in({3, 2, 4}), place, in({2, 2, 1})}, window});
  cases.push_back({"groupedgather", {in({2, 3, 2}), picks}, {number(1), number(2)}});
  cases.push_back({"groupedgather", {in({3, 2}), picks}, {number(0)}});
  cases.push_back({"scatter",
                   {in({4, 2}), constant(DType::kInt32, {3, 2}, {2, 0, 2, 7, -1, 1}), in({3, 2})},
                   {number(0)}});
  const Operand places = constant(DType::kInt32, {5}, {2, 0, 2, 9, 1});
  const Operand part = constant(DType::kInt32, {3, 2}, {2, 0, 2, 0, 1, 0});
  for (const char* reduction : {"sum", "max", "min", "none"}) {
    cases.push_back(
        {"scatter_reduce", {in({5, 2}), places, absent()}, {text(reduction), number(0), number(4)}});
    cases.push_back({"scatter_reduce", {in({2, 5}), places, in({2, 4})}, {text(reduction), number(1)}});
    cases.push_back(
        {"scatter_reduce", {in({4, 3}), part, in({3, 2})}, {text(reduction), number(0), kNone, Attr(false)}});
  }
  cases.push_back({"ipu_copy", {in({3})}, {number(1), number(0)}});
  cases.push_back({"io_tile_copy", {in({3})}});
  return cases;
}

/// With one replica; the rows of tests/ops have several.
std::vector<Case> collectiveCases() {
  std::vector<Case> cases;
  for (const char* op : {"add", "mean"}) {
    cases.push_back({"replicated_all_reduce", {in({2, 3})}, {text(op), integers({})}});
    cases.push_back({"replicated_reduce_scatter", {in({2, 3})}, {text(op), integers({}), Attr(false)}});
  }
  cases.push_back({"replicated_all_gather", {in({2, 3})}, {integers({3, 2}), integers({})}});
  cases.push_back({"replicated_all_to_all", {in({2, 3})}, {integers({})}});
  cases.push_back({"replicated_broadcast", {in({2, 3})}, {number(0), integers({})}});
  cases.push_back({"replicated_permute", {in({2, 3})}, {integers({0})}});
  cases.push_back(
      {"all_reduce", {in({2}), in({2})}, {text("add"), integers({0, 1}), Attr(false), Attr(false)}});
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
  const auto convolution = [&](Shape x, Shape w, Ints stride, Ints padding, Ints dilation, int64_t groups,
                               const char* pad) {
    cases.push_back({"conv",
                     {in(std::move(x)), in(std::move(w))},
                     {integers(std::move(stride)), integers(std::move(padding)),
                      integers(std::move(dilation)), number(groups), text(pad)}});
  };
  convolution({1, 2, 5, 4}, {3, 2, 3, 2}, {}, {}, {}, 1, "not_set");
  convolution({2, 4, 5, 5}, {2, 2, 2, 3}, {2, 1}, {1, 0, 1, 2}, {1, 2}, 2, "not_set");
  convolution({1, 1, 7}, {2, 1, 3}, {2}, {}, {}, 1, "same_upper");
  const auto transposed = [&](Shape x, Shape w, Ints stride, Ints padding, Ints dilation, int64_t groups,
                              const char* pad, Ints more, Ints shape) {
    cases.push_back({"conv_transpose",
                     {in(std::move(x)), in(std::move(w))},
                     {integers(std::move(stride)), integers(std::move(padding)),
                      integers(std::move(dilation)), number(groups), text(pad), kNone, kNone, kNone,
                      integers(std::move(more)), integers(std::move(shape))}});
  };
  transposed({1, 2, 3, 2}, {2, 3, 3, 2}, {}, {}, {}, 1, "not_set", {}, {});
  transposed({2, 4, 3, 2}, {4, 1, 2, 3}, {2, 3}, {1, 0, 1, 1}, {2, 1}, 2, "not_set", {1, 2}, {});
  transposed({1, 1, 4}, {1, 2, 3}, {2}, {}, {}, 1, "same_upper", {}, {});
  transposed({1, 2, 2, 2}, {2, 1, 2, 2}, {2, 1}, {}, {}, 1, "not_set", {}, {6, 2});
  const auto resized = [&](Shape x, std::vector<double> scales, const char* mode, const char* place) {
    cases.push_back({"interpolate",
                     {in(std::move(x))},
                     {Attr(std::move(scales)), text(mode), text("floor"), text(place)}});
  };
  resized({2, 3, 4}, {1, 1.5, 2}, "nearest", "half_pixel");
  resized({3, 4}, {1.7, 0.5}, "linear", "half_pixel");
  resized({3, 4}, {2, 1.3}, "cubic", "align_corners");
  cases.push_back({"roi_align",
                   {in({2, 2, 4, 5}), constant(DType::kFloat64, {2, 4}, {0.3, 0.5, 3.2, 3.9, 1, -2, 9, 2}),
                    constant(DType::kInt32, {2}, {1, 0})},
                   {integers({2, 3}), Attr(0.9), number(2)}});
  for (const char* op : {"average_pool", "max_pool"}) {
    cases.push_back(
        {op, {in({1, 2, 5, 5}, -2, 2)}, {integers({2, 3}), integers({2, 1}), integers({1, 0, 0, 1})}});
    cases.push_back(
        {op,
         {in({1, 1, 6, 5}, -2, 2)},
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
    checkGradients(c);
    checkGradients(c, true);
  }
}

TEST(OpGradient, Elementwise) { checkAll(elementwiseCases()); }
TEST(OpGradient, Reductions) { checkAll(reductionCases()); }
TEST(OpGradient, Movement) { checkAll(movementCases()); }
TEST(OpGradient, Dense) { checkAll(denseCases()); }
TEST(OpGradient, Collectives) { checkAll(collectiveCases()); }

TEST(OpGradient, ProductWithZeros) {
  for (const std::vector<double>& zeros : {std::vector<double>{0, 2, 3}, {0, 0, 3}, {4, 2, 3}}) {
    Harness h({"prod", {in({3})}, {integers({}), Attr(false)}});
    h.streams.at("x0") = zeros;
    h.streams.at("dy") = {2};
    h.run();
    const std::vector<double> expected = {2 * zeros[1] * zeros[2], 2 * zeros[0] * zeros[2],
                                          2 * zeros[0] * zeros[1]};
    EXPECT_EQ(h.streams.at("dx0"), expected);
  }
}

TEST(OpGradient, AnOpWithoutARuleIsAnErrorAndNotZero) {
  const Case c = {"nll_loss_with_softmax_grad",
                  {in({2, 3}), constant(DType::kInt32, {2}, {0, 2}), constant(DType::kFloat64, {}, {1})}};
  try {
    Harness h(c);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kGraph);
    EXPECT_NE(std::string(error.what()).find("`nll_loss_with_softmax_grad`"), std::string::npos)
        << error.what();
  }
}

/// A rule without a case here would go unchecked.
TEST(OpGradient, EveryRuleHasACase) {
  std::set<std::string> covered = {"print_tensor"};  // the identity; prints
  for (const auto& cases :
       {elementwiseCases(), reductionCases(), movementCases(), denseCases(), collectiveCases()}) {
    for (const Case& c : cases) covered.insert(c.op);
  }
  for (const ir::OpDef& def : ops::table().all()) {
    if (def.grad == nullptr || def.visibility == ir::Visibility::kInternal) continue;
    EXPECT_TRUE(covered.contains(std::string(def.name))) << def.name;
  }
}

}  // namespace
}  // namespace popxl::testing
