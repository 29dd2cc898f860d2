#include "kernels/matmul_panels.h"

#include "kernels/dense_pack.h"

namespace popxl::kernels {
namespace {

constexpr int64_t kDepth = simd::kGemmDepth;
constexpr int64_t kRawRows = 256;    // fewer rows of A that are dense along k are not worth packing
constexpr int64_t kGroupPanels = 8;  // packed panels of the shared operand that a slab meets at once

}  // namespace

template <typename T>
MatmulPanels<T>::MatmulPanels(const MatmulPlan& plan)
    : plan_(plan),
      ops_(simd::gemmOps<T>()),
      shareLhs_(!plan.slabsOfRows()),
      lhsAsItLies_(!plan.packLhs && plan.lhsCol == 1 && plan.m <= kRawRows),
      group_(kGroupPanels * (shareLhs_ ? ops_.rows : ops_.cols)) {}

template <typename T>
T* MatmulPanels<T>::takeShared(dense::Carver& carver) const {
  if (shareLhs_ && lhsAsItLies_) return nullptr;
  const int64_t lines = sharedLines();
  const int64_t each = lines / group_ * perDepth(shareLhs_, group_) + perDepth(shareLhs_, lines % group_);
  return carver.take<T>(each * plan_.k);
}

template <typename T>
typename MatmulPanels<T>::Lane MatmulPanels<T>::takeLane(dense::Carver& carver) const {
  const MatmulPlan& p = plan_;
  const int64_t depth = std::min(kDepth, p.k), slab = shareLhs_ ? p.tileN : p.tileM;
  const int64_t converted =
      std::max(p.packLhs ? shareLhs_ ? group_ : slab : 0, p.packRhs ? shareLhs_ ? slab : group_ : 0);
  const int64_t packed = shareLhs_ || !lhsAsItLies_ ? perDepth(!shareLhs_, slab) * depth : 0;
  return {carver.take<T>(packed), carver.take<T>(converted * depth)};
}

template <typename T>
void MatmulPanels<T>::pack(bool ofLhs, const Block& b, const MatmulPointers& at, T* to, T* converted) const {
  const MatmulPlan& p = plan_;
  const DType type = ofLhs ? p.lhsType : p.rhsType;
  int64_t line = ofLhs ? p.lhsRow : p.rhsCol, deep = ofLhs ? p.lhsCol : p.rhsRow;
  std::byte* from = (ofLhs ? at.lhs : at.rhs) + (b.line * line + b.depth * deep) * sizeOf(type);
  const T* data = reinterpret_cast<const T*>(from);
  if (!dense::isComputeType(type)) {
    if (deep == 1 || line != 1) {
      dense::load(dense::Matrix{from, type, b.lines, b.depths, line, deep}, converted);
      line = b.depths;
      deep = 1;
    } else {
      dense::load(dense::Matrix{from, type, b.depths, b.lines, deep, line}, converted);
      deep = b.lines;
    }
    data = converted;
  }
  if (ofLhs) {
    ops_.packLhs(b.lines, b.depths, data, line, deep, to);
  } else {
    ops_.packRhs(b.depths, b.lines, data, deep, line, to);
  }
}

template <typename T>
typename MatmulPanels<T>::Left MatmulPanels<T>::leftOf(const Block& b, const MatmulPointers& at,
                                                       const T* packed) const {
  if (!lhsAsItLies_) return {packed, 0, 0};
  const T* data = reinterpret_cast<const T*>(at.lhs) + b.line * plan_.lhsRow + b.depth * plan_.lhsCol;
  return {data, plan_.lhsRow, plan_.lhsCol};
}

template <typename T>
void MatmulPanels<T>::packShared(const MatmulPointers& at, T* shared, std::byte* lanes, int64_t laneBytes,
                                 int64_t laneCount) const {
  if (shareLhs_ && lhsAsItLies_) return;
  const int64_t lines = sharedLines(), groups = (lines + group_ - 1) / group_;
  const int64_t blocks = (plan_.k + kDepth - 1) / kDepth;
  dense::forLanes(groups * blocks, laneCount, [&](int64_t index, int64_t lane) {
    const int64_t line = index / blocks * group_, depth = index % blocks * kDepth;
    const Block block{line, std::min(group_, lines - line), depth, std::min(kDepth, plan_.k - depth)};
    dense::Carver carver(lanes + lane * laneBytes);
    pack(shareLhs_, block, at, shared + sharedOffset(block), takeLane(carver).converted);
  });
}

template <typename T>
void MatmulPanels<T>::multiply(const MatmulPiece& piece, const MatmulPointers& at, const T* shared,
                               const Lane& lane, T* out, int64_t outRow) const {
  const int64_t lines = sharedLines();
  for (int64_t depth = piece.depth; depth < piece.depthEnd; depth += kDepth) {
    const int64_t depths = std::min(kDepth, piece.depthEnd - depth);
    const Block slab =
        shareLhs_ ? Block{piece.col, piece.cols, depth, depths} : Block{piece.row, piece.rows, depth, depths};
    if (shareLhs_ || !lhsAsItLies_) pack(!shareLhs_, slab, at, lane.slab, lane.converted);
    for (int64_t line = 0; line < lines; line += group_) {
      const Block group{line, std::min(group_, lines - line), depth, depths};
      const T* other = shared + sharedOffset(group);
      const bool more = depth > piece.depth;
      if (shareLhs_) {
        const Left left = leftOf(group, at, other);
        ops_.multiply(group.lines, piece.cols, depths, left.data, left.row, left.col, lane.slab,
                      out + line * outRow, outRow, more);
      } else {
        const Left left = leftOf(slab, at, lane.slab);
        ops_.multiply(piece.rows, group.lines, depths, left.data, left.row, left.col, other, out + line,
                      outRow, more);
      }
    }
  }
}

template class MatmulPanels<float>;
template class MatmulPanels<double>;
template class MatmulPanels<uint32_t>;
template class MatmulPanels<uint64_t>;

}  // namespace popxl::kernels
