#include "kernels/matmul.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.h"
#include "kernels/dense_lanes.h"
#include "kernels/dense_pack.h"
#include "kernels/matmul_epilogue.h"
#include "kernels/matmul_panels.h"
#include "kernels/onednn_gemm.h"

namespace popxl::kernels {
namespace {

using dense::Carver;
using dense::Matrix;
using dense::Operand;

/// Reads part of a matrix into `to` along the dimension that is closer in memory.
template <typename T>
Operand<T> pack(std::byte* data, DType type, int64_t rows, int64_t cols, int64_t row, int64_t col, T* to) {
  if (col == 1 || row != 1) {
    dense::load(Matrix{data, type, rows, cols, row, col}, to);
    return {to, cols, 1};
  }
  dense::load(Matrix{data, type, cols, rows, col, row}, to);
  return {to, 1, rows};
}

template <typename T>
class MatmulKernel final : public Kernel {
 public:
  using EpiloguePtr = std::unique_ptr<const MatmulEpilogue>;

  MatmulKernel(MatmulPlan plan, bool scaled, std::string text, EpiloguePtr epilogue)
      : plan_(std::move(plan)),
        scaled_(scaled),
        text_(std::move(text)),
        epilogue_(std::move(epilogue)),
        panels_(plan_),
        lanes_(dense::lanesFor(plan_.chunks())),
        scratch_(scratchNeeded()) {}
  MatmulKernel(const MatmulKernel&) = delete;  // panels_ refers to plan_

  void run(std::span<std::byte* const> operands) const override;
  int64_t scratchBytes() const override { return scratch_; }
  Preparation takePreparation() override {
    if (!plan_.prepares) return {};
    KernelPtr packer = panels_.prepare();
    scratch_ = scratchNeeded();
    return {1, panels_.packedElements() * static_cast<int64_t>(sizeof(T)), std::move(packer)};
  }
  double flops() const override {
    return 2.0 * static_cast<double>(plan_.m) * static_cast<double>(plan_.n) * static_cast<double>(plan_.k) *
           static_cast<double>(plan_.batches);
  }
  std::string describe() const override { return text_; }

 private:
  struct Lane {
    T *lhs, *rhs, *out;
    typename MatmulPanels<T>::Lane panels;
  };

  /// Elements from one piece along k to the next: a page lies between, as the processor fetches ahead within
  /// one and would take lines from the core that writes them.
  int64_t partialStep() const { return plan_.m * plan_.n + 4096 / static_cast<int64_t>(sizeof(T)); }
  /// Pieces along k, of all lanes.
  T* takePartials(Carver& carver) const {
    return carver.take<T>(plan_.splitK > 1 ? plan_.splitK * partialStep() : 0);
  }
  Lane takeLane(Carver& carver) const {
    const MatmulPlan& p = plan_;
    T* const out = carver.take<T>(p.packOut && p.splitK == 1 ? p.tileM * p.tileN : 0);
    if (usesPanels()) return {nullptr, nullptr, out, panels_.takeLane(carver)};
    return {carver.take<T>(p.packLhs ? p.tileM * p.panelK : 0),
            carver.take<T>(p.packRhs ? p.panelK * p.tileN : 0),
            out,
            {}};
  }
  int64_t scratchNeeded() const {
    Carver sizes;
    takePartials(sizes);
    for (int64_t i = 0; i < lanes_; ++i) takeLane(sizes);
    return sizes.used();
  }
  bool usesPanels() const { return plan_.path == MatmulPath::kPanels; }
  Matrix outMatrix(const MatmulPointers& at, int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    return {at.out + (row * plan_.outRow + col * plan_.outCol) * sizeOf(plan_.outType),
            plan_.outType,
            rows,
            cols,
            plan_.outRow,
            plan_.outCol};
  }
  /// What the pieces of one run share.
  struct Run {
    T* partials;
    T scale;
    std::span<std::byte* const> group;  ///< operands of the epilogue
  };
  void runPiece(const MatmulPiece& piece, const MatmulPointers& at, const Run& run, const Lane& lane) const;
  void multiplyDirect(const MatmulPiece& piece, const MatmulPointers& at, const Lane& lane, T* out,
                      int64_t outRow) const;
  void sumPartials(const T* partial, const MatmulPointers& at, T scale) const;
  void fillZero(const MatmulPointers& base) const;

