#pragma once

#include "kernels/matmul.h"

namespace popxl::kernels {

/// How a matmul is cut into pieces; made from shapes and strides alone.
struct MatmulPlan {
  int64_t m, n, k;
  DType lhsType, rhsType, outType;
  int64_t lhsRow, lhsCol, rhsRow, rhsCol, outRow, outCol;  ///< strides of the matrices
  Shape batch;                                             ///< broadcast batch dimensions left over
  Strides lhsBatch, rhsBatch, outBatch;
  int64_t batches = 1;
  bool swapped = false;  ///< out^T = rhs^T lhs^T: the plan's lhs is the spec's rhs transposed

  MatmulPath path = MatmulPath::kDirect;
  bool prepares = false;           ///< the rhs is packed once, before the runs
  bool packLhs, packRhs, packOut;  ///< the operand goes through scratch in the compute type
  int64_t tileM, tileN;            ///< sizes of a piece of the output
  int64_t blockRows;               ///< rows of a piece that are worked on at a time
  int64_t panelK;                  ///< depth of a packed panel; k when nothing is packed
  int64_t splitK = 1;              ///< pieces along k, summed in order at the end (one batch only)
  int64_t batchesPerChunk = 1;

  int64_t tilesM() const { return (m + tileM - 1) / tileM; }
  int64_t tilesN() const { return (n + tileN - 1) / tileN; }
  int64_t chunks() const {
    return tilesM() * tilesN() * splitK * ((batches + batchesPerChunk - 1) / batchesPerChunk);
  }
};

/// `path` overrules the choice by shape.
MatmulPlan planMatmul(const MatmulSpec& spec, std::optional<MatmulPath> path);

struct MatmulPointers {
  std::byte *lhs, *rhs, *out;
};
/// Where the matrices of a batch lie.
MatmulPointers batchPointers(const MatmulPlan& plan, MatmulPointers at, int64_t batch);

/// A chunk of the work: some batches, a tile of the output, a piece of k.
struct MatmulPiece {
  int64_t batch, batchEnd, row, rows, col, cols, depth, depthEnd, split;
};
MatmulPiece pieceOf(const MatmulPlan& plan, int64_t chunk);

}  // namespace popxl::kernels
