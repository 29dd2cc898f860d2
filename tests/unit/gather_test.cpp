#include "kernels/gather.h"

#include <limits>

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

constexpr std::array kIndexTypes = {DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt16,
                                    DType::kInt8};
constexpr std::array kMoved = {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64};

Shape gathered(const Shape& t, const Shape& indices, int64_t axis) {
  Shape out(t.begin(), t.begin() + axis);
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), t.begin() + axis + 1, t.end());
  return out;
}

/// Index as makeGather takes it: -1 for "zero".
int64_t place(double index, int64_t n, bool zero) {
  if (index >= 0 && index < static_cast<double>(n)) return static_cast<int64_t>(index);
  return zero ? -1 : index < 0 ? 0 : n - 1;
}

struct GatherCase {
  explicit GatherCase(Random& random, DType dtype, bool strided = true)
      : shape(random.shape(1, 4, 8)),
        axis(random.integer(0, static_cast<int64_t>(shape.size()) - 1)),
        zero(random.integer(0, 1) == 0),
        type(kIndexTypes[static_cast<size_t>(random.integer(0, 4))]),
        t(makeLayout(dtype, shape, strided ? static_cast<int>(random.integer(0, 3)) : 0, random.rng)),
        indices(makeLayout(type, random.shape(0, 3, 4), static_cast<int>(random.integer(0, 2)), random.rng)),
        out(makeLayout(dtype, gathered(shape, indices.layout().shape, axis),
                       static_cast<int>(random.integer(0, 2)), random.rng)) {
    const int64_t n = shape[static_cast<size_t>(axis)];
    indices.fillIntegers(random.rng, isSigned(type) ? -3 : 0, n + 2);
  }
  Shape shape;
  int64_t axis;
  bool zero;
  DType type;
  TestTensor t, indices, out;
};

TEST(Gather, MatchesReference) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    GatherCase c(random, kMoved[seed % 4]);
    c.t.fillIntegers(random.rng, -100, 100);
    run(makeGather(c.t.layout(), c.indices.layout(), c.out.layout(), c.axis, c.zero),
        {&c.t, &c.indices, &c.out});
    const AxisView v(c.shape, c.axis);
    std::vector<double> want;
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t j = 0; j < c.indices.size(); ++j) {
        const int64_t i = place(c.indices.get(j), v.n, c.zero);
        for (int64_t k = 0; k < v.inner; ++k) want.push_back(i < 0 ? 0 : c.t.get(v.at(o, i, k)));
      }
    }
    expectNear(c.out, want, 0, "gather");
  }
}

TEST(Gather, LargeTablesAndHugeIndices) {
  Random random(2);
  TestTensor t(Layout(DType::kFloat32, {500, 96})), indices(Layout(DType::kInt64, {40, 30}));
  TestTensor out(Layout(DType::kFloat32, {40, 30, 96}));
  t.fillIntegers(random.rng, -100, 100);
  indices.fillIntegers(random.rng, 0, 499);
  indices.set(7, 4e18);
  indices.set(8, -4e18);
  run(makeGather(t.layout(), indices.layout(), out.layout(), 0, false), {&t, &indices, &out});
  std::vector<double> want;
  for (int64_t j = 0; j < indices.size(); ++j) {
    for (int64_t k = 0; k < 96; ++k) want.push_back(t.get(place(indices.get(j), 500, false) * 96 + k));
  }
  expectNear(out, want, 0, "gather");
  // The same from a transposed table.
  TestTensor transposed(Layout(DType::kFloat32, {500, 96}, {1, 500}));
  transposed.fill(t.values());
  run(makeGather(transposed.layout(), indices.layout(), out.layout(), 0, false),
      {&transposed, &indices, &out});
  expectNear(out, want, 0, "gather from a transposed table");
}

TEST(Gather, GroupsAreGatheredOnTheirOwn) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const int64_t groups = random.integer(1, 4);
    Shape shape = random.shape(2, 4, 6);
    shape[0] = groups;
    const auto axis = random.integer(1, static_cast<int64_t>(shape.size()) - 1);
    const int64_t count = random.integer(1, 9);
    Shape outShape = shape;
    outShape[static_cast<size_t>(axis)] = count;
    const DType dtype = kMoved[seed % 4];
    TestTensor t(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 2)), random.rng));
    TestTensor indices(Layout(DType::kInt32, {groups, count})), out(Layout(dtype, outShape));
    t.fillIntegers(random.rng, -100, 100);
    indices.fillIntegers(random.rng, -1, shape[static_cast<size_t>(axis)]);
    run(makeGroupedGather(t.layout(), indices.layout(), out.layout(), axis, true), {&t, &indices, &out});
    const AxisView v(shape, axis), w(outShape, axis);
    std::vector<double> want(static_cast<size_t>(out.size()));
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t i = place(indices.get(o / (v.outer / groups) * count + j), v.n, true);
        for (int64_t k = 0; k < v.inner; ++k) {
          want[static_cast<size_t>(w.at(o, j, k))] = i < 0 ? 0 : t.get(v.at(o, i, k));
        }
      }
    }
    expectNear(out, want, 0, "grouped gather");
  }
}

