// Every primitive on every compute type against float64 libm and exact integers; layouts, tails, in place,
// threads.
#include "kernels/elementwise.h"

#include <algorithm>
#include <limits>

#include "elementwise_testing.h"

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
using testing::storageOf;
using testing::ulpDistance;

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

}  // namespace
}  // namespace popxl::kernels
