#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "popxl/dtype.h"

namespace popxl {

using Shape = std::vector<int64_t>;
using Strides = std::vector<int64_t>;  ///< in elements; 0 on a broadcast dimension

/// Number of elements; 1 for a scalar. Negative dimensions (allowed by one op's inference) count as they are.
int64_t numElements(std::span<const int64_t> shape);
/// Row-major strides in elements.
Strides contiguousStrides(std::span<const int64_t> shape);
/// Strides of [N, C, D...] whose channels lie side by side: in the order N, D..., C. Rank 2 or more.
Strides channelsLastStrides(std::span<const int64_t> shape);
/// "(2, 3)", "(4,)", "()": as Python prints a tuple.
std::string toString(std::span<const int64_t> shape);
/// NumPy broadcasting of two shapes; false when they do not broadcast.
bool broadcastShapes(std::span<const int64_t> a, std::span<const int64_t> b, Shape& out);
/// Strides with which a tensor of `shape` and `strides` is read when broadcast to `to`.
Strides broadcastStrides(std::span<const int64_t> shape, std::span<const int64_t> strides,
                         std::span<const int64_t> to);
/// Axis in [-rank, rank) to [0, rank). Throws Error(kValue) naming `what` otherwise.
int64_t normalizeAxis(int64_t axis, int64_t rank, const char* what);

/// How a tensor lies in memory: what a kernel is made for.
struct Layout {
  DType dtype = DType::kFloat32;
  Shape shape;
  Strides strides;  ///< in elements, one per dimension

  Layout() = default;
  Layout(DType type, Shape dims) : dtype(type), shape(std::move(dims)), strides(contiguousStrides(shape)) {}
  Layout(DType type, Shape dims, Strides steps)
      : dtype(type), shape(std::move(dims)), strides(std::move(steps)) {}

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t numElements() const { return popxl::numElements(shape); }
  int64_t bytes() const { return numElements() * sizeOf(dtype); }
  /// Row-major and dense (dimensions of size 1 may have any stride).
  bool isContiguous() const;
  /// Dense in the order of channelsLastStrides (dimensions of size 1 may have any stride).
  bool isChannelsLast() const;
  bool operator==(const Layout&) const = default;
};

}  // namespace popxl
