#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/expr.h"
#include "popxl/dtype.h"

namespace popxl::kernels {

/// Tile code works on blocks of this many elements, whatever the vector length: a value that is the same at
/// every position is held as one block, and padding up to a block makes the last elements run the same code
/// as all others.
inline constexpr int64_t kBlock = 16;

/// One primitive on one tile. dst, a, b, c index TileContext::slots.
struct TileStep {
  using Fn = void (*)(const TileStep& step, const struct TileContext& tile);
  Fn fn = nullptr;
  uint32_t dst = 0, a = 0, b = 0, c = 0;
  /// Elements by which an operand advances per block: kBlock, or 0 for a value that is the same everywhere.
  uint32_t stepA = kBlock, stepB = kBlock, stepC = kBlock;
  uint32_t stream = 0;  ///< kPhilox
};

struct TileContext {
  std::byte* const* slots;
  int64_t n;          ///< elements, a multiple of kBlock
  uint64_t position;  ///< of the first element in the space, row-major
};

/// The code of a primitive for the SIMD of this machine. `operand` is the type of a (of b for kSelect).
TileStep::Fn tileFn(const Node& node, VType operand);
TileStep::Fn floatFn(Prim prim, VType type);
TileStep::Fn mathFn(Prim prim, VType type);
TileStep::Fn integerFn(Prim prim, VType type);
TileStep::Fn selectFn(VType type);
TileStep::Fn convertFn(VType from, VType to);
TileStep::Fn roundFn(DType storage);
TileStep::Fn philoxFn();

/// n elements `stride` apart of a storage type to dense values of its compute type.
using LoadFn = void (*)(const std::byte* source, int64_t stride, int64_t n, std::byte* out);
/// n dense values of a compute type, rounded to the storage type, to elements `stride` apart.
using StoreFn = void (*)(const std::byte* values, int64_t n, std::byte* out, int64_t stride);
LoadFn loadFn(DType storage);
StoreFn storeFn(DType storage);
/// Whether memory of this type is its compute type, so that tiles may use it in place.
bool isComputeStorage(DType storage);

}  // namespace popxl::kernels
