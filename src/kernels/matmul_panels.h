#pragma once

#include "kernels/dense_lanes.h"
#include "kernels/gemm_simd.h"
#include "kernels/matmul_plan.h"

namespace popxl::kernels {

/// The operands of one matrix product as panels of simd::GemmOps. One operand is packed whole by all threads;
/// the other is cut into slabs, each packed, a block of k at a time, by the lane that works on it.
template <typename T>
class MatmulPanels {
 public:
  explicit MatmulPanels(const MatmulPlan& plan);

  /// What a lane needs for itself.
  struct Lane {
    T *slab, *converted;
  };
  T* takeShared(dense::Carver& carver) const;
  Lane takeLane(dense::Carver& carver) const;

  /// Packs the shared operand. `lanes`: scratch of `laneBytes` each for `laneCount` lanes.
  void packShared(const MatmulPointers& at, T* shared, std::byte* lanes, int64_t laneBytes,
                  int64_t laneCount) const;
  /// out [piece.rows, piece.cols] = the product over the piece's part of k.
  void multiply(const MatmulPiece& piece, const MatmulPointers& at, const T* shared, const Lane& lane, T* out,
                int64_t outRow) const;

 private:
  /// Lines (rows of the lhs, columns of the rhs) of an operand and a part of k.
  struct Block {
    int64_t line, lines, depth, depths;
  };
  struct Left {
    const T* data;
    int64_t row, col;  ///< 0: packed
  };
  /// Rows of the lhs and a part of k, as they lie or `packed`.
  Left leftOf(const Block& block, const MatmulPointers& at, const T* packed) const;
  int64_t perDepth(bool ofLhs, int64_t lines) const {
    return ofLhs ? ops_.lhsElements(lines, 1) : ops_.rhsElements(1, lines);
  }
  int64_t sharedLines() const { return shareLhs_ ? plan_.m : plan_.n; }
  int64_t sharedOffset(const Block& b) const {
    return b.line / group_ * perDepth(shareLhs_, group_) * plan_.k + b.depth * perDepth(shareLhs_, b.lines);
  }
  void pack(bool ofLhs, const Block& block, const MatmulPointers& at, T* to, T* converted) const;

  const MatmulPlan& plan_;
  const simd::GemmOps<T>& ops_;
  bool shareLhs_;
  bool lhsAsItLies_;
  int64_t group_;  ///< lines of the shared operand that are packed and worked on at once
};

extern template class MatmulPanels<float>;
extern template class MatmulPanels<double>;
extern template class MatmulPanels<uint32_t>;
extern template class MatmulPanels<uint64_t>;

}  // namespace popxl::kernels
