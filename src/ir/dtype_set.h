#pragma once

#include <cstdint>

#include "popxl/dtype.h"

namespace popxl::ir {

/// A set of dtypes, as a bit mask.
using DTypes = uint32_t;
constexpr DTypes bit(DType t) { return DTypes{1} << static_cast<int>(t); }
inline constexpr DTypes kFloats = bit(DType::kFloat16) | bit(DType::kFloat32) | bit(DType::kFloat64);
inline constexpr DTypes kFloat8s = bit(DType::kFloat8_143) | bit(DType::kFloat8_152);
inline constexpr DTypes kInts = bit(DType::kInt8) | bit(DType::kInt16) | bit(DType::kInt32) |
                                bit(DType::kInt64) | bit(DType::kUInt8) | bit(DType::kUInt16) |
                                bit(DType::kUInt32) | bit(DType::kUInt64);
inline constexpr DTypes kBools = bit(DType::kBool);
inline constexpr DTypes kNumeric = kFloats | kInts;
inline constexpr DTypes kAny = (DTypes{1} << kNumDTypes) - 1;

}  // namespace popxl::ir
