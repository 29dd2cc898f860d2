#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace popxl {

/// Element type of a tensor. Values are stable within one build only; the text form uses names.
enum class DType : uint8_t {
  kFloat8_143,  ///< 1 sign, 4 exponent, 3 mantissa bits, bias 8; the only special value is NaN = 0x80
  kFloat8_152,  ///< 1 sign, 5 exponent, 2 mantissa bits, bias 16; the only special value is NaN = 0x80
  kFloat16,
  kFloat32,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,  ///< one byte, 0 or 1
  kComplex64,
  kComplex128,
};
inline constexpr int kNumDTypes = 16;

/// Size of one element in bytes.
int64_t sizeOf(DType t);
/// Name as programs and the text form write it: "float32", "float8_143", "bool", ...
std::string_view nameOf(DType t);
/// Inverse of nameOf, also accepting the short forms "float", "double", "half". Throws Error(kValue)
/// otherwise.
DType dtypeFromName(std::string_view name);

bool isFloat(DType t);  ///< float8, float16, float32, float64
bool isFloat8(DType t);
bool isInt(DType t);     ///< signed and unsigned integers, not bool
bool isSigned(DType t);  ///< floats, complex and signed integers
bool isComplex(DType t);

}  // namespace popxl
