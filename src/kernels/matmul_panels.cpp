#include "kernels/matmul_panels.h"

#include <algorithm>

#include "kernels/dense_pack.h"

namespace popxl::kernels {

template <typename T>
typename MatmulPanels<T>::Lane MatmulPanels<T>::takeLane(dense::Carver& carver) const {
  const MatmulPlan& p = plan_;
  const int64_t depth = std::min(simd::kGemmDepth, p.k);
  const int64_t converted = std::max(p.packLhs ? p.tileM : 0, p.packRhs ? p.tileN : 0);
  T* const lhs = carver.take<T>(ops_.lhsElements(p.tileM, depth));
  T* const rhs = carver.take<T>(ops_.rhsElements(depth, p.tileN));
  return {lhs, rhs, carver.take<T>(converted * depth)};
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
void MatmulPanels<T>::multiply(const MatmulPiece& piece, const MatmulPointers& at, const Lane& lane, T* out,
                               int64_t outRow) const {
  for (int64_t depth = piece.depth; depth < piece.depthEnd; depth += simd::kGemmDepth) {
    const int64_t depths = std::min(simd::kGemmDepth, piece.depthEnd - depth);
    pack(true, {piece.row, piece.rows, depth, depths}, at, lane.lhs, lane.converted);
    pack(false, {piece.col, piece.cols, depth, depths}, at, lane.rhs, lane.converted);
    ops_.multiply(piece.rows, piece.cols, depths, lane.lhs, 0, 0, lane.rhs, out, outRow, depth > piece.depth);
  }
}

template class MatmulPanels<float>;
template class MatmulPanels<double>;
template class MatmulPanels<uint32_t>;
template class MatmulPanels<uint64_t>;

}  // namespace popxl::kernels
