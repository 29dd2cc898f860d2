// Elementwise kernels over layouts: tails, broadcasting, strides, in place, several outputs, chunks and
// threads.
#include <algorithm>

#include "base/error.h"
#include "elementwise_testing.h"
#include "kernels/elementwise.h"
#include "kernels/philox.h"

namespace popxl::kernels {
namespace {

using testing::Buffer;
using testing::buffersOf;
using testing::expectEqualBits;
using testing::fillRandom;
using testing::forEachTarget;
using testing::pointers;
using testing::runKernel;
using testing::specOf;

/// A mixture of primitives over three float32 inputs, exact ones only so that bits can be compared.
Val someExpression(Expr& e, Val a, Val b, Val c, int variant) {
  switch (variant % 4) {
    case 0:
      return a + b * c;
    case 1:
      return select(a < b, max(a, c), -b) * 0.25;
    case 2:
      return sqrt(abs(a * b)) - c / 3.0;
    default: {
      const Val bits = (a.bitcast(VType::kU32) + constant(e, VType::kU32, 12345)).bitcast(VType::kF32);
      return select(binary(Prim::kEq, b, b), min(b, c), bits) + a;
    }
  }
}

TEST(ElementwiseLayout, TailsOfEveryLength) {
  forEachTarget([&] {
    for (int64_t n = 0; n <= 70; ++n) {
      for (int variant = 0; variant < 4; ++variant) {
        ElementwiseSpec spec;
        spec.space = Shape{n};
        const Layout l(DType::kFloat32, {n});
        spec.inputs = {l, l, l};
        spec.outputs = {l};
        const Val a = input(spec.expr, 0, VType::kF32), b = input(spec.expr, 1, VType::kF32);
        const Val c = input(spec.expr, 2, VType::kF32);
        spec.expr.outputs() = {someExpression(spec.expr, a, b, c, variant).id};
        std::vector<Buffer> buffers = buffersOf(spec);
        std::mt19937_64 rng(static_cast<uint64_t>(n));
        for (Buffer& b : buffers) fillRandom(b, rng);
        const KernelPtr kernel = makeElementwise(spec);
        runKernel(*kernel, pointers(buffers));
        for (int64_t i = 0; i < n; ++i) {
          const float x = buffers[0].as<float>()[i], y = buffers[1].as<float>()[i],
                      z = buffers[2].as<float>()[i];
          float expected = 0;
          if (variant == 0) expected = x + y * z;
          if (variant == 1) expected = (x < y ? std::max(x, z) : -y) * 0.25f;
          if (variant == 2) expected = std::sqrt(std::fabs(x * y)) - z / 3.0f;
          if (variant == 3) expected = std::min(y, z) + x;
          ASSERT_EQ(buffers[3].as<float>()[i], expected) << n << " variant " << variant << " at " << i;
        }
        ASSERT_TRUE(buffers[3].marginsIntact());
      }
    }
  });
}

/// A position's result may depend neither on its place in a tile, nor on the length of the tensor.
TEST(ElementwiseLayout, BitsDoNotDependOnPosition) {
  const Prim prims[] = {Prim::kExp, Prim::kLog, Prim::kTanh, Prim::kErf, Prim::kSin, Prim::kCos};
  for (const Prim prim : prims) {
    std::vector<float> x(5000), whole(5000);
    std::mt19937 rng(4);
    for (float& v : x) v = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    runKernel(*makeElementwise(specOf(prim, VType::kF32, 5000)),
              {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(whole.data())});
    for (const int64_t n : {1, 3, 17, 100, 1001}) {
      const KernelPtr kernel = makeElementwise(specOf(prim, VType::kF32, n));
      for (int64_t start = 0; start + n <= 5000; start += 977) {
        std::vector<float> part(static_cast<size_t>(n));
        runKernel(*kernel, {reinterpret_cast<std::byte*>(x.data() + start),
                            reinterpret_cast<std::byte*>(part.data())});
        ASSERT_EQ(std::memcmp(part.data(), whole.data() + start, part.size() * 4), 0);
      }
    }
  }
}

/// Random shapes, broadcasting, strides, dtypes and expressions of several outputs against the reference.
struct RandomCase {
  std::mt19937_64 rng;
  ElementwiseSpec spec;

