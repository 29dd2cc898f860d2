// Every reduction over inner, outer, mixed and no axes against float64 sums done here.
#include <algorithm>
#include <map>
#include <numeric>

#include "kernel_testing.h"
#include "kernels/reduce_fold.h"

namespace popxl::kernels {
namespace {

using testing::Buffer;
using testing::fillRandom;
using testing::readElement;
using testing::runKernel;

const Reduction kKinds[] = {Reduction::kSum,    Reduction::kMean,      Reduction::kMax, Reduction::kMin,
                            Reduction::kProd,   Reduction::kSumSquare, Reduction::kL1,  Reduction::kL2,
                            Reduction::kLogSum, Reduction::kLogSumExp};

double finish(Reduction kind, const std::vector<double>& x) {
  const auto sum = [&](auto f) {
    long double total = 0;  // wider than what float64 reductions are held to
    for (const double v : x) total += f(static_cast<long double>(v));
    return static_cast<double>(total);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  double extreme = kind == Reduction::kMin ? infinity : -infinity;
  for (const double v : x) {
    if (std::isnan(extreme) || std::isnan(v)) {
      extreme = std::nan("");
    } else {
      extreme = kind == Reduction::kMin ? std::min(extreme, v) : std::max(extreme, v);
    }
  }
  switch (kind) {
    case Reduction::kSum:
      return sum([](long double v) { return v; });
    case Reduction::kMean:
      return sum([](long double v) { return v; }) / static_cast<double>(x.size());
    case Reduction::kMax:
    case Reduction::kMin:
      return extreme;
    case Reduction::kProd:
      return std::accumulate(x.begin(), x.end(), 1.0, [](double a, double b) { return a * b; });
    case Reduction::kSumSquare:
      return sum([](long double v) { return v * v; });
    case Reduction::kL1:
      return sum([](long double v) { return std::fabs(v); });
    case Reduction::kL2:
      return std::sqrt(sum([](long double v) { return v * v; }));
    case Reduction::kLogSum:
      return std::log(sum([](long double v) { return v; }));
    case Reduction::kLogSumExp:
      break;
  }
  const double shift = std::isfinite(extreme) ? extreme : 0;
  return std::log(sum([&](long double v) { return std::exp(v - shift); })) + shift;
}

/// Magnitude that rounding errors are relative to.
double scaleOf(Reduction kind, const std::vector<double>& x) {
  double total = 0;
  for (const double v : x) total += std::fabs(v);
  switch (kind) {
    case Reduction::kSum:
      return total;
    case Reduction::kMean:
      return total / static_cast<double>(x.size());
    case Reduction::kLogSum:
      return total / std::fabs(std::accumulate(x.begin(), x.end(), 0.0)) + 8;
    case Reduction::kLogSumExp:
      return std::fabs(finish(Reduction::kMax, x)) + 8;
    default:
      return std::fabs(finish(kind, x));
  }
}

Shape keptShape(const Shape& space, const std::vector<int64_t>& axes) {
  Shape shape = space;
  for (const int64_t a : axes) shape[static_cast<size_t>(a)] = 1;
  return shape;
}

/// Values of every output, in row-major order of the kept shape.
std::map<int64_t, std::vector<double>> gather(const Shape& space, const std::vector<int64_t>& axes,
                                              Buffer& in) {
  std::map<int64_t, std::vector<double>> groups;
  const Shape kept = keptShape(space, axes);
  const Strides to = contiguousStrides(kept);
  const Strides from = broadcastStrides(in.layout().shape, in.layout().strides, space);
  for (int64_t i = 0; i < numElements(kept); ++i) groups[i];
  Shape at(space.size(), 0);
  for (int64_t i = 0; i < numElements(space); ++i) {
    int64_t group = 0, element = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      if (kept[d] != 1) group += at[d] * to[d];
      element += at[d] * from[d];
    }
    const DType t = in.layout().dtype;
    groups[group].push_back(readElement(t, in.data() + element * popxl::sizeOf(t)));
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < space[d]) break;
      at[d] = 0;
    }
  }
  return groups;
}

ReduceSpec specOf(Reduction kind, const Shape& space, const std::vector<int64_t>& axes, Layout in,
                  Layout out) {
  ReduceSpec spec{.kind = kind, .expr = {}, .space = space, .inputs = {in}, .axes = axes, .out = out};
  spec.expr.outputs() = {input(spec.expr, 0, computeType(in.dtype)).id};
  return spec;
}

