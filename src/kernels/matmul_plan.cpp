#include "kernels/matmul_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "kernels/dense_pack.h"
#include "kernels/onednn_gemm.h"

namespace popxl::kernels {
namespace {

constexpr double kChunkFlops = 12e6;  // about 0.1 ms: well above the cost of waking a thread
constexpr double kSerialFlops = 4e6;  // below: one chunk
constexpr int64_t kMaxTiles = 64;
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
  const bool anyStrides = dense::computeOf(p.lhsType, "matmul") != dense::Compute::kF32;
  const auto packs = [&](DType t, int64_t rows, int64_t cols, int64_t row, int64_t col) {
    return !dense::isComputeType(t) || (!anyStrides && !dense::isGemmOperand(rows, cols, row, col));
  };
  p.packLhs = packs(p.lhsType, p.m, p.k, p.lhsRow, p.lhsCol);
  p.packRhs = packs(p.rhsType, p.k, p.n, p.rhsRow, p.rhsCol);
  const bool denseRows = (p.outCol == 1 || p.n == 1) && (p.outRow >= p.n || p.m == 1);
  p.packOut = !dense::isComputeType(p.outType) || !denseRows;
}

int64_t half(int64_t size, int64_t unit) { return std::max(unit, (size / 2 + unit - 1) / unit * unit); }

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

MatmulPlan planMatmul(const MatmulSpec& spec) {
  MatmulPlan p{};
  readShapes(spec, p);
  p.batches = 1;
  p.splitK = 1;
  p.batchesPerChunk = 1;
  orient(p);
  foldBatch(p);
  choosePacking(p);
  cutTiles(p);
  return p;
}

}  // namespace popxl::kernels
