#pragma once

#include <cstddef>
#include <cstdint>

#include "base/shape.h"

namespace popxl::kernels::dense {

/// Types in which dense kernels multiply and add: float (float8, float16, float32), double, and unsigned
/// integers, in which signed ones wrap alike: uint32_t for integers up to 32 bits and uint64_t for the rest.
enum class Compute : uint8_t { kF32, kF64, kU32, kU64 };

/// Throws Error(kType) naming `what` for bool and complex types.
Compute computeOf(DType t, const char* what);

template <typename T>
constexpr Compute kComputeOf = Compute::kF32;
template <>
inline constexpr Compute kComputeOf<double> = Compute::kF64;
template <>
inline constexpr Compute kComputeOf<uint32_t> = Compute::kU32;
template <>
inline constexpr Compute kComputeOf<uint64_t> = Compute::kU64;

/// Whether elements of `t` in memory are values of its compute type, so that no conversion is needed.
bool isComputeType(DType t);

/// A strided matrix of elements of one dtype.
struct Matrix {
  std::byte* data;
  DType dtype;
  int64_t rows, cols;
  int64_t rowStride, colStride;  ///< in elements
};

/// Reads `from` into a dense row-major rows x cols matrix of the compute type T.
template <typename T>
void load(const Matrix& from, T* to);
/// Writes a row-major matrix with rows `stride` apart, times `scale` (1 for integers), rounding once to
/// `to.dtype`.
template <typename T>
void store(const T* from, int64_t stride, T scale, const Matrix& to);

/// The same for a tensor of any rank: dense row-major memory from and to `layout` at `data`.
template <typename T>
void loadTensor(const Layout& layout, const std::byte* data, T* to);
template <typename T>
void storeTensor(const T* from, T scale, const Layout& layout, std::byte* data);

/// Calls `fn(T{})` with a value of the compute type.
template <typename Fn>
auto withCompute(Compute c, const Fn& fn) {
  switch (c) {
    case Compute::kF32:
      return fn(float{});
    case Compute::kF64:
      return fn(double{});
    case Compute::kU32:
      return fn(uint32_t{});
    default:
      return fn(uint64_t{});
  }
}

}  // namespace popxl::kernels::dense
