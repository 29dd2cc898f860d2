#pragma once

#include "ir/graph.h"

namespace popxl::ir {

/// An op of structure kRepeat by its parts. The body's inputs are the carried ones, those scanned (iteration
/// k gets slice k of the operand, which has one more dimension in front), and those that stay; its outputs
/// are the carried ones and those stacked (iteration k gives slice k of the result; slices of iterations that
/// do not run are zeros).
struct Loop {
  explicit Loop(const Op& op);

  const Graph* body;
  size_t first;         ///< the operand that stands for the body's input 0
  int64_t count;        ///< how many iterations; the most where `trips` or `whileTrue` says how many
  const Tensor* trips;  ///< the operand that says how many; null: there is none
  size_t carried = 0, scanned = 0, stacked = 0;
  bool reverse = false;    ///< iteration k of n works on slice n - 1 - k
  bool whileTrue = false;  ///< ends before an iteration that gets false as carried value 0

  bool hasFixedCount() const { return trips == nullptr && !whileTrue; }
  bool isScanned(size_t input) const { return input >= carried && input < carried + scanned; }
  bool isStacked(size_t output) const { return output >= carried; }
};

/// The operand that stands for input 0 of graph number `graph` that `op` runs.
size_t firstInput(const Op& op, size_t graph = 0);

/// `shape` with a dimension of `count` in front.
Shape stackedShape(int64_t count, const Shape& shape);

}  // namespace popxl::ir
