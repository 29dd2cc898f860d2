#pragma once

#include <functional>

#include "kernels/dense_lanes.h"
#include "kernels/gemm_simd.h"
#include "kernels/matmul_plan.h"

namespace popxl::kernels {

/// Pieces of a product from packed operands, as panels of simd::GemmOps. Whoever works on a piece packs a
/// block of k of its columns, which stays in the second-level cache, and then of its rows a few at a time.
template <typename T>
class MatmulPanels {
 public:
  explicit MatmulPanels(const MatmulPlan& plan) : plan_(plan), ops_(simd::gemmOps<T>()) {}

  /// Scratch of a lane: packed blocks, and a block converted to T.
  struct Lane {
    T *lhs, *rhs, *converted;
  };
  Lane takeLane(dense::Carver& carver) const;

  /// What packs the whole rhs: operands rhs, packedElements() of T. From then on pointers to the rhs are to
  /// these.
  KernelPtr prepare();
  int64_t packedElements() const { return ops_.rhsElements(plan_.k, plan_.n); }

  /// out [piece.rows, piece.cols] = the product over the piece's part of k. Calls `done` with each block of
  /// whole rows as it is finished, in order.
  void multiply(const MatmulPiece& piece, const MatmulPointers& at, const Lane& lane, T* out, int64_t outRow,
                const std::function<void(const MatmulPiece& block)>& done) const;

 private:
  /// Lines (rows of the lhs, columns of the rhs) of an operand and a part of k.
  struct Block {
    int64_t line, lines, depth, depths;
  };
  void pack(bool ofLhs, const Block& block, const MatmulPointers& at, T* to, T* converted) const;

  const MatmulPlan& plan_;
  const simd::GemmOps<T>& ops_;
  bool prepared_ = false;
};

extern template class MatmulPanels<float>;
extern template class MatmulPanels<double>;
extern template class MatmulPanels<uint32_t>;
extern template class MatmulPanels<uint64_t>;

}  // namespace popxl::kernels