std::vector<double> scatterAdded(std::vector<double> start, const TestTensor& values,
                                 const TestTensor& indices, const Shape& shape, int64_t axis, bool zero,
                                 double factor) {
  const AxisView v(shape, axis);
  for (int64_t o = 0; o < v.outer; ++o) {
    for (int64_t j = 0; j < indices.size(); ++j) {
      const int64_t i = place(indices.get(j), v.n, zero);
      for (int64_t k = 0; k < v.inner && i >= 0; ++k) {
        start[static_cast<size_t>(v.at(o, i, k))] +=
            factor * values.get((o * indices.size() + j) * v.inner + k);
      }
    }
  }
  return start;
}

TEST(Gather, GradientAddsUpWhatWasGathered) {
  constexpr std::array kTypes = {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kInt32,
                                 DType::kUInt64};
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const DType dtype = kTypes[seed % 5];
    GatherCase c(random, dtype);
    if (isInt(dtype)) {
      c.out.fillIntegers(random.rng, isSigned(dtype) ? -9 : 0, 9);
    } else {
      c.out.fillUniform(random.rng, -1, 1);
    }
    run(makeGatherGrad(c.out.layout(), c.indices.layout(), c.t.layout(), c.axis, c.zero),
        {&c.out, &c.indices, &c.t});
    const std::vector<double> zeros(static_cast<size_t>(c.t.size()), 0);
    expectNear(c.t, scatterAdded(zeros, c.out, c.indices, c.shape, c.axis, c.zero, 1),
               isInt(dtype) ? 0 : toleranceOf(dtype), "gather gradient");
  }
}

TEST(Gather, LargeGradientsSplitByColumnsAndByRange) {
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    for (const Shape& shape : {Shape{60, 512}, Shape{700, 3}, Shape{2, 300, 40}}) {
      Random random(8);
      const int64_t axis = static_cast<int64_t>(shape.size()) - 2;
      TestTensor dt(Layout(dtype, shape)), indices(Layout(DType::kInt32, {20000 / shape.back() + 2000}));
      TestTensor dy(Layout(dtype, gathered(shape, indices.layout().shape, axis)));
      indices.fillIntegers(random.rng, 0, shape[static_cast<size_t>(axis)] - 1);
      dy.fillUniform(random.rng, -1, 1);
      run(makeGatherGrad(dy.layout(), indices.layout(), dt.layout(), axis), {&dy, &indices, &dt});
      const std::vector<double> zeros(static_cast<size_t>(dt.size()), 0);
      expectNear(dt, scatterAdded(zeros, dy, indices, shape, axis, false, 1), 4 * toleranceOf(dtype),
                 "gradient");
    }
  }
}

TEST(Gather, ScatterAdd) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const DType dtype = kFloats[seed % 3];
    GatherCase c(random, dtype, false);
    c.t.fillUniform(random.rng, -1, 1);
    c.out.fillUniform(random.rng, -1, 1);
    const std::vector<double> want =
        scatterAdded(c.t.values(), c.out, c.indices, c.shape, c.axis, false, 0.5);
    // float16 rounds at every addition.
    const double tolerance = (dtype == DType::kFloat16 ? 16 : 1) * toleranceOf(dtype);
    TestTensor other(makeLayout(dtype, c.shape, static_cast<int>(seed % 3), random.rng));
    run(makeScatterAdd(c.t.layout(), c.indices.layout(), c.out.layout(), other.layout(), c.axis, 0.5),
        {&c.t, &c.indices, &c.out, &other});
    expectNear(other, want, tolerance, "scatter add");
    run(makeScatterAdd(c.t.layout(), c.indices.layout(), c.out.layout(), c.t.layout(), c.axis, 0.5),
        {&c.t, &c.indices, &c.out, &c.t});
    expectNear(c.t, want, tolerance, "scatter add in place");
  }
}

