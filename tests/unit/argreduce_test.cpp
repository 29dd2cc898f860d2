#include "kernels/argreduce.h"

#include <limits>
#include <numeric>

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

constexpr std::array kTypes = {DType::kFloat16, DType::kFloat32, DType::kFloat64,
                               DType::kInt8,    DType::kInt32,   DType::kInt64,
                               DType::kUInt8,   DType::kUInt32,  DType::kUInt64};
const double kNan = std::numeric_limits<double>::quiet_NaN();

/// Indices of each row along the axis in the order wanted: stable, NaN above everything.
std::vector<int64_t> ordered(const TestTensor& x, const AxisView& v, int64_t o, int64_t k, bool largest) {
  std::vector<int64_t> order(static_cast<size_t>(v.n));
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int64_t i) {
    const double value = x.get(v.at(o, i, k));
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return largest ? key(a) > key(b) : key(a) < key(b); });
  return order;
}

void fillWithTies(TestTensor& x, Random& random) {
  const DType dtype = x.layout().dtype;
  x.fillIntegers(random.rng, isSigned(dtype) ? -5 : 0, 5);
  if (isFloat(dtype) && random.integer(0, 2) == 0) x.set(random.integer(0, x.size() - 1), kNan);
}

TEST(ArgReduce, FirstOfTheBestAndNanFirst) {
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 4, seed % 9 == 0 ? 30 : 7);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    Shape reduced = shape;
    reduced[static_cast<size_t>(axis)] = 1;
    TestTensor x(
        makeLayout(kTypes[seed % kTypes.size()], shape, static_cast<int>(random.integer(0, 3)), random.rng));
    TestTensor out(Layout(seed % 2 == 0 ? DType::kInt32 : DType::kUInt32, reduced));
    fillWithTies(x, random);
    for (const bool largest : {true, false}) {
      run(largest ? makeArgMax(x.layout(), out.layout(), axis) : makeArgMin(x.layout(), out.layout(), axis),
          {&x, &out});
      const AxisView v(shape, axis);
      std::vector<double> want;
      for (int64_t o = 0; o < v.outer; ++o) {
        for (int64_t k = 0; k < v.inner; ++k) {
          int64_t best = 0;
          for (int64_t i = v.n; i-- > 0;) {  // from the end, so that the first of equal ones stays
            const double a = x.get(v.at(o, i, k)), b = x.get(v.at(o, best, k));
            if (std::isnan(a) || (!std::isnan(b) && (largest ? a > b : a < b)) || a == b) best = i;
          }
          want.push_back(static_cast<double>(best));
        }
      }
      expectNear(out, want, 0, largest ? "argmax" : "argmin");
    }
  }
}

TEST(ArgReduce, KnownCases) {
  TestTensor x(Layout(DType::kFloat32, {2, 4})), out(Layout(DType::kInt64, {2, 1}));
  x.fill({1, 3, 3, 2, 5, kNan, 7, kNan});
  run(makeArgMax(x.layout(), out.layout(), 1), {&x, &out});
  expectNear(out, {1, 1}, 0, "argmax");
  run(makeArgMin(x.layout(), out.layout(), 1), {&x, &out});
  expectNear(out, {0, 1}, 0, "argmin");
}

TEST(ArgReduce, LongRows) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32}) {
    for (const int64_t n : {1, 15, 16, 33, 1023, 1024, 1025, 3000}) {
      TestTensor x(Layout(dtype, {1, n})), out(Layout(DType::kInt64, {1, 1}));
      const auto expectAt = [&](int64_t at, bool largest) {
        run(largest ? makeArgMax(x.layout(), out.layout(), 1) : makeArgMin(x.layout(), out.layout(), 1),
            {&x, &out});
        expectNear(out, {static_cast<double>(at)}, 0, largest ? "argmax" : "argmin");
      };
      for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
        x.fill(std::vector<double>(static_cast<size_t>(n), isFloat(dtype) ? -infinity : -7));
        expectAt(0, true);
        expectAt(0, false);
        x.set(at, 3);
        x.set(n - 1, 3);
        expectAt(at, true);
        if (!isFloat(dtype)) continue;
        x.set(n - 1, kNan);
        x.set(at, kNan);
        expectAt(at, true);
        expectAt(at, false);
      }
    }
  }
}

