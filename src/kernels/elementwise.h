#pragma once

#include <span>
#include <vector>

#include "base/shape.h"
#include "kernels/expr.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

/// An elementwise group: `expr` at every position of `space`. inputs[i] is read with broadcasting to `space`
/// (its Layout has its own shape, any shape if only single elements of it are read; Node::element counts
/// elements in its memory); outputs[j] has shape `space` and receives expr.outputs()[j] rounded to its dtype.
/// An output may be the same memory as an input of equal layout (in place).
struct ElementwiseSpec {
  Expr expr;
  Shape space;
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
};

/// What runs the primitives: machine code made for the group, tile code over L1 (any machine), or the first
/// where there is one. Both give the same bits, the payload of NaN aside.
enum class Backend : uint8_t { kBest, kCompiled, kTiles };

/// Operands: inputs then outputs. Parallel when large.
KernelPtr makeElementwise(ElementwiseSpec spec, Backend backend = Backend::kBest);

/// The reference: every primitive in float64 with libm (integers exactly), one position at a time. Floats are
/// rounded by kRoundTo, by conversions to kF32 and when stored only; `unrounded`: when stored only. An output
/// of a float value may have any float dtype, float64 to see the value itself. Operand pointers as for the
/// kernel.
void runElementwiseReference(const ElementwiseSpec& spec, std::span<std::byte* const> operands,
                             bool unrounded = false);

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin, kProd, kSumSquare, kL1, kL2, kLogSum, kLogSumExp };

/// Reduces `expr` (one output) over `axes` of `space` (empty axes: an elementwise copy). `out` has the shape
/// of `space` with the axes kept as 1 (any layout equal to that after dropping them); `expr` draws no random
/// bits. Accumulates in float32 (float64 for float64 inputs, 64-bit integers wrap to the output type) by one
/// fixed tree that depends on shapes alone.
struct ReduceSpec {
  Reduction kind;
  Expr expr;
  Shape space;
  std::vector<Layout> inputs;
  std::vector<int64_t> axes;  ///< sorted, non-negative, distinct
  Layout out;                 ///< rank equal to space's rank, 1 on the axes
};

/// Operands: inputs, then the output.
KernelPtr makeReduce(ReduceSpec spec);

}  // namespace popxl::kernels
