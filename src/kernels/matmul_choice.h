#pragma once

#include <cstdint>

namespace popxl::kernels {

/// How a matrix product is computed.
enum class MatmulPath : uint8_t {
  kStreamed,  ///< few rows or one column: the large operand is read once, as it lies
  kDirect,    ///< by our own loops, packing no more than stays in the caches
  kLibrary,   ///< by oneDNN
  kPanels,    ///< from operands packed a block at a time, which stays in the second-level cache
};
inline constexpr int kMatmulPaths = 4;
const char* nameOf(MatmulPath path);

/// Most vectors of columns in a piece of kPanels, and panels of rows that are packed at a time: with blocks
/// of k of both operands they take 1.3 MB of 2 where vectors have 64 bytes, and 0.5 where they have 32.
inline constexpr int64_t kPanelVectors = 48, kPanelHeights = 8;

/// C [m, n] = A [m, k] x B [k, n] of float32.
struct Product {
  int64_t m, n, k;
  int64_t rhsStep;                      ///< elements from row to row of B
  bool lhsAlongK, rhsAlongK;            ///< neighbours in memory are neighbours along k
  bool canStream, canLibrary, canPack;  ///< which paths there are besides kDirect
};

/// Nanoseconds that a path is expected to take on one thread of a machine like those that were measured.
double predictedTime(MatmulPath path, const Product& product);

/// The possible path of the least predicted time. It follows from the product and the instruction set alone,
/// never from a measurement of this process.
MatmulPath choosePath(const Product& product);

}  // namespace popxl::kernels