/// Positions of `part` within `whole` with the axis coordinate replaced; -1 when it is out of range.
int64_t target(const Shape& part, const Shape& whole, int64_t axis, int64_t position, double index) {
  const Strides strides = contiguousStrides(whole);
  int64_t at = 0;
  for (size_t d = part.size(); d-- > 0;) {
    const int64_t coordinate = position % part[d];
    position /= part[d];
    if (static_cast<int64_t>(d) != axis) at += coordinate * strides[d];
  }
  const auto d = static_cast<size_t>(axis);
  if (index < 0 || index >= static_cast<double>(whole[d])) return -1;
  return at + static_cast<int64_t>(index) * strides[d];
}

TEST(Scatter, LastOneWins) {
  for (uint32_t seed = 1; seed <= 80; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 4, seed % 10 == 0 ? 20 : 6);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    Shape part = shape;
    for (int64_t& d : part) d = random.integer(1, d);
    part[static_cast<size_t>(axis)] = random.integer(1, 9);
    const int64_t n = shape[static_cast<size_t>(axis)];
    const DType dtype = kMoved[seed % 4];
    const auto kind = [&] { return static_cast<int>(random.integer(0, 2)); };
    TestTensor t(makeLayout(dtype, shape, kind(), random.rng)),
        out(makeLayout(dtype, shape, kind(), random.rng));
    TestTensor values(makeLayout(dtype, part, kind(), random.rng)),
        indices(makeLayout(DType::kInt32, part, kind(), random.rng));
    t.fillIntegers(random.rng, -100, 100);
    values.fillIntegers(random.rng, -100, 100);
    indices.fillIntegers(random.rng, -n - 1, n);
    std::vector<double> want = t.values();
    for (int64_t p = 0; p < values.size(); ++p) {
      const double index = indices.get(p) < 0 ? indices.get(p) + static_cast<double>(n) : indices.get(p);
      const int64_t at = target(part, shape, axis, p, index);
      if (at >= 0) want[static_cast<size_t>(at)] = values.get(p);
    }
    run(makeScatter(t.layout(), indices.layout(), values.layout(), out.layout(), axis),
        {&t, &indices, &values, &out});
    expectNear(out, want, 0, "scatter");
  }
}

TEST(Scatter, Reductions) {
  constexpr std::array kTypes = {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kInt32};
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    const auto reduction = static_cast<ScatterReduction>(seed % 5);
    const DType dtype = kTypes[seed / 5 % 4];
    const Shape shape = random.shape(1, 3, 6);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    Shape data = shape;
    data[static_cast<size_t>(axis)] = random.integer(1, 8);
    const bool hasInitial = random.integer(0, 1) == 0;
    TestTensor values(makeLayout(dtype, data, static_cast<int>(random.integer(0, 2)), random.rng));
    Layout indexLayout(DType::kInt32, data);
    if (random.integer(0, 1) == 0) {  // the same index along every other dimension
      std::fill(indexLayout.strides.begin(), indexLayout.strides.end(), 0);
      indexLayout.strides[static_cast<size_t>(axis)] = 1;
    }
    TestTensor indices(indexLayout), initial(Layout(dtype, shape)), out(Layout(dtype, shape));
    values.fillIntegers(random.rng, -3, 3);
    initial.fillIntegers(random.rng, -3, 3);
    indices.fillIntegers(random.rng, -1, shape[static_cast<size_t>(axis)]);
    std::vector<double> want(static_cast<size_t>(out.size()), reduction == ScatterReduction::kMul ? 1 : 0);
    if (hasInitial) want = initial.values();
    std::vector<bool> seen(want.size(), hasInitial);
    for (int64_t p = 0; p < values.size(); ++p) {
      const int64_t at = target(data, shape, axis, p, indices.get(p));
      if (at < 0) continue;
      double& w = want[static_cast<size_t>(at)];
      const double v = values.get(p);
      switch (reduction) {
        case ScatterReduction::kSum:
          w += v;
          break;
        case ScatterReduction::kMul:
          w *= v;
          break;
        case ScatterReduction::kMax:
          w = seen[static_cast<size_t>(at)] ? std::max(w, v) : v;
          break;
        case ScatterReduction::kMin:
          w = seen[static_cast<size_t>(at)] ? std::min(w, v) : v;
          break;
        case ScatterReduction::kNone:
          w = v;
          break;
      }
      seen[static_cast<size_t>(at)] = true;
    }
    const auto maybe = hasInitial ? std::optional<Layout>(initial.layout()) : std::nullopt;
    std::vector<TestTensor*> operands = {&values, &indices};
    if (hasInitial) operands.push_back(&initial);
    operands.push_back(&out);
    run(makeScatterReduce(values.layout(), indices.layout(), maybe, out.layout(), axis, reduction), operands);
    expectNear(out, want, 0, "scatter reduce");
  }
}