void expectNear(Reduction kind, const Shape& space, const std::vector<int64_t>& axes, Buffer& in,
                DType outType) {
  const Layout outLayout(outType, keptShape(space, axes));
  const KernelPtr kernel = makeReduce(specOf(kind, space, axes, in.layout(), outLayout));
  Buffer out(outLayout), again(outLayout);
  setThreadCount(1);
  runKernel(*kernel, {in.data(), out.data()});
  setThreadCount(2);
  runKernel(*kernel, {in.data(), again.data()});
  setThreadCount(1);
  ASSERT_TRUE(out == again) << "threads";
  ASSERT_TRUE(out.marginsIntact());
  const double unit = outType == DType::kFloat16 ? 0x1p-11 : outType == DType::kFloat64 ? 0x1p-48 : 0x1p-20;
  for (const auto& [i, values] : gather(space, axes, in)) {
    double expected = finish(kind, values);
    if (outType == DType::kFloat16 && std::fabs(expected) >= 65520) expected *= HUGE_VAL;
    const double actual = readElement(outType, out.data() + i * popxl::sizeOf(outType));
    if (std::isnan(expected) || std::isinf(expected)) {
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(actual) : actual == expected)
          << i << ": " << actual << " " << expected;
      continue;
    }
    const double factor = kind == Reduction::kProd ? static_cast<double>(values.size()) : 1;
    const double bound = unit * scaleOf(kind, values) * factor + 1e-37;
    ASSERT_NEAR(actual, expected, bound) << i << " of " << toString(space) << " over " << toString(axes);
  }
}

/// Factors whose products neither overflow nor vanish.
void moveNearOne(Buffer& b) {
  for (int64_t i = 0; i < b.layout().numElements(); ++i) {
    if (b.layout().dtype == DType::kFloat32) b.as<float>()[i] = 1 + b.as<float>()[i] * 0.001f;
    if (b.layout().dtype == DType::kFloat64) b.as<double>()[i] = 1 + b.as<double>()[i] * 0.001;
    if (b.layout().dtype == DType::kFloat16)
      b.as<uint16_t>()[i] = floatToHalf(1 + halfToFloat(b.as<uint16_t>()[i]) * 0.01f);
  }
}

struct Case {
  Shape space;
  std::vector<int64_t> axes;
};

std::vector<Case> cases() {
  std::vector<Case> out = {
      {{}, {}},
      {{5}, {}},
      {{5, 7}, {}},
      {{1}, {0}},
      {{100000}, {0}},
      {{8192}, {0}},
      {{8193}, {0}},
      {{3, 20000}, {1}},
      {{1000, 130}, {1}},
      {{1000, 4}, {1}},
      {{1000, 33}, {1}},
      {{1000, 130}, {0}},
      {{7, 10000}, {0}},
      {{70000, 3}, {0}},
      {{300, 4, 5}, {1}},
      {{600, 17}, {0}},
      {{16, 6, 5, 7}, {0, 2, 3}},
      {{16, 6, 5, 7}, {1}},
      {{16, 6, 5, 7}, {0, 1, 2, 3}},
      {{4, 1, 33}, {1, 2}},
      {{4, 1, 33}, {0}},
      {{2, 3, 4, 20, 2}, {1, 3}},
  };
  for (int64_t n = 2; n < 70; ++n) {
    out.push_back({{3, n}, {1}});
    out.push_back({{n, 19}, {0}});
  }
  return out;
}

