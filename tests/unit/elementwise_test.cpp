// Every primitive on every compute type against float64 libm and exact integers; layouts, tails, in place,
// threads.
#include "kernels/elementwise.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "kernel_testing.h"
#include "kernels/philox.h"

namespace popxl::kernels {
namespace {

using testing::Buffer;
using testing::fillRandom;
using testing::forEachTarget;
using testing::runKernel;
using testing::ulpDistance;

DType storageOf(VType t) {
  static constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32,
                                     DType::kUInt32,  DType::kInt64,   DType::kUInt64};
  return kTypes[static_cast<size_t>(t)];
}

/// Spec of one primitive applied to contiguous vectors of n elements.
ElementwiseSpec specOf(Prim prim, VType type, int64_t n) {
  ElementwiseSpec spec;
  spec.space = {n};
  const int operands = arity(prim);
  std::vector<Val> values;
  for (int i = 0; i < operands; ++i) {
    const VType t = prim == Prim::kSelect && i == 0 ? VType::kU32 : type;
    spec.inputs.emplace_back(storageOf(t), Shape{n});
    values.push_back(input(spec.expr, i, t));
  }
  const Val result = operands == 1   ? unary(prim, values[0])
                     : operands == 2 ? binary(prim, values[0], values[1])
                                     : select(values[0], values[1], values[2]);
  spec.expr.outputs() = {result.id};
  spec.outputs = {Layout(storageOf(result.type()), {n})};
  return spec;
}

std::vector<std::byte*> pointers(std::vector<Buffer>& buffers) {
  std::vector<std::byte*> out;
  for (Buffer& b : buffers) out.push_back(b.data());
  return out;
}

std::vector<Buffer> buffersOf(const ElementwiseSpec& spec) {
  std::vector<Buffer> buffers;
  for (const Layout& l : spec.inputs) buffers.emplace_back(l);
  for (const Layout& l : spec.outputs) buffers.emplace_back(l);
  return buffers;
}

std::vector<float> interestingFloats() {
  std::vector<float> v = {0.0f,
                          1.0f,
                          0.5f,
                          1.5f,
                          2.5f,
                          3.0f,
                          0x1p-149f,
                          0x1.8p-140f,
                          0x1p-126f,
                          0x1.fffffep127f,
                          88.7f,
                          88.73f,
                          103.9f,
                          104.1f,
                          1e10f,
                          0x1p20f,
                          0x1.8p21f,
                          3.14159265f,
                          1.57079632f,
                          0x1p31f,
                          0x1p32f,
                          0x1.fffffep30f,
                          0x1p63f,
                          0x1p64f,
                          8388607.5f,
                          0.9f,
                          4.0f,
                          3.9f,
                          9.01f,
                          10.0f,
                          std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()};
  const size_t n = v.size();
  for (size_t i = 0; i < n; ++i) v.push_back(-v[i]);
  return v;
}

struct FloatCase {
  Prim prim;
  double ulps;
};

/// Exact primitives are within half a unit; the others have the bounds that their header states.
const FloatCase kFloatCases[] = {
    {Prim::kAdd, 0.5}, {Prim::kSub, 0.5},    {Prim::kMul, 0.5},  {Prim::kDiv, 0.5}, {Prim::kMin, 0},
    {Prim::kMax, 0},   {Prim::kMod, 0},      {Prim::kPow, 0.51}, {Prim::kNeg, 0},   {Prim::kAbs, 0},
    {Prim::kSign, 0},  {Prim::kSqrt, 0.5},   {Prim::kExp, 1.5},  {Prim::kLog, 1.5}, {Prim::kTanh, 3},
    {Prim::kErf, 2},   {Prim::kSin, 1},      {Prim::kCos, 1},    {Prim::kFloor, 0}, {Prim::kCeil, 0},
    {Prim::kTrunc, 0}, {Prim::kRoundEven, 0}};

TEST(Elementwise, Float32PrimitivesStayWithinTheirBounds) {
  const std::vector<float> specials = interestingFloats();
  forEachTarget([&] {
    for (const FloatCase& c : kFloatCases) {
      SCOPED_TRACE(static_cast<int>(c.prim));
      // A sweep over all exponents, then all pairs of special values.
      std::vector<float> a, b;
      std::mt19937 rng(17);
      for (uint32_t bits = 0; bits < 0xffffe000u; bits += 30011) {
        a.push_back(std::bit_cast<float>(bits));
        b.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
      }
      std::normal_distribution<float> normal(0, 3);
      for (int i = 0; i < 50000; ++i) {
        a.push_back(normal(rng));
        b.push_back(normal(rng));
      }
      for (const float x : specials) {
        for (const float y : specials) {
          a.push_back(x);
          b.push_back(y);
        }
      }
      const auto n = static_cast<int64_t>(a.size());
      ElementwiseSpec spec = specOf(c.prim, VType::kF32, n);
      std::vector<float> actual(a.size());
      std::vector<double> expected(a.size());
      std::vector<std::byte*> operands = {reinterpret_cast<std::byte*>(a.data())};
      if (arity(c.prim) == 2) operands.push_back(reinterpret_cast<std::byte*>(b.data()));
      operands.push_back(reinterpret_cast<std::byte*>(actual.data()));
      runKernel(*makeElementwise(spec), operands);
      operands.back() = reinterpret_cast<std::byte*>(expected.data());
      spec.outputs = {Layout(DType::kFloat64, {n})};
      runElementwiseReference(spec, operands, true);
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        const double distance = ulpDistance(actual[i], expected[i]);
        if (distance > worst) worst = distance, at = i;
        if (actual[i] == 0 && expected[i] == 0 && c.prim != Prim::kMin && c.prim != Prim::kMax) {
          ASSERT_EQ(std::signbit(actual[i]), std::signbit(expected[i])) << a[i] << " " << b[i];
        }
      }
      EXPECT_LE(worst, c.ulps) << std::hexfloat << a[at] << " " << b[at] << ": " << actual[at] << " is not "
                               << expected[at];
    }
  });
}