TEST(Onehot, SetsOneClassAlongAnyAxis) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 4, 6);
    const auto axis = random.integer(0, static_cast<int64_t>(shape.size()) - 1);
    Shape rest = shape;
    rest.erase(rest.begin() + axis);
    const DType dtype = kMoved[seed % 4];
    TestTensor indices(makeLayout(DType::kInt32, rest, static_cast<int>(random.integer(0, 2)), random.rng));
    TestTensor values(Layout(dtype, {2})),
        out(makeLayout(dtype, shape, static_cast<int>(random.integer(0, 2)), random.rng));
    values.fill({-2, 5});
    const AxisView v(shape, axis);
    indices.fillIntegers(random.rng, -v.n - 2, v.n + 1);
    run(makeOnehot(indices.layout(), values.layout(), out.layout(), axis), {&indices, &values, &out});
    std::vector<double> want(static_cast<size_t>(out.size()), -2);
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t k = 0; k < v.inner; ++k) {
        const auto index = static_cast<int64_t>(indices.get(o * v.inner + k));
        const int64_t i = index < 0 ? index + v.n : index;
        if (i >= 0 && i < v.n) want[static_cast<size_t>(v.at(o, i, k))] = 5;
      }
    }
    expectNear(out, want, 0, "onehot");
  }
}

TEST(Dynamic, WindowsAreClampedIntoTheTensor) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const Shape shape = random.shape(1, 4, 7);
    std::vector<int64_t> axes;
    Shape window = shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (random.integer(0, 1) == 0) continue;
      axes.push_back(static_cast<int64_t>(d));
      window[d] = random.integer(1, shape[d]);
    }
    const DType dtype = kMoved[seed % 4];
    const auto kind = [&] { return static_cast<int>(random.integer(0, 3)); };
    TestTensor t(makeLayout(dtype, shape, kind(), random.rng)),
        v(makeLayout(dtype, window, kind(), random.rng));
    TestTensor index(
        Layout(seed % 2 == 0 ? DType::kUInt32 : DType::kInt32, {static_cast<int64_t>(axes.size())}));
    TestTensor slice(makeLayout(dtype, window, kind(), random.rng)),
        out(makeLayout(dtype, shape, kind(), random.rng));
    t.fillIntegers(random.rng, -100, 100);
    v.fillIntegers(random.rng, -100, 100);
    index.fillIntegers(random.rng, seed % 2 == 0 ? 0 : -2, 8);
    // Element of t under each element of the window.
    std::vector<int64_t> under;
    const Strides strides = contiguousStrides(shape);
    for (int64_t p = 0; p < v.size(); ++p) {
      int64_t rest = p, at = 0;
      for (size_t d = shape.size(); d-- > 0;) {
        at += rest % window[d] * strides[d];
        rest /= window[d];
      }
      for (size_t i = 0; i < axes.size(); ++i) {
        const auto d = static_cast<size_t>(axes[i]);
        const auto first = static_cast<int64_t>(index.get(static_cast<int64_t>(i)));
        at += std::clamp<int64_t>(first, 0, shape[d] - window[d]) * strides[d];
      }
      under.push_back(at);
    }
    std::vector<double> sliced, updated = t.values(), padded(updated.size(), 0), zeroed = updated;
    for (int64_t p = 0; p < v.size(); ++p) {
      const auto at = static_cast<size_t>(under[static_cast<size_t>(p)]);
      sliced.push_back(t.get(under[static_cast<size_t>(p)]));
      updated[at] = padded[at] = v.get(p);
      zeroed[at] = 0;
    }
    run(makeDynamicSlice(t.layout(), index.layout(), axes, slice.layout()), {&t, &index, &slice});
    expectNear(slice, sliced, 0, "dynamic slice");
    run(makeDynamicPad(index.layout(), axes, v.layout(), out.layout()), {&index, &v, &out});
    expectNear(out, padded, 0, "dynamic pad");
    run(makeDynamicZero(t.layout(), index.layout(), axes, window, out.layout()), {&t, &index, &out});
    expectNear(out, zeroed, 0, "dynamic zero");
    run(makeDynamicUpdate(t.layout(), index.layout(), axes, v.layout(), out.layout()),
        {&t, &index, &v, &out});
    expectNear(out, updated, 0, "dynamic update");
    run(makeDynamicUpdate(t.layout(), index.layout(), axes, v.layout(), t.layout()), {&t, &index, &v, &t});
    expectNear(t, updated, 0, "dynamic update in place");
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