  int64_t draw(int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }

  Layout randomInput(DType dtype) {
    const size_t drop = static_cast<size_t>(draw(3)) == 0
                            ? static_cast<size_t>(draw(static_cast<int64_t>(spec.space.size()) + 1))
                            : 0;
    Shape shape(spec.space.begin() + static_cast<std::ptrdiff_t>(drop), spec.space.end());
    for (int64_t& d : shape) {
      if (draw(5) == 0) d = 1;
    }
    return withStrides(dtype, shape);
  }

  /// Contiguous, or with a permuted order and gaps.
  Layout withStrides(DType dtype, const Shape& shape) {
    if (draw(2) == 0) return Layout(dtype, shape);
    std::vector<size_t> order(shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (draw(2) == 0) std::shuffle(order.begin(), order.end(), rng);
    Strides strides(shape.size(), 0);
    int64_t step = 1 + draw(2);
    for (size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = step;
      step *= std::max<int64_t>(shape[order[i]], 1) + draw(2);
    }
    return Layout(dtype, shape, strides);
  }

  Val randomFloat(std::vector<Val>& pool) {
    return pool[static_cast<size_t>(draw(static_cast<int64_t>(pool.size())))];
  }

  void make(uint64_t seed, bool large) {
    rng.seed(seed);
    const int64_t rank = draw(5);
    for (int64_t i = 0; i < rank; ++i) spec.space.push_back(1 + draw(i == rank - 1 ? 40 : 9));
    if (large) spec.space = Shape{3, 17, 1 + draw(2000)};
    const DType floats[] = {DType::kFloat32, DType::kFloat32, DType::kFloat16, DType::kFloat8_143,
                            DType::kFloat8_152};
    std::vector<Val> pool;
    const int64_t inputs = 1 + draw(4);
    for (int64_t i = 0; i < inputs; ++i) {
      const DType dtype = floats[draw(5)];
      spec.inputs.push_back(randomInput(dtype));
      pool.push_back(input(spec.expr, static_cast<int32_t>(i), VType::kF32, draw(6) == 0 ? 0 : -1));
    }
    const int64_t steps = 1 + draw(20);
    for (int64_t i = 0; i < steps; ++i) {
      const Val a = randomFloat(pool), b = randomFloat(pool);
      switch (draw(9)) {
        case 0:
          pool.push_back(a + b);
          break;
        case 1:
          pool.push_back(a * b);
          break;
        case 2:
          pool.push_back(a - 0.5);
          break;
        case 3:
          pool.push_back(max(a, b));
          break;
        case 4:
          pool.push_back(select(a < b, a, constant(spec.expr, VType::kF32, 0.75)));
          break;
        case 5:
          pool.push_back(roundTo(a, DType::kFloat16));
          break;
        case 6:
          pool.push_back(abs(a));
          break;
        case 7:
          pool.push_back((a.convert(VType::kF64) * b.convert(VType::kF64)).convert(VType::kF32));
          break;
        default:
          pool.push_back(a.bitcast(VType::kI32).convert(VType::kU32).bitcast(VType::kF32) * 2.0);
          break;
      }
    }
    const int64_t outputs = 1 + draw(3);
    for (int64_t j = 0; j < outputs; ++j) {
      const Val value = randomFloat(pool);
      spec.expr.outputs().push_back(value.id);
      spec.outputs.push_back(withStrides(floats[draw(4)], spec.space));
    }
  }
};

/// One position after the other with C floats: what every step rounds to is fixed, so bits must agree.
float evaluateFloat(const ElementwiseSpec& spec, std::vector<Buffer>& buffers, const Shape& at,
                    int32_t output) {
  std::vector<double> values;
  for (const Node& n : spec.expr.nodes()) {
    const auto value = [&](int32_t id) { return values[static_cast<size_t>(id)]; };
    double r = 0;
    switch (n.prim) {
      case Prim::kInput: {
        Buffer& b = buffers[static_cast<size_t>(n.index)];
        const Strides strides = broadcastStrides(b.layout().shape, b.layout().strides, spec.space);
        int64_t element = 0;
        for (size_t d = 0; d < at.size() && n.element < 0; ++d) element += at[d] * strides[d];
        r = testing::readElement(b.layout().dtype, b.data() + element * popxl::sizeOf(b.layout().dtype));
        break;
      }
      case Prim::kConst:
        r = n.number;
        break;
      case Prim::kAdd:
        r = n.type == VType::kF32 ? static_cast<float>(value(n.a)) + static_cast<float>(value(n.b))
                                  : value(n.a) + value(n.b);
        break;
      case Prim::kSub:
        r = static_cast<float>(value(n.a)) - static_cast<float>(value(n.b));
        break;
      case Prim::kMul:
        r = n.type == VType::kF32 ? static_cast<float>(value(n.a)) * static_cast<float>(value(n.b))
                                  : value(n.a) * value(n.b);
        break;
      case Prim::kDiv:
        r = static_cast<float>(value(n.a)) / static_cast<float>(value(n.b));
        break;
      case Prim::kMax:
        r = std::isnan(value(n.a)) || value(n.a) > value(n.b) ? value(n.a) : value(n.b);
        break;
      case Prim::kLt:
        r = value(n.a) < value(n.b);
        break;
      case Prim::kSelect:
        r = value(n.a) != 0 ? value(n.b) : value(n.c);
        break;
      case Prim::kAbs:
        r = std::fabs(value(n.a));
        break;
      case Prim::kRoundTo:
        r = halfToFloat(floatToHalf(static_cast<float>(value(n.a))));
        break;
      case Prim::kConvert:
        r = n.type == VType::kF32 ? static_cast<float>(value(n.a)) : value(n.a);
        break;
      case Prim::kBitcast:
        r = value(n.a);
        break;  // only there and back again
      default:
        ADD_FAILURE() << static_cast<int>(n.prim);
    }
    values.push_back(r);
  }
  return static_cast<float>(values[static_cast<size_t>(output)]);
}

float storedAs(DType t, float v) {
  if (t == DType::kFloat16) return halfToFloat(floatToHalf(v));
  return isFloat8(t) ? float8ToFloat(floatToFloat8(v, t, false), t) : v;
}

TEST(ElementwiseLayout, RandomExpressionsOnRandomLayouts) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomCase c;
    c.make(seed, seed % 20 == 0);
    std::vector<Buffer> buffers = buffersOf(c.spec);
    for (Buffer& b : buffers) fillRandom(b, c.rng, true);
    std::vector<Buffer> again = buffers;
    setThreadCount(1);
    const KernelPtr kernel = makeElementwise(c.spec);
    runKernel(*kernel, pointers(buffers));
    setThreadCount(2);
    runKernel(*kernel, pointers(again));
    for (size_t j = 0; j < c.spec.outputs.size(); ++j) {
      Buffer& out = buffers[c.spec.inputs.size() + j];
      ASSERT_TRUE(out == again[c.spec.inputs.size() + j]) << "threads, seed " << seed;
      ASSERT_TRUE(out.marginsIntact()) << "seed " << seed;
      Shape at(c.spec.space.size(), 0);
      for (int64_t i = 0; i < numElements(c.spec.space); ++i) {
        int64_t element = 0;
        for (size_t d = 0; d < at.size(); ++d) element += at[d] * out.layout().strides[d];
        const DType t = out.layout().dtype;
        const auto actual =
            static_cast<float>(testing::readElement(t, out.data() + element * popxl::sizeOf(t)));
        const float expected = storedAs(t, evaluateFloat(c.spec, buffers, at, c.spec.expr.outputs()[j]));
        ASSERT_TRUE((std::isnan(actual) && std::isnan(expected)) || actual == expected)
            << "seed " << seed << " output " << j << " position " << i << ": " << actual << " " << expected;
        for (size_t d = at.size(); d-- > 0;) {
          if (++at[d] < c.spec.space[d]) break;
          at[d] = 0;
        }
      }
    }
  }
  setThreadCount(1);
}

/// A bias over rows of every short length: read once a chunk where tiles can be a multiple of it.
TEST(ElementwiseLayout, RowsOfEveryLengthPlusBias) {
  for (int64_t n = 1; n <= 70; ++n) {
    const int64_t rows = 20000 / n + 3;
    ElementwiseSpec spec;
    spec.space = Shape{rows, n};
    spec.inputs = {Layout(DType::kFloat32, spec.space), Layout(DType::kFloat32, {n}),
                   Layout(DType::kFloat32, {rows, 1})};
    spec.outputs = {Layout(DType::kFloat32, spec.space)};
    const Val x = input(spec.expr, 0, VType::kF32), bias = input(spec.expr, 1, VType::kF32);
    spec.expr.outputs() = {((x + bias) * input(spec.expr, 2, VType::kF32)).id};
    std::vector<Buffer> b = buffersOf(spec);
    std::mt19937_64 rng(static_cast<uint64_t>(n));
    for (Buffer& buffer : b) fillRandom(buffer, rng);
    runKernel(*makeElementwise(spec), pointers(b));
    for (int64_t i = 0; i < rows * n; ++i) {
      const float expected = (b[0].as<float>()[i] + b[1].as<float>()[i % n]) * b[2].as<float>()[i / n];
      ASSERT_EQ(b[3].as<float>()[i], expected) << n << " at " << i;
    }
  }
}

TEST(ElementwiseLayout, AdamInPlaceOverSeveralChunksAndThreads) {
  for (const int64_t n : {5, 16, 100000, 100007}) {
    ElementwiseSpec spec;
    spec.space = Shape{n};
    const Layout l(DType::kFloat32, {n});
    spec.inputs = {l, l, l, l, Layout(DType::kFloat32, {})};
    spec.outputs = {l, l, l};
    Expr& e = spec.expr;
    const Val w = input(e, 0, VType::kF32), g = input(e, 1, VType::kF32), m = input(e, 2, VType::kF32);
    const Val v = input(e, 3, VType::kF32), rate = input(e, 4, VType::kF32);
    const Val m2 = m * 0.9 + g * 0.1, v2 = v * 0.999 + g * g * 0.001;
    e.outputs() = {(w - rate * m2 / (sqrt(v2) + 1e-8)).id, m2.id, v2.id};
    const KernelPtr kernel = makeElementwise(spec);
    for (const int threads : {1, 2}) {
      setThreadCount(threads);
      std::vector<Buffer> b;
      for (const Layout& layout : spec.inputs) b.emplace_back(layout);
      std::mt19937_64 rng(1);
      for (Buffer& x : b) fillRandom(x, rng);
      for (int64_t i = 0; i < n; ++i) b[3].as<float>()[i] = std::fabs(b[3].as<float>()[i]);
      std::vector<Buffer> before = b;
      runKernel(*kernel, {b[0].data(), b[1].data(), b[2].data(), b[3].data(), b[4].data(), b[0].data(),
                          b[2].data(), b[3].data()});
      for (int64_t i = 0; i < n; ++i) {
        const float G = before[1].as<float>()[i];
        const float M = before[2].as<float>()[i] * 0.9f + G * 0.1f;
        const float V = before[3].as<float>()[i] * 0.999f + G * G * 0.001f;
        ASSERT_EQ(b[2].as<float>()[i], M);
        ASSERT_EQ(b[3].as<float>()[i], V);
        ASSERT_EQ(b[0].as<float>()[i],
                  before[0].as<float>()[i] - *before[4].as<float>() * M / (std::sqrt(V) + 1e-8f));
      }
      for (const Buffer& x : b) ASSERT_TRUE(x.marginsIntact());
    }
  }
  setThreadCount(1);
}

TEST(ElementwiseLayout, SwapInPlace) {
  for (const int64_t n : {7, 64, 1000}) {
    ElementwiseSpec spec;
    spec.space = Shape{n};
    const Layout l(DType::kFloat32, {n});
    spec.inputs = {l, l};
    spec.outputs = {l, l};
    const Val a = input(spec.expr, 0, VType::kF32), b = input(spec.expr, 1, VType::kF32);
    spec.expr.outputs() = {b.id, a.id};
    std::vector<float> x(static_cast<size_t>(n), 1.0f), y(static_cast<size_t>(n), 2.0f);
    auto* px = reinterpret_cast<std::byte*>(x.data());
    auto* py = reinterpret_cast<std::byte*>(y.data());
    runKernel(*makeElementwise(spec), {px, py, px, py});
    EXPECT_EQ(std::count(x.begin(), x.end(), 2.0f), n);
    EXPECT_EQ(std::count(y.begin(), y.end(), 1.0f), n);
    // a := a + b and b := b - a, both of the old values.
    spec.expr.outputs() = {(a + b).id, (b - a).id};
    runKernel(*makeElementwise(spec), {px, py, px, py});
    EXPECT_EQ(std::count(x.begin(), x.end(), 3.0f), n);
    EXPECT_EQ(std::count(y.begin(), y.end(), -1.0f), n);
  }
}

TEST(ElementwiseLayout, StorageTypesWrapAndConvert) {
  const DType types[] = {DType::kInt8,   DType::kInt16,  DType::kInt32,  DType::kInt64, DType::kUInt8,
                         DType::kUInt16, DType::kUInt32, DType::kUInt64, DType::kBool};
  forEachTarget([&] {
    for (const DType t : types) {
      ElementwiseSpec spec;
      spec.space = Shape{3, 111};
      spec.inputs = {Layout(t, spec.space), Layout(t, {111})};
      spec.outputs = {Layout(t, spec.space), Layout(t, spec.space, {1, 3})};
      const Val a = input(spec.expr, 0, computeType(t)), b = input(spec.expr, 1, computeType(t));
      spec.expr.outputs() = {(a * b + a).id, roundTo(a + b, t).id};
      std::vector<Buffer> buffers = buffersOf(spec);
      std::mt19937_64 rng(2);
      for (Buffer& x : buffers) fillRandom(x, rng);
      SCOPED_TRACE(nameOf(t));
      expectEqualBits(spec, buffers);
    }
  });
}

TEST(ElementwiseLayout, RandomBitsArePhiloxOfThePosition) {
  ElementwiseSpec spec;
  spec.space = Shape{7, 9001};
  spec.inputs = {Layout(DType::kUInt32, {2}), Layout(DType::kUInt32, spec.space)};
  spec.outputs = {Layout(DType::kUInt32, spec.space), Layout(DType::kUInt32, spec.space)};
  const Val s0 = input(spec.expr, 0, VType::kU32, 0), s1 = input(spec.expr, 0, VType::kU32, 1);
  spec.expr.outputs() = {philox(s0, s1, 3).id, philox(input(spec.expr, 1, VType::kU32), s1, 1).id};
  std::vector<Buffer> buffers = buffersOf(spec);
  std::mt19937_64 rng(6);
  for (Buffer& b : buffers) fillRandom(b, rng);
  expectEqualBits(spec, buffers);
  const uint32_t* seed = buffers[0].as<uint32_t>();
  for (const int64_t i : {0, 1, 4095, 4097, 63006}) {
    EXPECT_EQ(buffers[2].as<uint32_t>()[i], philox(seed[0], seed[1], static_cast<uint64_t>(i), 3));
  }
}

TEST(ElementwiseLayout, ConstantAndScalarOutputsAreSpread) {
  ElementwiseSpec spec;
  spec.space = Shape{50, 3};
  spec.inputs = {Layout(DType::kFloat32, {4})};
  spec.outputs = {Layout(DType::kFloat32, spec.space), Layout(DType::kFloat16, spec.space)};
  const Val third = input(spec.expr, 0, VType::kF32, 3);
  spec.expr.outputs() = {(third * 2.0 + 1.0).id, constant(spec.expr, VType::kF32, 0.1).id};
  std::vector<Buffer> buffers = buffersOf(spec);
  buffers[0].as<float>()[3] = 5.0f;
  runKernel(*makeElementwise(spec), pointers(buffers));
  for (int i = 0; i < 150; ++i) {
    ASSERT_EQ(buffers[1].as<float>()[i], 11.0f);
    ASSERT_EQ(buffers[2].as<uint16_t>()[i], 0x2e66);  // 0.1 in binary16
  }
}

TEST(ElementwiseLayout, ManyLiveValues) {
  ElementwiseSpec spec;
  spec.space = Shape{1000};
  const Layout l(DType::kFloat32, spec.space);
  spec.inputs = {l};
  spec.outputs = {l};
  const Val x = input(spec.expr, 0, VType::kF32);
  std::vector<Val> live;
  for (int i = 0; i < 400; ++i) live.push_back(x * static_cast<double>(i));
  Val sum = live.back();
  for (int i = 398; i >= 0; --i) sum = sum + live[static_cast<size_t>(i)];
  spec.expr.outputs() = {sum.id};
  std::vector<Buffer> buffers = buffersOf(spec);
  for (int i = 0; i < 1000; ++i) buffers[0].as<float>()[i] = static_cast<float>(i % 8);
  runKernel(*makeElementwise(spec), pointers(buffers));
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(buffers[1].as<float>()[i], static_cast<float>(i % 8) * (399 * 400 / 2));
}

TEST(ElementwiseLayout, ThreadCountIsChecked) {
  EXPECT_THROW(setThreadCount(0), Error);
  setThreadCount(3);
  EXPECT_EQ(threadCount(), 3);
  setThreadCount(1);
}

TEST(ElementwiseLayout, EveryChunkRunsOnce) {
  for (const int threads : {1, 2, 3, 100}) {
    setThreadCount(threads);
    for (const int64_t chunks : {0, 1, 2, 3, 64, 99, 1000}) {
      std::vector<int> hits(static_cast<size_t>(chunks), 0);
      parallelFor(chunks, [&](int64_t i) { hits[static_cast<size_t>(i)]++; });
      EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), chunks) << threads << " threads";
    }
  }
  setThreadCount(1);
}

TEST(Elementwise, LogicOfBooleansThatAreAnyByte) {
  for (const int64_t n : {1, 3, 4, 7, 63, 64, 65, 1000, 70001}) {
    ElementwiseSpec spec;
    spec.space = {n};
    const Layout layout(DType::kBool, {n});
    spec.inputs = {layout, layout};
    spec.outputs = {layout, layout, layout};
    const Val a = input(spec.expr, 0, VType::kU32), b = input(spec.expr, 1, VType::kU32);
    const Val isNot = eq(a, a.constant(0));
    spec.expr.outputs() = {binary(Prim::kAnd, isNot, b).id,
                           binary(Prim::kNe, binary(Prim::kOr, a, b), isNot).id, b.id};
    std::vector<Buffer> buffers = buffersOf(spec);
    std::mt19937_64 rng(11);
    for (Buffer& buffer : buffers) {
      for (int64_t i = 0; i < n; ++i)
        buffer.as<uint8_t>()[i] = static_cast<uint8_t>(rng() % 2 * (rng() % 256));
    }
    expectEqualBits(spec, buffers);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace popxl::kernels
