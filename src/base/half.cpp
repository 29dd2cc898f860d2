#include "base/half.h"

#include <bit>
#include <cmath>
#include <limits>

namespace popxl {

float halfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t floatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {  // subnormal result: adding 0.5 aligns the mantissa, the FPU rounds to even
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

namespace {

struct Float8Format {
  int mantissaBits, bias;
  uint8_t largest;  // encoding of the largest finite magnitude
};

Float8Format formatOf(DType t) {
  return t == DType::kFloat8_143 ? Float8Format{3, 8, 0x7f} : Float8Format{2, 16, 0x7f};
}

}  // namespace

float float8ToFloat(uint8_t bits, DType format) {
  if (bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const Float8Format f = formatOf(format);
  const int mantissa = bits & ((1 << f.mantissaBits) - 1);
  const int exponent = (bits & 0x7f) >> f.mantissaBits;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissaBits)
                              : std::ldexp(static_cast<float>(mantissa + (1 << f.mantissaBits)),
                                           exponent - f.bias - f.mantissaBits);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

uint8_t floatToFloat8(float value, DType format, bool nanOnOverflow) {
  if (std::isnan(value) || std::isinf(value)) return 0x80;
  const Float8Format f = formatOf(format);
  const float magnitude = std::fabs(value);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0x00;
  // Quantum of the value's binade, not below the subnormal quantum.
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int quantum = std::max(exponent - 1, 1 - f.bias) - f.mantissaBits;
  const float rounded = std::ldexp(std::nearbyint(std::ldexp(magnitude, -quantum)), quantum);
  if (rounded > float8ToFloat(f.largest, format)) {
    return nanOnOverflow ? 0x80 : static_cast<uint8_t>(sign | f.largest);
  }
  if (rounded == 0.0f) return 0x00;
  std::frexp(rounded, &exponent);
  const int biased = exponent - 1 + f.bias;
  if (biased <= 0) {
    return static_cast<uint8_t>(sign | static_cast<int>(std::ldexp(rounded, f.bias - 1 + f.mantissaBits)));
  }
  const int mantissa =
      static_cast<int>(std::ldexp(rounded, f.mantissaBits - (exponent - 1))) - (1 << f.mantissaBits);
  return static_cast<uint8_t>(sign | (biased << f.mantissaBits) | mantissa);
}

}  // namespace popxl