TEST(Elementwise, Float64PrimitivesAreLibm) {
  forEachTarget([&] {
    for (const FloatCase& c : kFloatCases) {
      SCOPED_TRACE(static_cast<int>(c.prim));
      const std::vector<float> specials = interestingFloats();
      const auto n = static_cast<int64_t>(specials.size() * specials.size());
      const ElementwiseSpec spec = specOf(c.prim, VType::kF64, n);
      std::vector<Buffer> buffers = buffersOf(spec);
      for (size_t i = 0; i < specials.size(); ++i) {
        for (size_t j = 0; j < specials.size(); ++j) {
          buffers[0].as<double>()[i * specials.size() + j] = specials[i] * 1.0000001;
          if (arity(c.prim) == 2) buffers[1].as<double>()[i * specials.size() + j] = specials[j] * 1.0000001;
        }
      }
      Buffer expected(spec.outputs[0]);
      std::vector<std::byte*> operands = pointers(buffers);
      runKernel(*makeElementwise(spec), operands);
      operands.back() = expected.data();
      runElementwiseReference(spec, operands);
      for (int64_t i = 0; i < n; ++i) {
        const double x = buffers.back().as<double>()[i], y = expected.as<double>()[i];
        ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || x == y)
            << buffers[0].as<double>()[i] << ": " << x << " " << y;
      }
    }
  });
}

const Prim kPredicates[] = {Prim::kLt, Prim::kLe, Prim::kEq, Prim::kNe, Prim::kIsNan, Prim::kIsInf};
const Prim kIntegerPrims[] = {Prim::kAdd,   Prim::kSub,   Prim::kMul, Prim::kDiv, Prim::kMin,
                              Prim::kMax,   Prim::kMod,   Prim::kPow, Prim::kNeg, Prim::kAbs,
                              Prim::kSign,  Prim::kFloor, Prim::kAnd, Prim::kOr,  Prim::kXor,
                              Prim::kNot,   Prim::kLt,    Prim::kLe,  Prim::kEq,  Prim::kNe,
                              Prim::kIsNan, Prim::kIsInf, Prim::kShl, Prim::kShr, Prim::kSelect};

