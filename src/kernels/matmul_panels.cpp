#include "kernels/matmul_panels.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/dense_pack.h"
#include "kernels/parallel.h"

namespace popxl::kernels {

namespace {

/// Blocks of k one after the other, each as GemmOps packs it.
template <typename T>
class PackRhs final : public Kernel {
 public:
  explicit PackRhs(const MatmulPlan& plan) : k_(plan.k), n_(plan.n), row_(plan.rhsRow), col_(plan.rhsCol) {}

  void run(std::span<std::byte* const> operands) const override {
    const auto& ops = simd::gemmOps<T>();
    const auto* from = reinterpret_cast<const T*>(operands[0]);
    auto* to = reinterpret_cast<T*>(operands[1]);
    parallelFor((k_ + simd::kGemmDepth - 1) / simd::kGemmDepth, [&](int64_t block) {
      const int64_t depth = block * simd::kGemmDepth;
      ops.packRhs(std::min(simd::kGemmDepth, k_ - depth), n_, from + depth * row_, row_, col_,
                  to + ops.rhsElements(depth, n_));
    });
  }
  std::string describe() const override { return fmt::format("pack {}x{} for products", k_, n_); }

 private:
  int64_t k_, n_, row_, col_;
};

}  // namespace

template <typename T>
KernelPtr MatmulPanels<T>::prepare() {
  prepared_ = true;
  return std::make_unique<PackRhs<T>>(plan_);
}

template <typename T>
typename MatmulPanels<T>::Lane MatmulPanels<T>::takeLane(dense::Carver& carver) const {
  const MatmulPlan& p = plan_;
  const int64_t depth = std::min(simd::kGemmDepth, p.k);
  const int64_t rows = std::min(p.tileM, p.blockRows);
  const int64_t converted = std::max(p.packLhs ? rows : 0, p.packRhs ? p.tileN : 0);
  T* const lhs = carver.take<T>(ops_.lhsElements(rows, depth));
  T* const rhs = prepared_ ? nullptr : carver.take<T>(ops_.rhsElements(depth, p.tileN));
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
                               int64_t outRow,
                               const std::function<void(const MatmulPiece& block)>& done) const {
  for (int64_t depth = piece.depth; depth < piece.depthEnd; depth += simd::kGemmDepth) {
    const int64_t depths = std::min(simd::kGemmDepth, piece.depthEnd - depth);
    const T* rhs = lane.rhs;
    if (prepared_) {
      rhs = reinterpret_cast<const T*>(at.rhs) + ops_.rhsElements(depth, plan_.n) + piece.col * depths;
    } else {
      pack(false, {piece.col, piece.cols, depth, depths}, at, lane.rhs, lane.converted);
    }
    MatmulPiece block = piece;
    for (int64_t row = 0; row < piece.rows; row += plan_.blockRows) {
      block.row = piece.row + row;
      block.rows = std::min(plan_.blockRows, piece.rows - row);
      pack(true, {block.row, block.rows, depth, depths}, at, lane.lhs, lane.converted);
      ops_.multiply(block.rows, block.cols, depths, lane.lhs, 0, 0, rhs, out + row * outRow, outRow,
                    depth > piece.depth);
      if (depth + depths == piece.depthEnd) done(block);
    }
  }
}

template class MatmulPanels<float>;
template class MatmulPanels<double>;
template class MatmulPanels<uint32_t>;
template class MatmulPanels<uint64_t>;

}  // namespace popxl::kernels