TEST(TopK, MatchesStableSort) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    Shape shape = random.shape(1, 3, 9);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    const auto d = static_cast<size_t>(axis);
    if (seed % 10 == 0) shape[d] = 1000;
    Shape best = shape;
    best[d] = random.integer(1, shape[d]);
    const DType dtype = kTypes[seed % kTypes.size()];
    const bool largest = seed % 2 == 0;
    TestTensor x(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 2)), random.rng));
    TestTensor values(makeLayout(dtype, best, static_cast<int>(random.integer(0, 2)), random.rng));
    TestTensor indices(Layout(DType::kInt32, best));
    fillWithTies(x, random);
    run(makeTopK(x.layout(), values.layout(), indices.layout(), axis, largest), {&x, &values, &indices});
    const AxisView v(shape, axis), w(best, axis);
    std::vector<double> wantValues(static_cast<size_t>(values.size())), wantIndices = wantValues;
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t k = 0; k < v.inner; ++k) {
        const std::vector<int64_t> order = ordered(x, v, o, k, largest);
        for (int64_t i = 0; i < w.n; ++i) {
          wantIndices[static_cast<size_t>(w.at(o, i, k))] =
              static_cast<double>(order[static_cast<size_t>(i)]);
          wantValues[static_cast<size_t>(w.at(o, i, k))] = x.get(v.at(o, order[static_cast<size_t>(i)], k));
        }
      }
    }
    expectNear(values, wantValues, 0, "top values");
    expectNear(indices, wantIndices, 0, "top indices");
  }
}

TEST(Median, IsTheLowerMiddle) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 3, 12);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    Shape reduced = shape;
    reduced[static_cast<size_t>(axis)] = 1;
    const DType dtype = kTypes[seed % kTypes.size()];
    TestTensor x(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 2)), random.rng));
    TestTensor values(Layout(dtype, reduced)), indices(Layout(DType::kInt32, reduced));
    fillWithTies(x, random);
    run(makeMedian(x.layout(), values.layout(), indices.layout(), axis), {&x, &values, &indices});
    const AxisView v(shape, axis);
    std::vector<double> wantValues, wantIndices;
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t k = 0; k < v.inner; ++k) {
        const int64_t i = ordered(x, v, o, k, false)[static_cast<size_t>((v.n - 1) / 2)];
        wantIndices.push_back(static_cast<double>(i));
        wantValues.push_back(x.get(v.at(o, i, k)));
      }
    }
    expectNear(values, wantValues, 0, "median");
    expectNear(indices, wantIndices, 0, "median index");
  }
}

/// Numbers of every size and sign, with what is odd among them.
void fillWidely(TestTensor& x, Random& random) {
  const DType dtype = x.layout().dtype;
  const double infinity = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < x.size(); ++i) {
    const double size =
        std::ldexp(random.integer(1 << 20, 1 << 21), static_cast<int>(random.integer(-160, 60)));
    const double odd[] = {kNan, infinity, -infinity, 0.0, -0.0, 1.0, 1.0};
    const double number = random.integer(0, 3) == 0   ? odd[random.integer(0, 6)]
                          : random.integer(0, 1) == 0 ? size
                                                      : -size;
    const double low = dtype == DType::kInt32 ? -0x1p31 : 0,
                 high = dtype == DType::kInt32 ? 0x1p31 - 1 : 0x1p32 - 1;
    x.set(i, isFloat(dtype)              ? number
             : random.integer(0, 3) == 0 ? low
                                         : std::clamp(std::floor(number == number ? number : 7), low, high));
  }
}

TEST(Median, OfLongRowsOfAnyNumbers) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const int64_t n = random.integer(1, 3000);
    const DType dtype = std::array{DType::kFloat32, DType::kInt32, DType::kUInt32}[seed % 3];
    TestTensor x(Layout(dtype, {2, n})), values(Layout(dtype, {2, 1})),
        indices(Layout(DType::kInt32, {2, 1}));
    fillWidely(x, random);
    run(makeMedian(x.layout(), values.layout(), indices.layout(), 1), {&x, &values, &indices});
    for (int64_t row = 0; row < 2; ++row) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), row * n);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return std::isnan(x.get(b)) ? !std::isnan(x.get(a)) : x.get(a) < x.get(b);
      });
      const int64_t want = order[static_cast<size_t>((n - 1) / 2)];
      EXPECT_EQ(indices.get(row), static_cast<double>(want - row * n)) << "seed " << seed;
      EXPECT_TRUE(values.get(row) == x.get(want) || std::isnan(x.get(want))) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
