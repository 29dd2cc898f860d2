#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/expr.h"

namespace popxl::kernels {

/// How two partial results become one.
enum class Fold : uint8_t { kSum, kProd, kMax, kMin };

/// Bytes of the lanes into which a row is folded: element i goes to lane i modulo (kLaneBytes / size). The
/// same on every machine, so that vector length changes no bit.
inline constexpr int64_t kLaneBytes = 256;
/// Rows up to this length are folded one element after the other.
inline constexpr int64_t kShortRow = 32;

/// Code for one fold of one type. Maxima and minima keep NaN.
struct FoldOps {
  /// n copies of the neutral element.
  void (*fill)(std::byte* out, int64_t n);
  /// lanes[(first + i) mod lanes] op= values[i].
  void (*row)(const std::byte* values, int64_t n, std::byte* lanes, int64_t first);
  /// All lanes to one element: the upper half onto the lower, until one is left.
  void (*lanes)(const std::byte* lanes, std::byte* out);
  /// out[r] = what fill, row and lanes make of values[r * length ... (r + 1) * length).
  void (*rows)(const std::byte* values, int64_t rows, int64_t length, std::byte* out);
  /// out[r] = values[r * length] op values[r * length + 1] op ..., length >= 1.
  void (*shortRows)(const std::byte* values, int64_t rows, int64_t length, std::byte* out, int64_t outStride);
  /// sums[i] op= values[i], values[n + i], ... of all rows.
  void (*columns)(const std::byte* values, int64_t rows, int64_t n, std::byte* sums);
};
const FoldOps& foldOps(Fold fold, VType type);

}  // namespace popxl::kernels
