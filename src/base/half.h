#pragma once

#include <cstdint>

#include "popxl/dtype.h"

namespace popxl {

/// IEEE binary16 bits to float; exact.
float halfToFloat(uint16_t bits);
/// Float to binary16, round to nearest even; overflow gives infinity, NaN stays NaN.
uint16_t floatToHalf(float value);

/// Decodes one float8 byte of `format` (kFloat8_143 or kFloat8_152); 0x80 is NaN.
float float8ToFloat(uint8_t bits, DType format);
/// Float to float8, round to nearest even. NaN and infinity give 0x80 (NaN); finite overflow saturates, or
/// gives NaN when `nanOnOverflow`. There is no negative zero: a result of -0 is stored as 0x00.
uint8_t floatToFloat8(float value, DType format, bool nanOnOverflow);

}  // namespace popxl
