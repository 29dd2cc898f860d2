// float16 and float8: every encoding against the defining formula, rounding against a search for the nearest
// value; the tile code for all of them against src/base.
#include "base/half.h"

#include <algorithm>
#include <vector>

#include "kernel_testing.h"

namespace popxl {
namespace {

/// Value of an encoding with one sign bit, `exponentBits` and `mantissaBits`, without special values.
double decode(uint32_t bits, int exponentBits, int mantissaBits, int bias) {
  const uint32_t mantissa = bits & ((1u << mantissaBits) - 1);
  const auto exponent = static_cast<int>((bits >> mantissaBits) & ((1u << exponentBits) - 1));
  const double fraction = mantissa / std::ldexp(1.0, mantissaBits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits >> (exponentBits + mantissaBits) & 1) != 0 ? -magnitude : magnitude;
}

/// Bits in [0, count) whose value, increasing in the bits, is nearest to |v|; ties go to the even encoding.
uint32_t nearest(double v, uint32_t count, int exponentBits, int mantissaBits, int bias) {
  uint32_t low = 0, high = count;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (decode(middle, exponentBits, mantissaBits, bias) <= v ? low : high) = middle;
  }
  if (low + 1 >= count) return low;
  const double below = v - decode(low, exponentBits, mantissaBits, bias);
  const double above = decode(low + 1, exponentBits, mantissaBits, bias) - v;
  return below < above || (below == above && low % 2 == 0) ? low : low + 1;
}

/// Floats near every boundary of a format, and all binades.
std::vector<float> probes(int exponentBits, int mantissaBits, int bias) {
  std::vector<float> out;
  for (uint32_t bits = 0; bits < (1u << (exponentBits + mantissaBits)); ++bits) {
    const double value = decode(bits, exponentBits, mantissaBits, bias);
    const double middle = (value + decode(bits + 1, exponentBits, mantissaBits, bias)) / 2;
    for (const double v : {value, middle}) {
      const auto f = static_cast<float>(v);
      for (const float p : {f, std::nextafter(f, 1e30f), std::nextafter(f, -1e30f)}) {
        out.push_back(p);
        out.push_back(-p);
      }
    }
  }
  for (uint32_t bits = 0; bits < 0xffff0000u; bits += 65521) out.push_back(std::bit_cast<float>(bits));
  return out;
}

TEST(Half, DecodesEveryEncoding) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float actual = halfToFloat(static_cast<uint16_t>(bits));
    if ((bits & 0x7c00) == 0x7c00) {
      if ((bits & 0x3ff) != 0) {
        ASSERT_TRUE(std::isnan(actual));
      } else {
        ASSERT_EQ(actual, (bits & 0x8000) != 0 ? -HUGE_VALF : HUGE_VALF);
      }
      continue;
    }
    ASSERT_EQ(actual, decode(bits, 5, 10, 15)) << bits;
    ASSERT_EQ(std::signbit(actual), (bits & 0x8000) != 0);
    ASSERT_EQ(floatToHalf(actual), bits);
  }
}

TEST(Half, RoundsToNearestEven) {
  for (const float v : probes(5, 10, 15)) {
    const uint16_t actual = floatToHalf(v);
    if (std::isnan(v)) {
      ASSERT_TRUE((actual & 0x7c00) == 0x7c00 && (actual & 0x3ff) != 0);
      continue;
    }
    // 65536, one step above the largest, stands for infinity.
    const uint32_t magnitude = std::isinf(v) ? 0x7c00 : nearest(std::fabs(v), 0x7c01, 5, 10, 15);
    ASSERT_EQ(actual, magnitude | (std::signbit(v) ? 0x8000u : 0u)) << std::hexfloat << v;
  }
}

struct Format {
  DType dtype;
  int exponentBits, mantissaBits, bias;
};
const Format kFormats[] = {{DType::kFloat8_143, 4, 3, 8}, {DType::kFloat8_152, 5, 2, 16}};

TEST(Float8, DecodesEveryEncoding) {
  for (const Format& f : kFormats) {
    for (uint32_t bits = 0; bits < 256; ++bits) {
      const float actual = float8ToFloat(static_cast<uint8_t>(bits), f.dtype);
      if (bits == 0x80) {
        ASSERT_TRUE(std::isnan(actual));
      } else {
        ASSERT_EQ(actual, decode(bits, f.exponentBits, f.mantissaBits, f.bias)) << bits;
        ASSERT_EQ(floatToFloat8(actual, f.dtype, true), bits);
      }
    }
  }
}

