#include "kernels/attention.h"

#include "rows_testing.h"

namespace popxl::kernels::testing {
namespace {

using Values = std::vector<double>;

/// Sizes of one attention, and its float64 reference on tensors read element by element.
struct Sizes {
  Shape heads;
  int64_t rows, columns, width, depth;

  int64_t count() const { return numElements(heads); }
  Shape with(int64_t a, int64_t b) const {
    Shape shape = heads;
    shape.push_back(a);
    shape.push_back(b);
    return shape;
  }
};

/// out[h, i, j] = sum over x of a(h, i, x) * b(h, x, j).
template <typename A, typename B>
Values product(int64_t heads, int64_t m, int64_t n, int64_t k, const A& a, const B& b) {
  Values out;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x) sum += a(h, i, x) * b(h, x, j);
        out.push_back(sum);
      }
    }
  }
  return out;
}

/// Element (h, i, j) of a tensor or of values of rows x cols per head.
auto elements(const TestTensor& t, int64_t rows, int64_t cols) {
  return [&t, rows, cols](int64_t h, int64_t i, int64_t j) { return t.get((h * rows + i) * cols + j); };
}
auto elements(const Values& v, int64_t rows, int64_t cols) {
  return [&v, rows, cols](int64_t h, int64_t i, int64_t j) {
    return v[static_cast<size_t>((h * rows + i) * cols + j)];
  };
}
template <typename F>
auto flipped(const F& f) {
  return [f](int64_t h, int64_t i, int64_t j) { return f(h, j, i); };
}

void softmaxRows(Values& x, int64_t n) {
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(n)) {
    const auto row = std::span(x).subspan(at, static_cast<size_t>(n));
    const double most = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& v : row) sum += v = std::exp(v - most);
    for (double& v : row) v /= sum;
  }
}

/// Element i of a tensor broadcast to `shape`.
double broadcastGet(const TestTensor& t, const Shape& shape, int64_t i) {
  TestTensor view(Layout(t.layout().dtype, {1}));
  const Shape& own = t.layout().shape;
  int64_t at = 0, step = 1;
  for (size_t back = 1; back <= shape.size(); ++back) {
    const int64_t index = i % shape[shape.size() - back];
    i /= shape[shape.size() - back];
    if (back > own.size()) continue;
    const int64_t size = own[own.size() - back];
    at += (size == 1 ? 0 : index) * step;
    step *= size;
  }
  return t.get(at);
}

double toleranceFor(DType dtype) {
  return dtype == DType::kFloat16 ? 4e-3 : dtype == DType::kFloat32 ? 2e-5 : 1e-12;
}

struct Masks {
  const TestTensor* bias = nullptr;
  const TestTensor* keep = nullptr;
  double scale = 1, fill = 0;
};

Values probabilitiesOf(const Sizes& s, const TestTensor& q, const TestTensor& k, const Masks& masks) {
  Values scores = product(s.count(), s.rows, s.columns, s.width, elements(q, s.rows, s.width),
                          flipped(elements(k, s.columns, s.width)));
  const Shape shape = s.with(s.rows, s.columns);
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    scores[i] *= masks.scale;
    if (masks.bias != nullptr) scores[i] += broadcastGet(*masks.bias, shape, at);
    if (masks.keep != nullptr && broadcastGet(*masks.keep, shape, at) == 0) scores[i] = masks.fill;
  }
  softmaxRows(scores, s.columns);
  return scores;
}

Layout randomLayout(Random& random, DType dtype, const Shape& shape) {
  return makeLayout(dtype, shape, static_cast<int>(random.integer(0, 3)), random.rng);
}

Sizes randomSizes(Random& random) {
  const int64_t most = random.seed % 5 == 0 ? 90 : 20;
  return {random.shape(0, 2, 4), random.seed % 4 == 0 ? 1 : random.integer(1, most), random.integer(1, most),
          random.integer(1, most), random.integer(1, most)};
}

/// Some dimensions of the shape 1, the first ones perhaps left out.
Shape broadcastable(Random& random, Shape shape) {
  for (int64_t& d : shape) d = random.integer(0, 2) == 0 ? 1 : d;
  if (shape.size() > 2) shape.erase(shape.begin(), shape.begin() + random.integer(0, 2));
  return shape;
}

class AttentionTest : public ::testing::TestWithParam<DType> {};

