#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"
#include "kernels/copy.h"
#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "kernels/rows_simd.h"

// What the row kernels (softmax, norms, losses, gathers, ...) share. They work on contiguous memory;
// withContiguous and axisLast bring everything else into that form.

namespace popxl::kernels {

/// float16 in memory.
struct Half {
  uint16_t bits;
};

/// A stored value as the number that is computed with.
inline float widen(Half value) { return halfToFloat(value.bits); }
template <typename T>
T widen(T value) {
  return value;
}

/// The type that a stored T is computed in.
template <typename T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls fn(std::type_identity<T>()) with T = Half, float or double; any other dtype is an assertion.
template <typename Fn>
auto dispatchFloat(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kFloat16:
      return fn(std::type_identity<Half>());
    case DType::kFloat32:
      return fn(std::type_identity<float>());
    case DType::kFloat64:
      return fn(std::type_identity<double>());
    default:
      POPXL_ASSERT(false, "dtype {} is not float16, float32 or float64", nameOf(dtype));
      std::abort();
  }
}

/// The same over Half, float, double and every integer type; bool is uint8_t.
template <typename Fn>
auto dispatchNumber(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kInt8:
      return fn(std::type_identity<int8_t>());
    case DType::kInt16:
      return fn(std::type_identity<int16_t>());
    case DType::kInt32:
      return fn(std::type_identity<int32_t>());
    case DType::kInt64:
      return fn(std::type_identity<int64_t>());
    case DType::kBool:
    case DType::kUInt8:
      return fn(std::type_identity<uint8_t>());
    case DType::kUInt16:
      return fn(std::type_identity<uint16_t>());
    case DType::kUInt32:
      return fn(std::type_identity<uint32_t>());
    case DType::kUInt64:
      return fn(std::type_identity<uint64_t>());
    default:
      return dispatchFloat(dtype, fn);
  }
}

/// Element i as a double, of any real dtype; and back (floats round to nearest even, integers truncate and
/// saturate).
double readNumber(DType dtype, const std::byte* base, int64_t i);
void writeNumber(DType dtype, std::byte* base, int64_t i, double value);

/// Elements first ... first + n - 1 as int64. Unsigned values above its range, fractions and NaN give
/// kBadIndex.
void readIndices(DType dtype, const std::byte* base, int64_t first, int64_t n, int64_t* out);
inline constexpr int64_t kBadIndex = INT64_MIN;

/// n elements as float or double in `buffer`, or where they are when they have that type already.
template <typename T>
const ComputeOf<T>* loadRow(const T* src, ComputeOf<T>* buffer, int64_t n) {
  if constexpr (std::is_same_v<T, Half>) {
    simd::moveOps().halfToFloat(reinterpret_cast<const uint16_t*>(src), buffer, n);
    return buffer;
  } else {
    (void)buffer, (void)n;
    return src;
  }
}
/// Where to compute a row of T: in place, or in `buffer`; storeRow then writes the latter out.
template <typename T>
ComputeOf<T>* rowTarget(T* dst, ComputeOf<T>* buffer) {
  if constexpr (std::is_same_v<T, Half>) {
    (void)dst;
    return buffer;
  } else {
    (void)buffer;
    return dst;
  }
}
template <typename T>
void storeRow(const ComputeOf<T>* row, T* dst, int64_t n) {
  if constexpr (std::is_same_v<T, Half>) {
    simd::moveOps().floatToHalf(row, reinterpret_cast<uint16_t*>(dst), n);
  } else {
    (void)row, (void)dst, (void)n;
  }
}
/// A row that was computed elsewhere, past the caches; simd::flushStream comes after the last.
template <typename T>
void streamRow(const ComputeOf<T>* row, T* dst, int64_t n) {
  simd::moveOps().stream(reinterpret_cast<const std::byte*>(row), reinterpret_cast<std::byte*>(dst),
                         n * static_cast<int64_t>(sizeof(T)));
}
/// Whether rows of n elements of T, `rows` of them, are written past the caches: all together large, each
/// whole cache lines, few enough for a buffer that stays near.
template <typename T>
bool streamsRows(int64_t rows, int64_t n) {
  const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
  return std::is_same_v<T, ComputeOf<T>> && bytes >= 1024 && bytes <= 64 * 1024 && bytes % 64 == 0 &&
         rows > kStreamBytes / bytes;
}
/// n elements of float16, float32 or float64 converted to C.
template <typename C>
void convertToCompute(DType dtype, const std::byte* src, int64_t n, C* out);
template <typename C>
void convertFromCompute(DType dtype, const C* src, int64_t n, std::byte* out);

/// `rows` rows of about `cost` elements of work each, cut into at most `limit` chunks by these numbers alone.
struct RowChunks {
  RowChunks() = default;
  RowChunks(int64_t rows, int64_t cost, int64_t limit = 64);
  int64_t begin(int64_t chunk) const { return chunk * perChunk; }
  int64_t end(int64_t chunk) const { return std::min(rows, (chunk + 1) * perChunk); }

  int64_t rows = 0, perChunk = 1, chunks = 0;
};

/// `make` builds a kernel for contiguous layouts. Where a layout of `ins` or `outs` is not contiguous, the
/// result copies that operand to or from contiguous scratch memory around it; otherwise it is the kernel
/// itself. `make` receives ins, then outs, all contiguous; operands of the result are in the same order.
using MakeContiguous = std::function<KernelPtr(const std::vector<Layout>& layouts)>;
KernelPtr withContiguous(const std::vector<Layout>& ins, const std::vector<Layout>& outs,
                         const MakeContiguous& make);

/// `layout` with dimension `axis` moved to the end: the same memory, seen differently.
Layout axisLast(const Layout& layout, int64_t axis);

/// Bytes rounded up to whole cache lines.
constexpr int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace popxl::kernels