/// The kernel and the reference must agree in every bit.
void expectEqualBits(const ElementwiseSpec& spec, std::vector<Buffer>& buffers) {
  std::vector<std::byte*> operands = pointers(buffers);
  runKernel(*makeElementwise(spec), operands);
  for (size_t j = 0; j < spec.outputs.size(); ++j) {
    Buffer expected(spec.outputs[j]);
    std::vector<Buffer> others;
    std::vector<std::byte*> targets = operands;
    for (size_t k = 0; k < spec.outputs.size(); ++k) {
      others.emplace_back(spec.outputs[k]);
      targets[spec.inputs.size() + k] = others.back().data();
    }
    runElementwiseReference(spec, targets);
    ASSERT_TRUE(others[j] == buffers[spec.inputs.size() + j]) << "output " << j;
  }
}

TEST(Elementwise, IntegerPrimitivesAreExact) {
  forEachTarget([&] {
    for (const VType type : {VType::kI32, VType::kU32, VType::kI64, VType::kU64}) {
      for (const Prim prim : kIntegerPrims) {
        if ((prim == Prim::kShl || prim == Prim::kShr) && !isUnsignedType(type)) continue;
        SCOPED_TRACE(::testing::Message()
                     << "type " << static_cast<int>(type) << " prim " << static_cast<int>(prim));
        const ElementwiseSpec spec = specOf(prim, type, 1003);
        std::vector<Buffer> buffers = buffersOf(spec);
        std::mt19937_64 rng(5);
        for (size_t i = 0; i < spec.inputs.size(); ++i) {
          for (int64_t k = 0; k < 1003; ++k) {
            uint64_t v = rng();
            const uint64_t edges[] = {
                0, 1, ~uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 63, (uint64_t{1} << 31) - 1};
            if (k % 3 == 0) v = edges[v % 6];
            if (k % 3 == 1) v %= 70;
            if (k % 6 == 2) v = ~(v % 40);
            std::memcpy(buffers[i].data() + k * popxl::sizeOf(spec.inputs[i].dtype), &v,
                        static_cast<size_t>(popxl::sizeOf(spec.inputs[i].dtype)));
          }
        }
        expectEqualBits(spec, buffers);
      }
    }
  });
}

TEST(Elementwise, FloatPredicatesAndSelectAreExact) {
  const std::vector<float> specials = interestingFloats();
  forEachTarget([&] {
    for (const VType type : {VType::kF32, VType::kF64}) {
      for (const Prim prim : kPredicates) {
        const auto n = static_cast<int64_t>(specials.size() * specials.size());
        const ElementwiseSpec spec = specOf(prim, type, n);
        std::vector<Buffer> buffers = buffersOf(spec);
        for (int64_t k = 0; k < n; ++k) {
          for (size_t i = 0; i < spec.inputs.size(); ++i) {
            const auto index = static_cast<size_t>(k);
            const float v = specials[i == 0 ? index / specials.size() : index % specials.size()];
            if (type == VType::kF32) {
              buffers[i].as<float>()[k] = v;
            } else {
              buffers[i].as<double>()[k] = v;
            }
          }
        }
        expectEqualBits(spec, buffers);
      }
      const ElementwiseSpec spec = specOf(Prim::kSelect, type, 501);
      std::vector<Buffer> buffers = buffersOf(spec);
      std::mt19937_64 rng(3);
      for (Buffer& b : buffers) fillRandom(b, rng);
      for (int i = 0; i < 501; ++i) buffers[0].as<uint32_t>()[i] %= 2;
      expectEqualBits(spec, buffers);
    }
  });
}