TEST_P(AttentionTest, MatchesReferenceForRandomShapesAndStrides) {
  const DType dtype = GetParam();
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const Sizes s = randomSizes(random);
    TestTensor q(randomLayout(random, dtype, s.with(s.rows, s.width)));
    TestTensor k(randomLayout(random, dtype, s.with(s.columns, s.width)));
    TestTensor v(randomLayout(random, dtype, s.with(s.columns, s.depth)));
    TestTensor out(randomLayout(random, dtype, s.with(s.rows, s.depth)));
    TestTensor p(randomLayout(random, dtype, s.with(s.rows, s.columns)));
    TestTensor bias(randomLayout(random, dtype, broadcastable(random, p.layout().shape)));
    TestTensor keep(randomLayout(random, DType::kBool, broadcastable(random, p.layout().shape)));
    for (TestTensor* t : {&q, &k, &v, &bias}) t->fillUniform(random.rng, -1, 1);
    for (int64_t i = 0; i < keep.size(); ++i) keep.set(i, random.integer(0, 1) != 0 ? 1 : 0);
    Masks masks{nullptr, nullptr, random.integer(0, 1) == 0 ? 1 : 0.3, -1e4};
    std::vector<TestTensor*> tensors = {&q, &k, &v};
    AttentionSpec spec{q.layout(), k.layout(), v.layout(), {}, {}, out.layout(), {}, masks.scale, masks.fill};
    if (seed % 2 == 0) {
      spec.bias = bias.layout();
      masks.bias = &bias;
      tensors.push_back(&bias);
    }
    if (seed % 3 == 0) {
      spec.keep = keep.layout();
      masks.keep = &keep;
      tensors.push_back(&keep);
    }
    tensors.push_back(&out);
    if (random.integer(0, 1) == 0) {
      spec.probabilities = p.layout();
      tensors.push_back(&p);
    }
    run(makeAttention(spec), tensors);
    const Values want = probabilitiesOf(s, q, k, masks);
    if (spec.probabilities) expectNear(p, want, toleranceFor(dtype), "probabilities");
    expectNear(out,
               product(s.count(), s.rows, s.depth, s.columns, elements(want, s.rows, s.columns),
                       elements(v, s.columns, s.depth)),
               toleranceFor(dtype), "attention");
  }
}

TEST_P(AttentionTest, GradientMatchesReferenceForRandomShapesAndStrides) {
  const DType dtype = GetParam();
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const Sizes s = randomSizes(random);
    const Shape rows = s.with(s.rows, s.width), columns = s.with(s.columns, s.width);
    TestTensor q(randomLayout(random, dtype, rows)), dq(randomLayout(random, dtype, rows));
    TestTensor k(randomLayout(random, dtype, columns)), dk(randomLayout(random, dtype, columns));
    TestTensor v(randomLayout(random, dtype, s.with(s.columns, s.depth)));
    TestTensor dv(randomLayout(random, dtype, s.with(s.columns, s.depth)));
    TestTensor p(randomLayout(random, dtype, s.with(s.rows, s.columns)));
    const Shape out = s.with(s.rows, s.depth);
    // The gradient of a sum is one number in all places.
    TestTensor grad(seed % 5 == 0 ? Layout(dtype, out, Strides(out.size(), 0))
                                  : randomLayout(random, dtype, out));
    TestTensor keep(randomLayout(random, DType::kBool, broadcastable(random, p.layout().shape)));
    for (TestTensor* t : {&q, &k, &v, &grad}) t->fillUniform(random.rng, -1, 1);
    p.fillUniform(random.rng, 0, 2.0 / static_cast<double>(s.columns));
    for (int64_t i = 0; i < keep.size(); ++i) keep.set(i, random.integer(0, 1) != 0 ? 1 : 0);
    const double scale = random.integer(0, 1) == 0 ? 1 : 0.3;
    AttentionGradSpec spec{q.layout(),   k.layout(),  v.layout(),  p.layout(),  grad.layout(),
                           std::nullopt, dq.layout(), dk.layout(), dv.layout(), scale};
    std::vector<TestTensor*> tensors = {&q, &k, &v, &p, &grad};
    if (seed % 3 == 0) {
      spec.keep = keep.layout();
      tensors.push_back(&keep);
    }
    tensors.insert(tensors.end(), {&dq, &dk, &dv});
    run(makeAttentionGrad(spec), tensors);

    const auto probability = elements(p, s.rows, s.columns), dOut = elements(grad, s.rows, s.depth);
    Values scores =
        product(s.count(), s.rows, s.columns, s.depth, dOut, flipped(elements(v, s.columns, s.depth)));
    for (size_t at = 0; at < scores.size(); at += static_cast<size_t>(s.columns)) {
      double dot = 0;
      for (int64_t j = 0; j < s.columns; ++j)
        dot += scores[at + static_cast<size_t>(j)] * p.get(static_cast<int64_t>(at) + j);
      for (int64_t j = 0; j < s.columns; ++j) {
        const auto i = static_cast<int64_t>(at) + j;
        const bool masked = spec.keep && broadcastGet(keep, p.layout().shape, i) == 0;
        double& x = scores[static_cast<size_t>(i)];
        x = masked ? 0 : scale * p.get(i) * (x - dot);
      }
    }
    const auto dScores = elements(scores, s.rows, s.columns);
    const double tolerance = toleranceFor(dtype);
    expectNear(dv, product(s.count(), s.columns, s.depth, s.rows, flipped(probability), dOut), tolerance,
               "dv");
    expectNear(dq, product(s.count(), s.rows, s.width, s.columns, dScores, elements(k, s.columns, s.width)),
               tolerance, "dq");
    expectNear(dk,
               product(s.count(), s.columns, s.width, s.rows, flipped(dScores), elements(q, s.rows, s.width)),
               tolerance, "dk");
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AttentionTest, ::testing::ValuesIn(kFloats),
                         [](const auto& info) { return std::string(nameOf(info.param)); });