TEST(Float8, RoundsToNearestEvenAndSaturates) {
  for (const Format& f : kFormats) {
    const double largest = decode(0x7f, f.exponentBits, f.mantissaBits, f.bias);
    const double step = largest - decode(0x7e, f.exponentBits, f.mantissaBits, f.bias);
    for (const float v : probes(f.exponentBits, f.mantissaBits, f.bias)) {
      if (std::isnan(v) || std::isinf(v)) {
        ASSERT_EQ(floatToFloat8(v, f.dtype, false), 0x80);
        continue;
      }
      const uint32_t magnitude = nearest(std::fabs(v), 0x80, f.exponentBits, f.mantissaBits, f.bias);
      const uint32_t expected = magnitude == 0 ? 0 : magnitude | (std::signbit(v) ? 0x80u : 0u);
      ASSERT_EQ(floatToFloat8(v, f.dtype, false), expected) << std::hexfloat << v;
      // 0x7f is odd, so half a step above it rounds away.
      const bool overflows = std::fabs(v) >= largest + step / 2;
      ASSERT_EQ(floatToFloat8(v, f.dtype, true), overflows ? 0x80u : expected) << std::hexfloat << v;
    }
  }
}

/// Storing and loading in tiles, dense and strided, gives the bits of src/base.
TEST(Half, TileCodeAgrees) {
  using namespace kernels;
  using kernels::testing::runKernel;
  kernels::testing::forEachTarget([] {
    for (const DType t : {DType::kFloat16, DType::kFloat8_143, DType::kFloat8_152}) {
      const std::vector<float> values = t == DType::kFloat16 ? probes(5, 10, 15) : probes(4, 3, 8);
      const auto n = static_cast<int64_t>(values.size());
      for (const int64_t stride : {1, 2}) {
        ElementwiseSpec spec;
        spec.space = {n};
        spec.inputs = {Layout(DType::kFloat32, {n})};
        spec.outputs = {Layout(t, {n}, {stride}), Layout(DType::kFloat32, {n})};
        const Val x = input(spec.expr, 0, VType::kF32);
        spec.expr.outputs() = {x.id, roundTo(x, t).id};
        kernels::testing::Buffer stored(spec.outputs[0]), rounded(spec.outputs[1]);
        runKernel(*makeElementwise(spec), {reinterpret_cast<std::byte*>(const_cast<float*>(values.data())),
                                           stored.data(), rounded.data()});
        ElementwiseSpec back;
        back.space = {n};
        back.inputs = {spec.outputs[0]};
        back.outputs = {spec.inputs[0]};
        back.expr.outputs() = {input(back.expr, 0, VType::kF32).id};
        kernels::testing::Buffer loaded(back.outputs[0]);
        runKernel(*makeElementwise(back), {stored.data(), loaded.data()});
        for (int64_t i = 0; i < n; ++i) {
          const float v = values[static_cast<size_t>(i)];
          float expected = 0;
          if (t == DType::kFloat16) {
            const uint16_t bits = stored.as<uint16_t>()[i * stride];
            expected = halfToFloat(floatToHalf(v));
            ASSERT_TRUE(std::isnan(v) || bits == floatToHalf(v)) << std::hexfloat << v;
          } else {
            const uint8_t bits = stored.as<uint8_t>()[i * stride];
            expected = float8ToFloat(floatToFloat8(v, t, false), t);
            ASSERT_EQ(bits, floatToFloat8(v, t, false)) << std::hexfloat << v;
          }
          for (const float actual : {rounded.as<float>()[i], loaded.as<float>()[i]}) {
            ASSERT_TRUE((std::isnan(actual) && std::isnan(expected)) ||
                        std::bit_cast<uint32_t>(actual) == std::bit_cast<uint32_t>(expected))
                << std::hexfloat << v << ": " << actual << " " << expected;
          }
        }
      }
    }
  });
}

/// Every half pattern through the tile loader.
TEST(Half, TileLoaderDecodesEveryEncoding) {
  using namespace kernels;
  using kernels::testing::runKernel;
  kernels::testing::forEachTarget([] {
    ElementwiseSpec spec;
    spec.space = {0x10000};
    spec.inputs = {Layout(DType::kFloat16, spec.space)};
    spec.outputs = {Layout(DType::kFloat32, spec.space)};
    spec.expr.outputs() = {input(spec.expr, 0, VType::kF32).id};
    std::vector<uint16_t> bits(0x10000);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    std::vector<float> out(bits.size());
    runKernel(*makeElementwise(spec),
              {reinterpret_cast<std::byte*>(bits.data()), reinterpret_cast<std::byte*>(out.data())});
    for (size_t i = 0; i < bits.size(); ++i) {
      const float expected = halfToFloat(bits[i]);
      ASSERT_TRUE((std::isnan(out[i]) && std::isnan(expected)) ||
                  std::bit_cast<uint32_t>(out[i]) == std::bit_cast<uint32_t>(expected))
          << i;
    }
  });
}

}  // namespace
}  // namespace popxl