TEST(Elementwise, ConversionsBetweenAllTypes) {
  const std::vector<float> specials = interestingFloats();
  const VType types[] = {VType::kF32, VType::kF64, VType::kI32, VType::kU32, VType::kI64, VType::kU64};
  forEachTarget([&] {
    for (const VType from : types) {
      for (const VType to : types) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(from) << " to " << static_cast<int>(to));
        ElementwiseSpec spec;
        const auto n = static_cast<int64_t>(specials.size()) + 200;
        spec.space = {n};
        spec.inputs = {Layout(storageOf(from), {n})};
        spec.outputs = {Layout(storageOf(to), {n})};
        spec.expr.outputs() = {input(spec.expr, 0, from).convert(to).id};
        std::vector<Buffer> buffers = buffersOf(spec);
        std::mt19937_64 rng(8);
        for (int64_t k = 0; k < n; ++k) {
          const uint64_t bits = rng() >> (rng() % 60);
          const float v = static_cast<size_t>(k) < specials.size()
                              ? specials[static_cast<size_t>(k)]
                              : static_cast<float>(static_cast<int64_t>(bits)) * 0.37f;
          if (from == VType::kF32) {
            buffers[0].as<float>()[k] = v;
          } else if (from == VType::kF64) {
            buffers[0].as<double>()[k] = v * 1.000000001;
          } else {
            std::memcpy(buffers[0].data() + k * sizeOf(from), &bits, static_cast<size_t>(sizeOf(from)));
          }
        }
        // Not-a-number has many encodings: compare it as a class.
        std::vector<std::byte*> operands = pointers(buffers);
        runKernel(*makeElementwise(spec), operands);
        Buffer expected(spec.outputs[0]);
        operands[1] = expected.data();
        runElementwiseReference(spec, operands);
        for (int64_t k = 0; k < n; ++k) {
          const int64_t at = k * popxl::sizeOf(spec.outputs[0].dtype);
          const double x = testing::readElement(spec.outputs[0].dtype, buffers[1].data() + at);
          const double y = testing::readElement(spec.outputs[0].dtype, expected.data() + at);
          ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || x == y) << k << ": " << x << " " << y;
        }
      }
    }
  });
}

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

TEST(Elementwise, TailsOfEveryLength) {
  forEachTarget([&] {
    for (int64_t n = 0; n <= 70; ++n) {
      for (int variant = 0; variant < 4; ++variant) {
        ElementwiseSpec spec;
        spec.space = {n};
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
TEST(Elementwise, BitsDoNotDependOnPosition) {
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
    if (large) spec.space = {3, 17, 1 + draw(2000)};
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

TEST(Elementwise, RandomExpressionsOnRandomLayouts) {
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

TEST(Elementwise, AdamInPlaceOverSeveralChunksAndThreads) {
  for (const int64_t n : {5, 16, 100000, 100007}) {
    ElementwiseSpec spec;
    spec.space = {n};
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

TEST(Elementwise, SwapInPlace) {
  for (const int64_t n : {7, 64, 1000}) {
    ElementwiseSpec spec;
    spec.space = {n};
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

TEST(Elementwise, StorageTypesWrapAndConvert) {
  const DType types[] = {DType::kInt8,   DType::kInt16,  DType::kInt32,  DType::kInt64, DType::kUInt8,
                         DType::kUInt16, DType::kUInt32, DType::kUInt64, DType::kBool};
  forEachTarget([&] {
    for (const DType t : types) {
      ElementwiseSpec spec;
      spec.space = {3, 111};
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

TEST(Elementwise, RandomBitsArePhiloxOfThePosition) {
  ElementwiseSpec spec;
  spec.space = {7, 9001};
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

TEST(Elementwise, ConstantAndScalarOutputsAreSpread) {
  ElementwiseSpec spec;
  spec.space = {50, 3};
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

TEST(Elementwise, ManyLiveValues) {
  ElementwiseSpec spec;
  spec.space = {1000};
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

TEST(Elementwise, ThreadCountIsChecked) {
  EXPECT_THROW(setThreadCount(0), Error);
  setThreadCount(3);
  EXPECT_EQ(threadCount(), 3);
  std::vector<int> hits(1000, 0);
  parallelFor(1000, [&](int64_t i) { hits[static_cast<size_t>(i)]++; });
  EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), 1000);
  setThreadCount(1);
}

}  // namespace
}  // namespace popxl::kernels