  MatmulPlan plan_;
  bool scaled_;
  std::string text_;
  EpiloguePtr epilogue_;  ///< or null
  MatmulPanels<T> panels_;
  int64_t lanes_;
  int64_t scratch_;
};

template <typename T>
void MatmulKernel<T>::multiplyDirect(const MatmulPiece& piece, const MatmulPointers& at, const Lane& lane,
                                     T* out, int64_t outRow) const {
  const MatmulPlan& p = plan_;
  for (int64_t depth = piece.depth; depth < piece.depthEnd; depth += p.panelK) {
    const int64_t deep = std::min(p.panelK, piece.depthEnd - depth);
    std::byte* lhs = at.lhs + (piece.row * p.lhsRow + depth * p.lhsCol) * sizeOf(p.lhsType);
    std::byte* rhs = at.rhs + (depth * p.rhsRow + piece.col * p.rhsCol) * sizeOf(p.rhsType);
    const Operand<T> a = p.packLhs ? pack(lhs, p.lhsType, piece.rows, deep, p.lhsRow, p.lhsCol, lane.lhs)
                                   : Operand<T>{reinterpret_cast<T*>(lhs), p.lhsRow, p.lhsCol};
    const Operand<T> b = p.packRhs ? pack(rhs, p.rhsType, deep, piece.cols, p.rhsRow, p.rhsCol, lane.rhs)
                                   : Operand<T>{reinterpret_cast<T*>(rhs), p.rhsRow, p.rhsCol};
    if constexpr (std::is_same_v<T, float>) {
      dense::gemm(p.path, piece.rows, piece.cols, deep, a, b, out, outRow, depth > piece.depth);
    } else {
      dense::gemm(piece.rows, piece.cols, deep, a, b, out, outRow, depth > piece.depth);
    }
  }
}

template <typename T>
void MatmulKernel<T>::runPiece(const MatmulPiece& piece, const MatmulPointers& at, const Run& run,
                               const Lane& lane) const {
  const MatmulPlan& p = plan_;
  T* out = reinterpret_cast<T*>(at.out) + piece.row * p.outRow + piece.col * p.outCol;
  int64_t outRow = p.outRow;
  const bool through = p.packOut && p.splitK == 1;
  if (p.splitK > 1) {
    out = run.partials + piece.split * partialStep() + piece.row * p.n + piece.col;
    outRow = p.n;
  } else if (through) {
    out = lane.out;
    outRow = piece.cols;
  }
  const auto finish = [&](const MatmulPiece& block) {
    if (through) {
      dense::store(out + (block.row - piece.row) * outRow, outRow, run.scale,
                   outMatrix(at, block.row, block.rows, block.col, block.cols));
    }
    if (epilogue_ != nullptr) epilogue_->run(block, run.group);
  };
  if (usesPanels()) {
    panels_.multiply(piece, at, lane.panels, out, outRow, std::cref(finish));  // allocates nothing
  } else {
    multiplyDirect(piece, at, lane, out, outRow);
    finish(piece);
  }
}

/// Adds the pieces along k in order, a block of rows a chunk.
template <typename T>
void MatmulKernel<T>::sumPartials(const T* partial, const MatmulPointers& at, T scale) const {
  const int64_t m = plan_.m, n = plan_.n;
  const int64_t rows = std::clamp<int64_t>(kSerialElements / (n * plan_.splitK), 1, m);
  constexpr int64_t kBlock = 256;
  parallelFor((m + rows - 1) / rows, [&](int64_t chunk) {
    T sum[kBlock];
    for (int64_t i = chunk * rows; i < std::min(m, (chunk + 1) * rows); ++i) {
      for (int64_t j = 0; j < n; j += kBlock) {
        const int64_t width = std::min(kBlock, n - j);
        const T* from = partial + i * n + j;
        std::copy(from, from + width, sum);
        for (int64_t s = 1; s < plan_.splitK; ++s) {
          const T* next = from + s * partialStep();
          for (int64_t x = 0; x < width; ++x) sum[x] += next[x];
        }
        dense::store(sum, width, scale, outMatrix(at, i, 1, j, width));
      }
    }
  });
}

template <typename T>
void MatmulKernel<T>::fillZero(const MatmulPointers& base) const {
  constexpr T kZero[1] = {0};
  for (int64_t b = 0; b < plan_.batches; ++b) {
    const MatmulPointers at = batchPointers(plan_, base, b);
    for (int64_t i = 0; i < plan_.m; ++i) {
      for (int64_t j = 0; j < plan_.n; ++j) dense::store(kZero, 1, T{1}, outMatrix(at, i, 1, j, 1));
    }
  }
}

template <typename T>
void MatmulKernel<T>::run(std::span<std::byte* const> operands) const {
  const size_t count = scaled_ ? 4 : 3, more = epilogue_ == nullptr ? 0 : epilogue_->operands();
  POPXL_ASSERT(operands.size() >= count + more + (scratch_ > 0 ? 1 : 0), "{}: {} operands", text_,
               operands.size());
  const MatmulPointers base{operands[plan_.swapped ? 1 : 0], operands[plan_.swapped ? 0 : 1],
                            operands[count - 1]};
  if (plan_.m == 0 || plan_.n == 0 || plan_.batches == 0) return;
  if (plan_.k == 0) return fillZero(base);
  T scale{1};
  if (scaled_) {
    int32_t log2 = 0;
    std::memcpy(&log2, operands[2], sizeof(log2));
    scale = static_cast<T>(std::ldexp(1.0, log2));
  }
  std::byte* const scratch = scratch_ > 0 ? operands[count + more] : nullptr;
  Carver carver(scratch), one;
  const Run shared{takePartials(carver), scale, operands.subspan(count, more)};
  takeLane(one);
  std::byte* const lanes = scratch == nullptr ? nullptr : scratch + carver.used();
  const auto chunk = [&](int64_t index, int64_t lane) {
    Carver own(lanes + lane * one.used());
    const Lane memory = takeLane(own);
    const MatmulPiece piece = pieceOf(plan_, index);
    for (int64_t b = piece.batch; b < piece.batchEnd; ++b) {
      runPiece(piece, batchPointers(plan_, base, b), shared, memory);
    }
  };
  if (one.used() == 0) {
    parallelFor(plan_.chunks(), [&](int64_t index) { chunk(index, 0); });
  } else {
    dense::forLanes(plan_.chunks(), lanes_, chunk);
  }
  if (plan_.splitK > 1) sumPartials(shared.partials, base, scale);
}

void checkTypes(const MatmulSpec& s) {
  const bool float8 = isFloat8(s.lhs.dtype) && isFloat8(s.rhs.dtype) && s.out.dtype == DType::kFloat16;
  const bool same = s.lhs.dtype == s.rhs.dtype && s.lhs.dtype == s.out.dtype && !isFloat8(s.lhs.dtype);
  if (!same && !float8) {
    fail(ErrorKind::kType,
         "matmul: operands are {} and {}, the result is {}; expected one dtype for all three, or two float8 "
         "operands and a float16 result; cast an operand",
         nameOf(s.lhs.dtype), nameOf(s.rhs.dtype), nameOf(s.out.dtype));
  }
  POPXL_ASSERT(!s.scaled || float8, "a scale needs float8 operands, not {}", nameOf(s.lhs.dtype));
}

std::string describe(const MatmulSpec& s, const MatmulPlan& p) {
  const int64_t m = p.swapped ? p.n : p.m, n = p.swapped ? p.m : p.n;
  std::string text = fmt::format("matmul {} {}x{}x{}", nameOf(s.lhs.dtype), m, n, p.k);
  if (p.batches != 1) text += fmt::format(" x{}", p.batches);
  if (p.chunks() > 1) text += fmt::format(" in {} pieces", p.chunks());
  return text;
}

KernelPtr makeKernel(const MatmulSpec& spec, MatmulPlan plan, std::string text,
                     std::unique_ptr<const MatmulEpilogue> epilogue) {
  return dense::withCompute(dense::computeOf(spec.lhs.dtype, "matmul"), [&](auto zero) -> KernelPtr {
    return std::make_unique<MatmulKernel<decltype(zero)>>(std::move(plan), spec.scaled, std::move(text),
                                                          std::move(epilogue));
  });
}

}  // namespace

KernelPtr makeMatmul(const MatmulSpec& spec, std::optional<MatmulPath> path) {
  checkTypes(spec);
  MatmulPlan plan = planMatmul(spec, path);
  std::string text = describe(spec, plan);
  return makeKernel(spec, std::move(plan), std::move(text), nullptr);
}

KernelPtr makeMatmulWithGroup(const MatmulSpec& spec, const ElementwiseSpec& group) {
  checkTypes(spec);
  MatmulPlan plan = planMatmul(spec, {});
  // What stays in the caches anyhow gains nothing.
  if (plan.m * plan.n <= 2 * kSerialElements) return nullptr;
  auto epilogue = MatmulEpilogue::make(group, plan);
  if (epilogue == nullptr) return nullptr;
  std::string text = fmt::format("{} with {} results", describe(spec, plan), group.outputs.size());
  return makeKernel(spec, std::move(plan), std::move(text), std::move(epilogue));
}

MatmulPath matmulPath(const MatmulSpec& spec) { return planMatmul(spec, {}).path; }

}  // namespace popxl::kernels