TEST(Attention, KeysAndValuesBroadcastOverHeads) {
  Random random(3);
  const Sizes s{{2, 3}, 5, 7, 4, 6}, shared{{2, 1}, 5, 7, 4, 6};
  TestTensor q(Layout(DType::kFloat64, s.with(5, 4))), out(Layout(DType::kFloat64, s.with(5, 6)));
  TestTensor k(Layout(DType::kFloat64, shared.with(7, 4))), v(Layout(DType::kFloat64, shared.with(7, 6)));
  for (TestTensor* t : {&q, &k, &v}) t->fillUniform(random.rng, -1, 1);
  run(makeAttention({q.layout(), k.layout(), v.layout(), {}, {}, out.layout(), {}, 0.5, 0}),
      {&q, &k, &v, &out});
  TestTensor wideK(Layout(DType::kFloat64, s.with(7, 4))), wideV(Layout(DType::kFloat64, s.with(7, 6)));
  for (int64_t i = 0; i < wideK.size(); ++i) wideK.set(i, broadcastGet(k, wideK.layout().shape, i));
  for (int64_t i = 0; i < wideV.size(); ++i) wideV.set(i, broadcastGet(v, wideV.layout().shape, i));
  const Values p = probabilitiesOf(s, q, wideK, {nullptr, nullptr, 0.5, 0});
  expectNear(out, product(6, 5, 6, 7, elements(p, 5, 7), elements(wideV, 7, 6)), 1e-12, "attention");
}

TEST(Attention, LargeScoresDoNotOverflow) {
  TestTensor q(Layout(DType::kFloat32, {1, 1})), k(Layout(DType::kFloat32, {2, 1}));
  TestTensor v(Layout(DType::kFloat32, {2, 1})), out(Layout(DType::kFloat32, {1, 1}));
  q.fill({1e3});
  k.fill({1e3, -1e3});
  v.fill({3, 5});
  run(makeAttention({q.layout(), k.layout(), v.layout(), {}, {}, out.layout(), {}, 1, 0}),
      {&q, &k, &v, &out});
  expectNear(out, {3}, 0, "attention");
}

TEST(Attention, EmptySizes) {
  for (const Sizes& s :
       {Sizes{{0}, 2, 3, 4, 5}, Sizes{{2}, 0, 3, 4, 5}, Sizes{{2}, 2, 0, 4, 5}, Sizes{{2}, 2, 3, 0, 5}}) {
    const auto tensor = [](const Shape& shape) { return TestTensor(Layout(DType::kFloat32, shape)); };
    TestTensor q = tensor(s.with(s.rows, s.width)), dq = tensor(q.layout().shape);
    TestTensor k = tensor(s.with(s.columns, s.width)), dk = tensor(k.layout().shape);
    TestTensor v = tensor(s.with(s.columns, s.depth)), dv = tensor(v.layout().shape);
    TestTensor out = tensor(s.with(s.rows, s.depth)), p = tensor(s.with(s.rows, s.columns));
    for (TestTensor* t : {&q, &k, &v, &dq, &dk, &dv, &out, &p})
      t->fill(Values(static_cast<size_t>(t->size()), 1));
    run(makeAttention({q.layout(), k.layout(), v.layout(), {}, {}, out.layout(), p.layout(), 1, 0}),
        {&q, &k, &v, &out, &p});
    const double mean = s.columns == 0 ? 0 : 1;
    expectNear(out, Values(static_cast<size_t>(out.size()), mean), 1e-6, "attention");
    run(makeAttentionGrad({q.layout(),
                           k.layout(),
                           v.layout(),
                           p.layout(),
                           out.layout(),
                           {},
                           dq.layout(),
                           dk.layout(),
                           dv.layout(),
                           1}),
        {&q, &k, &v, &p, &out, &dq, &dk, &dv});
    expectNear(dq, Values(static_cast<size_t>(dq.size()), 0), 1e-6, "dq");
    expectNear(dk, Values(static_cast<size_t>(dk.size()), 0), 1e-6, "dk");
  }
}

}  // namespace
}  // namespace popxl::kernels::testing
