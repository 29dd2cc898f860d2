#include "kernels/matmul_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "kernels/dense_pack.h"
#include "kernels/dense_simd.h"
#include "kernels/gemm_simd.h"
#include "kernels/onednn_gemm.h"
#include "kernels/parallel.h"

namespace popxl::kernels {
namespace {

constexpr double kChunkFlops = 12e6;  // about 0.1 ms: well above the cost of waking a thread
constexpr double kSerialFlops = 4e6;  // below: one chunk
constexpr int64_t kMaxTiles = 64;
constexpr int64_t kFewTiles = 8;
constexpr int64_t kMinSplitDepth = 512;  // of a piece along k
constexpr int64_t kPanelDepth = 512;     // of a packed panel
constexpr int64_t kPanelTile = 256;      // its other side

/// The last two dimensions and, before them, the batch dimensions broadcast to those of the output.
void readShapes(const MatmulSpec& s, MatmulPlan& p) {
  POPXL_ASSERT(s.lhs.rank() >= 2 && s.rhs.rank() >= 2 && s.out.rank() >= 2, "ranks {} {} {}", s.lhs.rank(),
               s.rhs.rank(), s.out.rank());
  const auto last = [](const Layout& l, size_t back) { return l.shape[l.shape.size() - back]; };
  const auto step = [](const Layout& l, size_t back) { return l.strides[l.strides.size() - back]; };
  p.m = last(s.out, 2);
  p.n = last(s.out, 1);
  p.k = last(s.lhs, 1);
  POPXL_ASSERT(last(s.lhs, 2) == p.m && last(s.rhs, 2) == p.k && last(s.rhs, 1) == p.n,
               "lhs {} rhs {} out {}", toString(s.lhs.shape), toString(s.rhs.shape), toString(s.out.shape));
  p.lhsType = s.lhs.dtype;
  p.rhsType = s.rhs.dtype;
  p.outType = s.out.dtype;
  p.lhsRow = step(s.lhs, 2);
  p.lhsCol = step(s.lhs, 1);
  p.rhsRow = step(s.rhs, 2);
  p.rhsCol = step(s.rhs, 1);
  p.outRow = step(s.out, 2);
  p.outCol = step(s.out, 1);
  p.batch.assign(s.out.shape.begin(), s.out.shape.end() - 2);
  const auto batchStrides = [&](const Layout& l) {
    const size_t rank = l.shape.size() - 2;
    return broadcastStrides(std::span(l.shape).first(rank), std::span(l.strides).first(rank), p.batch);
  };
  p.lhsBatch = batchStrides(s.lhs);
  p.rhsBatch = batchStrides(s.rhs);
  p.outBatch = batchStrides(s.out);
}

/// A product whose output has dense columns is computed as the transposed one.
void orient(MatmulPlan& p) {
  if (p.outCol == 1 || p.n == 1 || (p.outRow != 1 && p.m != 1)) return;
  p.swapped = true;
  std::swap(p.m, p.n);
  std::swap(p.lhsType, p.rhsType);
  std::swap(p.lhsBatch, p.rhsBatch);
  std::swap(p.outRow, p.outCol);
  std::swap(p.lhsRow, p.rhsCol);
  std::swap(p.lhsCol, p.rhsRow);
}

/// Batch dimensions that the rhs does not have become rows, innermost first; ones of size 1 go.
void foldBatch(MatmulPlan& p) {
  for (size_t d = p.batch.size(); d-- > 0;) {
    const auto at = static_cast<std::ptrdiff_t>(d);
    const bool innermost = d + 1 == p.batch.size();
    const bool one = p.batch[d] == 1;
    const bool rows = innermost && p.rhsBatch[d] == 0 && p.m > 0 && p.lhsBatch[d] == p.m * p.lhsRow &&
                      p.outBatch[d] == p.m * p.outRow;
    if (!one && !rows) continue;
    if (!one) p.m *= p.batch[d];
    p.batch.erase(p.batch.begin() + at);
    p.lhsBatch.erase(p.lhsBatch.begin() + at);
    p.rhsBatch.erase(p.rhsBatch.begin() + at);
    p.outBatch.erase(p.outBatch.begin() + at);
  }
  p.batches = numElements(p.batch);
}

void choosePacking(MatmulPlan& p) {
  p.packLhs = !dense::isComputeType(p.lhsType);
  p.packRhs = !dense::isComputeType(p.rhsType);
  const bool denseRows = (p.outCol == 1 || p.n == 1) && (p.outRow >= p.n || p.m == 1);
  p.packOut = !dense::isComputeType(p.outType) || !denseRows;
}

int64_t half(int64_t size, int64_t unit) { return std::max(unit, (size / 2 + unit - 1) / unit * unit); }

double flopsOf(const MatmulPlan& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

/// What choosePath has to know of a product, or piece, of m x n.
Product productOf(const MatmulPlan& p, int64_t m, int64_t n, bool canPack) {
  Product product{m, n, p.k, p.rhsRow, p.lhsCol == 1, p.rhsRow == 1, false, false, canPack};
  if (dense::computeOf(p.lhsType, "matmul") != dense::Compute::kF32) return product;
  int64_t lhsRow = p.lhsRow, lhsCol = p.lhsCol, rhsRow = p.rhsRow, rhsCol = p.rhsCol;
  const auto converted = [](int64_t rows, int64_t cols, int64_t& row, int64_t& col) {
    const bool byRows = col == 1 || row != 1;
    row = byRows ? cols : 1;
    col = byRows ? 1 : rows;
  };
  if (p.packLhs) converted(m, p.k, lhsRow, lhsCol);
  if (p.packRhs) converted(p.k, n, rhsRow, rhsCol);
  product.canStream = dense::canStream(m, n, p.k, lhsRow, lhsCol, rhsRow, rhsCol, p.packOut ? n : p.outRow);
  product.canLibrary =
      dense::isGemmOperand(m, p.k, lhsRow, lhsCol) && dense::isGemmOperand(p.k, n, rhsRow, rhsCol);
  return product;
}

/// Size of the pieces of a side that is cut evenly into ones of `most` at most, each of whole units.
int64_t evenly(int64_t side, int64_t most, int64_t unit) {
  const int64_t pieces = (side + most - 1) / most;
  return ((side + pieces - 1) / pieces + unit - 1) / unit * unit;
}

/// Few elements and a long sum: tiles are cut along k, which decides about bits and so follows from shapes
/// alone.
void cutDepth(MatmulPlan& p, int64_t rows, int64_t cols, int64_t lanes) {
  constexpr int64_t kVectorsM = 16, kVectorsN = 24;
  p.tileM = evenly(p.m, kVectorsM * lanes, rows);
  p.tileN = evenly(p.n, kVectorsN * lanes, cols);
  const int64_t tiles = p.tilesM() * p.tilesN();
  const auto wanted = std::clamp<int64_t>(std::llround(flopsOf(p) / kChunkFlops), 2, kFewTiles);
  if (tiles * 2 <= wanted) p.splitK = std::clamp<int64_t>(p.k / kMinSplitDepth, 1, wanted / tiles);
}

/// Whether rows of the large operand are added up: an element of the result is no dot product in memory.
bool streamsRows(const MatmulPlan& p) {
  return p.path == MatmulPath::kStreamed && (p.m <= simd::kThinRows ? p.rhsCol == 1 : p.lhsRow == 1);
}

/// Cuts along k, so that everyone reads whole rows: memory is fast only in long runs.
void cutStream(MatmulPlan& p, int64_t wanted) {
  constexpr int64_t kMinRows = 64;
  int64_t& tile = p.m <= simd::kThinRows ? p.tileN : p.tileM;
  tile = std::min(tile, evenly(tile, simd::kThinColumns, 16));
  p.splitK = std::clamp<int64_t>(p.k / kMinRows, 1, std::max<int64_t>(wanted / (p.tilesM() * p.tilesN()), 1));
}

/// Time that all threads take for pieces of this size, in nanoseconds of the machine that was measured.
double timeOfPieces(const MatmulPlan& p, int64_t tileM, int64_t tileN) {
  constexpr double kFlops = 190, kPacked = 0.3, kRead = 0.15;  // in a nanosecond; nanoseconds an element
  constexpr double kUneven = 0.05;                             // of a piece: threads are not equally fast
  const int64_t pieces = ((p.m + tileM - 1) / tileM) * ((p.n + tileN - 1) / tileN), threads = threadCount();
  const int64_t mostOfOne = (pieces + threads - 1) / threads;  // that a thread takes
  const auto rounds = static_cast<double>(mostOfOne);
  const auto rows = static_cast<double>(tileM), cols = static_cast<double>(tileN);
  return (rounds + kUneven) *
         (2 * rows * cols / kFlops + (kPacked * rows + (p.prepares ? kRead : kPacked) * cols));
}

/// Pieces of the least time: whoever takes one packs its rows and its columns of the operands, so large ones
/// pack less, and a number that the threads share evenly leaves none idle. How they are cut changes no bit.
void cutPanels(MatmulPlan& p, int64_t rows, int64_t cols, int64_t lanes) {
  p.blockRows = kPanelHeights * rows;
  if (!p.prepares) cutDepth(p, rows, cols, lanes);
  if (p.splitK > 1) return;
  const int64_t mostRows = p.packOut ? kPanelTile : p.m;
  const int64_t leastM = (p.m + mostRows - 1) / mostRows;
  const int64_t leastN = (p.n + kPanelVectors * lanes - 1) / (kPanelVectors * lanes);
  const int64_t more = 2 * threadCount();
  double best = std::numeric_limits<double>::infinity();
  for (int64_t m = leastM; m <= leastM + more; ++m) {
    for (int64_t n = leastN; n <= leastN + more; ++n) {
      const int64_t tileM = evenly(p.m, (p.m + m - 1) / m, rows),
                    tileN = evenly(p.n, (p.n + n - 1) / n, cols);
      const double time = timeOfPieces(p, tileM, tileN);
      if (time >= best) continue;
      best = time;
      p.tileM = tileM;
      p.tileN = tileN;
    }
  }
}

/// Halves the tile, the side that costs less first, until there are enough pieces for the work.
void cutTiles(MatmulPlan& p) {
  p.tileM = std::max<int64_t>(p.m, 1);
  p.tileN = std::max<int64_t>(p.n, 1);
  const bool packs = p.packLhs || p.packRhs || p.packOut;
  p.panelK = p.packLhs || p.packRhs ? std::min(std::max<int64_t>(p.k, 1), kPanelDepth) : p.k;
  if (packs) {
    p.tileM = std::min(p.tileM, kPanelTile);
    p.tileN = std::min(p.tileN, kPanelTile);
  }
  // A thin product is bound by what it reads: an element counts as eight operations.
  const double each = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) +
                      8.0 * (static_cast<double>(p.m + p.n) * static_cast<double>(p.k));
  const double all = each * static_cast<double>(p.batches);
  if (all < kSerialFlops) {
    p.batchesPerChunk = std::max<int64_t>(p.batches, 1);
    return;
  }
  const auto wanted = std::clamp<int64_t>(std::llround(all / kChunkFlops), 2, kMaxTiles);
  if (p.batches >= wanted) {
    p.batchesPerChunk = std::clamp<int64_t>(static_cast<int64_t>(kChunkFlops / each), 1, p.batches / wanted);
    return;
  }
  if (p.batches == 1 && !packs && streamsRows(p)) return cutStream(p, wanted);
  while (p.tilesM() * p.tilesN() * p.batches < wanted) {
    if (p.tileN >= 192 && (p.tileN > 384 || p.tileM <= 256 || p.tileN >= p.tileM)) {
      p.tileN = half(p.tileN, 48);
    } else if (p.tileM >= 128) {
      p.tileM = half(p.tileM, 16);
    } else {
      break;
    }
  }
  const int64_t tiles = p.tilesM() * p.tilesN() * p.batches;
  if (p.batches == 1 && tiles * 2 <= wanted) {
    p.splitK = std::clamp<int64_t>(p.k / kMinSplitDepth, 1, wanted / tiles);
  }
}

}  // namespace

MatmulPiece pieceOf(const MatmulPlan& p, int64_t chunk) {
  MatmulPiece piece{};
  piece.split = chunk % p.splitK;
  chunk /= p.splitK;
  piece.col = chunk % p.tilesN() * p.tileN;
  chunk /= p.tilesN();
  piece.row = chunk % p.tilesM() * p.tileM;
  piece.batch = chunk / p.tilesM() * p.batchesPerChunk;
  piece.batchEnd = std::min(p.batches, piece.batch + p.batchesPerChunk);
  piece.cols = std::min(p.tileN, p.n - piece.col);
  piece.rows = std::min(p.tileM, p.m - piece.row);
  const int64_t unit = p.path == MatmulPath::kStreamed ? 2 : simd::kGemmDepth;
  const auto cut = [&](int64_t split) {
    return split == p.splitK ? p.k : p.k * split / p.splitK / unit * unit;
  };
  piece.depth = cut(piece.split);
  piece.depthEnd = cut(piece.split + 1);
  return piece;
}

MatmulPointers batchPointers(const MatmulPlan& p, MatmulPointers at, int64_t index) {
  for (size_t d = p.batch.size(); d-- > 0;) {
    const int64_t i = index % p.batch[d];
    index /= p.batch[d];
    at.lhs += i * p.lhsBatch[d] * sizeOf(p.lhsType);
    at.rhs += i * p.rhsBatch[d] * sizeOf(p.rhsType);
    at.out += i * p.outBatch[d] * sizeOf(p.outType);
  }
  return at;
}

namespace {

/// Whether packing the rhs once, in memory of its own, saves more than a tenth of the product.
bool paysToPrepare(const MatmulPlan& p) {
  constexpr int64_t kMostRows = 128, kLeastElements = 64 * 1024;
  if (p.swapped || p.batches != 1 || dense::computeOf(p.lhsType, "matmul") != dense::Compute::kF32)
    return false;
  return !p.packRhs && p.m > simd::kThinRows && p.m <= kMostRows && p.k * p.n >= kLeastElements;
}

}  // namespace

MatmulPlan planMatmul(const MatmulSpec& spec, std::optional<MatmulPath> path) {
  MatmulPlan p{};
  readShapes(spec, p);
  p.batches = 1;
  p.splitK = 1;
  p.batchesPerChunk = 1;
  orient(p);
  foldBatch(p);
  choosePacking(p);
  const bool canPack = p.batches == 1 && flopsOf(p) >= kSerialFlops;
  p.prepares = spec.fixedRhs && !path && paysToPrepare(p);
  p.path = p.prepares ? MatmulPath::kPanels : path.value_or(choosePath(productOf(p, p.m, p.n, canPack)));
  if (p.path == MatmulPath::kPanels) {
    dense::withCompute(dense::computeOf(p.lhsType, "matmul"), [&](auto zero) {
      const auto& ops = simd::gemmOps<decltype(zero)>();
      cutPanels(p, ops.rows, ops.cols, ops.lanes);
    });
  } else {
    cutTiles(p);
    p.path = path.value_or(choosePath(productOf(p, p.tileM, p.tileN, false)));
  }
  return p;
}

}  // namespace popxl::kernels