TEST(Reduce, AllKindsAgainstFloat64) {
  for (const Case& c : cases()) {
    for (const Reduction kind : kKinds) {
      SCOPED_TRACE(::testing::Message() << toString(c.space) << " over " << toString(c.axes) << " kind "
                                        << static_cast<int>(kind));
      for (const DType t : {DType::kFloat32, DType::kFloat16, DType::kFloat64}) {
        Buffer in(Layout(t, c.space));
        std::mt19937_64 rng(3);
        fillRandom(in, rng);
        if (kind == Reduction::kProd) moveNearOne(in);
        expectNear(kind, c.space, c.axes, in, t);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reduce, MachineCodeGivesTheBitsOfTiles) {
  for (const Case& c : cases()) {
    for (const Reduction kind : {Reduction::kL1, Reduction::kLogSumExp}) {
      for (const DType t : {DType::kFloat32, DType::kFloat16}) {
        const Layout kept(t, keptShape(c.space, c.axes));
        Buffer in(Layout(t, c.space)), best(kept), tiles(kept);
        std::mt19937_64 rng(5);
        fillRandom(in, rng);
        for (const Backend backend : {Backend::kBest, Backend::kTiles}) {
          ReduceSpec spec{.kind = kind,
                          .expr = {},
                          .space = c.space,
                          .inputs = {in.layout()},
                          .axes = c.axes,
                          .out = kept};
          spec.expr.outputs() = {input(spec.expr, 0, computeType(t)).id};
          Buffer& out = backend == Backend::kBest ? best : tiles;
          runKernel(*makeReduce(std::move(spec), backend), {in.data(), out.data()});
        }
        ASSERT_TRUE(best == tiles) << toString(c.space) << " over " << toString(c.axes);
      }
    }
  }
}

TEST(Reduce, SpecialValues) {
  for (const Reduction kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    for (const Case& c : {Case{{40, 70}, {1}}, Case{{70, 40}, {0}}, Case{{40, 5}, {1}}}) {
      Buffer in(Layout(DType::kFloat32, c.space));
      std::mt19937_64 rng(9);
      fillRandom(in, rng, true);
      // One row of each infinity alone.
      for (int64_t i = 0; i < c.space[1]; ++i) {
        in.as<float>()[i] = -std::numeric_limits<float>::infinity();
        in.as<float>()[c.space[1] + i] = std::numeric_limits<float>::infinity();
      }
      expectNear(kind, c.space, c.axes, in, DType::kFloat32);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Reduce, StridedAndBroadcastInputs) {
  const Shape space = {30, 20, 40};
  const Layout layouts[] = {Layout(DType::kFloat32, space, {1, 1200, 30}), Layout(DType::kFloat32, {20, 1}),
                            Layout(DType::kFloat32, space, {1600, 80, 2})};
  for (const Layout& l : layouts) {
    for (const std::vector<int64_t>& axes :
         std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1}}) {
      Buffer in(l);
      std::mt19937_64 rng(4);
      fillRandom(in, rng);
      for (const Reduction kind : {Reduction::kSum, Reduction::kMax, Reduction::kLogSumExp}) {
        expectNear(kind, space, axes, in, DType::kFloat32);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reduce, ExpressionOfTwoInputsIntoAStridedOutput) {
  const Shape space = {50, 300};
  ReduceSpec spec{.kind = Reduction::kSum,
                  .expr = {},
                  .space = space,
                  .inputs = {Layout(DType::kFloat32, space), Layout(DType::kFloat16, {300})},
                  .axes = {0},
                  .out = Layout(DType::kFloat16, {1, 300}, {7, 2})};
  const Val x = input(spec.expr, 0, VType::kF32), y = input(spec.expr, 1, VType::kF32);
  spec.expr.outputs() = {(x * y + 1.0).id};
  Buffer a(spec.inputs[0]), b(spec.inputs[1]), out(spec.out);
  std::mt19937_64 rng(5);
  fillRandom(a, rng);
  fillRandom(b, rng);
  runKernel(*makeReduce(spec), {a.data(), b.data(), out.data()});
  for (int64_t j = 0; j < 300; ++j) {
    double expected = 0, scale = 0;
    for (int64_t i = 0; i < 50; ++i) {
      const double term =
          static_cast<double>(a.as<float>()[i * 300 + j]) * halfToFloat(b.as<uint16_t>()[j]) + 1;
      expected += term;
      scale += std::fabs(term);
    }
    ASSERT_NEAR(halfToFloat(out.as<uint16_t>()[2 * j]), expected,
                std::fabs(expected) * 0x1p-11 + scale * 0x1p-21);
  }
}

TEST(Reduce, IntegersAreExact) {
  const Case shapes[] = {{{1000}, {0}}, {{40, 300}, {1}}, {{300, 40}, {0}}, {{9, 3}, {1}}};
  for (const DType t :
       {DType::kInt8, DType::kInt32, DType::kUInt16, DType::kInt64, DType::kUInt64, DType::kBool}) {
    for (const Case& c : shapes) {
      Buffer in(Layout(t, c.space));
      std::mt19937_64 rng(6);
      fillRandom(in, rng);
      const Layout out(t, keptShape(c.space, c.axes));
      const auto run = [&](Reduction kind) {
        Buffer result(out);
        runKernel(*makeReduce(specOf(kind, c.space, c.axes, in.layout(), out)), {in.data(), result.data()});
        return result;
      };
      Buffer sums = run(Reduction::kSum), highest = run(Reduction::kMax), means = run(Reduction::kMean);
      const int64_t rows = c.axes[0] == 0 ? (c.space.size() == 1 ? 1 : c.space[1]) : c.space[0];
      const int64_t count = numElements(c.space) / rows;
      for (int64_t r = 0; r < rows; ++r) {
        uint64_t sum = 0, most = 0;
        for (int64_t k = 0; k < count; ++k) {
          const int64_t element = c.axes[0] == 0 ? k * rows + r : r * count + k;
          uint64_t v = 0;
          const auto size = static_cast<size_t>(popxl::sizeOf(t));
          std::memcpy(&v, in.data() + element * popxl::sizeOf(t), size);
          if (isSigned(t))
            v = static_cast<uint64_t>(static_cast<int64_t>(v << (64 - 8 * size)) >> (64 - 8 * size));
          const bool more = isSigned(t) ? static_cast<int64_t>(v) > static_cast<int64_t>(most) : v > most;
          most = k == 0 || more ? v : most;
          sum += v;
        }
        const auto same = [&](Buffer& b, uint64_t expected) {
          return std::memcmp(b.data() + r * popxl::sizeOf(t), &expected,
                             static_cast<size_t>(popxl::sizeOf(t))) == 0;
        };
        ASSERT_TRUE(same(sums, t == DType::kBool ? (sum != 0) : sum)) << nameOf(t);
        ASSERT_TRUE(same(highest, most)) << nameOf(t);
        if (t == DType::kBool) continue;
        const uint64_t mean = isSigned(t) ? static_cast<uint64_t>(static_cast<int64_t>(sum) / count)
                                          : sum / static_cast<uint64_t>(count);
        ASSERT_TRUE(same(means, mean)) << nameOf(t);
      }
    }
  }
}

TEST(Reduce, NothingToReduceGivesTheNeutralElement) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::map<Reduction, double> expected = {{Reduction::kSum, 0},
                                                {Reduction::kMean, std::nan("")},
                                                {Reduction::kMax, -infinity},
                                                {Reduction::kMin, infinity},
                                                {Reduction::kProd, 1},
                                                {Reduction::kSumSquare, 0},
                                                {Reduction::kL1, 0},
                                                {Reduction::kL2, 0},
                                                {Reduction::kLogSum, -infinity},
                                                {Reduction::kLogSumExp, -infinity}};
  for (const Case& c : {Case{{3, 0}, {1}}, Case{{0, 20}, {0}}}) {
    for (const auto& [kind, value] : expected) {
      const Layout out(DType::kFloat32, keptShape(c.space, c.axes));
      Buffer in(Layout(DType::kFloat32, c.space)), result(out);
      runKernel(*makeReduce(specOf(kind, c.space, c.axes, in.layout(), out)), {in.data(), result.data()});
      for (int64_t i = 0; i < out.numElements(); ++i) {
        const float actual = result.as<float>()[i];
        EXPECT_TRUE(std::isnan(value) ? std::isnan(actual) : actual == value)
            << static_cast<int>(kind) << ": " << actual;
      }
    }
  }
  const Layout out(DType::kInt32, {1});
  Buffer in(Layout(DType::kInt32, {0})), result(out);
  runKernel(*makeReduce(specOf(Reduction::kMax, {0}, {0}, in.layout(), out)), {in.data(), result.data()});
  EXPECT_EQ(*result.as<int32_t>(), std::numeric_limits<int32_t>::lowest());
  // No outputs at all.
  Buffer none(Layout(DType::kFloat32, {0, 3}));
  Buffer noResult(Layout(DType::kFloat32, {0, 1}));
  runKernel(*makeReduce(specOf(Reduction::kSum, {0, 3}, {1}, none.layout(), noResult.layout())),
            {none.data(), noResult.data()});
  EXPECT_TRUE(noResult.marginsIntact());
}

/// The tree has the same shape for every vector length, so all targets agree bit for bit.
TEST(Reduce, TargetsAgree) {
  for (const Case& c :
       {Case{{100, 1000}, {1}}, Case{{1000, 100}, {0}}, Case{{50000}, {0}}, Case{{500, 20}, {1}}}) {
    Buffer in(Layout(DType::kFloat32, c.space));
    std::mt19937_64 rng(8);
    fillRandom(in, rng);
    const Layout out(DType::kFloat32, keptShape(c.space, c.axes));
    std::vector<Buffer> results;
    testing::forEachTarget([&] {
      Buffer& result = results.emplace_back(out);
      runKernel(*makeReduce(specOf(Reduction::kSum, c.space, c.axes, in.layout(), out)),
                {in.data(), result.data()});
    });
    for (const Buffer& r : results) EXPECT_TRUE(r == results[0]);
  }
}

}  // namespace
}  // namespace popxl::kernels
