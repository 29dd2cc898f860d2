#pragma once

#include <optional>

#include "kernels/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/matmul_choice.h"

namespace popxl::kernels {

/// Batched matrix product: lhs [..., M, K] x rhs [..., K, N] -> out [..., M, N], every operand of rank 2 or
/// more; the leading dimensions broadcast as NumPy's do (a 1-D operand is reshaped by the caller). Strides of
/// the inputs are free: a transposed operand is one with other strides. `out` has distinct elements and any
/// strides.
///
/// lhs and rhs have one dtype: float16, float32, float64, an integer, or any pair of the two float8 types.
/// The output has the same dtype; for float8 it is float16. float16 and float8 accumulate in float32 and
/// round once; integers wrap.
struct MatmulSpec {
  Layout lhs;
  Layout rhs;
  Layout out;
  bool scaled = false;    ///< float8: the product is multiplied by 2^s, s an int32 scalar operand after rhs
  bool fixedRhs = false;  ///< rhs is the same in all runs: packed once where that pays (takePreparation)
};

/// Operands: lhs, rhs, [log2 of the scale], out. Throws Error(kType) for dtypes not listed above. `path`
/// overrules the choice by shape, for measurements.
KernelPtr makeMatmul(const MatmulSpec& spec, std::optional<MatmulPath> path = {});
/// A product and an elementwise group over its positions, applied to each piece while it is in the cache.
/// Operands: those of makeMatmul, then those of makeElementwise; the product is one of the group's inputs,
/// and nothing that the group writes is an operand of the product. Null where the group has to run on its
/// own: where the product is small or pieces of it can't be worked on alone.
KernelPtr makeMatmulWithGroup(const MatmulSpec& spec, const ElementwiseSpec& group);
/// The path that makeMatmul chooses.
MatmulPath matmulPath(const MatmulSpec& spec);

}  // namespace popxl::kernels
