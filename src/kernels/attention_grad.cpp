#include <utility>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/attention_heads.h"
#include "kernels/rows_simd.h"

namespace popxl::kernels {
namespace {

using namespace attention;
using dense::Carver;

constexpr double kSerialFlops = 4e6;
constexpr int64_t kChunks = 64;  // at most

template <typename C>
class AttentionGradKernel final : public Kernel {
 public:
  explicit AttentionGradKernel(const AttentionGradSpec& spec)
      : heads_(spec.grad.shape.begin(), spec.grad.shape.end() - 2),
        q_(spec.q, heads_),
        k_(spec.k, heads_),
        v_(spec.v, heads_),
        p_(spec.probabilities, heads_),
        grad_(spec.grad, heads_),
        dq_(spec.dq, heads_),
        dk_(spec.dk, heads_),
        dv_(spec.dv, heads_),
        scale_(static_cast<C>(spec.scale)) {
    POPXL_ASSERT(p_.rows == q_.rows && p_.cols == k_.rows && v_.rows == k_.rows && grad_.rows == q_.rows,
                 "attention gradient of {} {} {}", toString(spec.q.shape), toString(spec.k.shape),
                 toString(spec.v.shape));
    if (spec.keep) keep_ = broadcastMatrix(*spec.keep, heads_, p_.rows, p_.cols);
    block_ = blockRows(q_.rows, k_.rows, sizeof(C));
    const int64_t heads = numElements(heads_);
    if (heads > 0) {
      const auto wanted = std::clamp<int64_t>(static_cast<int64_t>(flops() / kSerialFlops), 1, kChunks);
      headsPerChunk_ = std::max<int64_t>(1, heads / wanted);
      chunks_ = (heads + headsPerChunk_ - 1) / headsPerChunk_;
      lanes_ = dense::lanesFor(chunks_);
    }
    text_ = fmt::format("attention gradient {} {}x{}x{} x{}", nameOf(grad_.dtype), q_.rows, k_.rows, q_.cols,
                        heads);
    Carver carver;
    laneOf(carver);
    laneBytes_ = carver.used();
  }

  void run(std::span<std::byte* const> operands) const override;
  int64_t scratchBytes() const override { return lanes_ * laneBytes_; }
  double flops() const override {
    return 4.0 * static_cast<double>(numElements(heads_) * q_.rows * k_.rows) *
           static_cast<double>(q_.cols + v_.cols);
  }
  std::string describe() const override { return text_; }

 private:
  struct Lane {
    C *q, *k, *v, *p, *grad, *qPacked, *kPacked, *vPacked, *gradPacked, *scores, *dq, *dk, *dv;
  };
  /// The operands of one head.
  struct Head {
    Matrix q, k, v, p, grad;
    std::optional<Matrix> keep;
    Matrix dq, dk, dv;
  };

  Lane laneOf(Carver& carver) const {
    const auto in = [&](const HeadMatrix& m, int64_t rows) {
      return bufferOf<C>(carver, readsInPlace<C>(m, true) ? 0 : rows * m.cols);
    };
    const auto out = [&](const HeadMatrix& m, int64_t rows) {
      return bufferOf<C>(carver, writesInPlace<C>(m) ? 0 : rows * m.cols);
    };
    const auto pack = [&](int64_t k, int64_t n) {
      return bufferOf<C>(carver, simd::gemmOps<C>().rhsElements(k, n));
    };
    Lane lane{};
    lane.q = in(q_, block_);
    lane.k = in(k_, k_.rows);
    lane.v = in(v_, v_.rows);
    lane.p = bufferOf<C>(carver, readsInPlace<C>(p_, true) && p_.col == 1 ? 0 : block_ * p_.cols);
    lane.grad = in(grad_, block_);
    lane.qPacked = pack(block_, q_.cols);
    lane.kPacked = pack(k_.rows, k_.cols);
    lane.vPacked = pack(v_.cols, v_.rows);
    lane.gradPacked = pack(block_, grad_.cols);
    lane.scores = bufferOf<C>(carver, block_ * p_.cols);
    lane.dq = out(dq_, block_);
    lane.dk = out(dk_, dk_.rows);
    lane.dv = out(dv_, dv_.rows);
    return lane;
  }
  Head headOf(std::span<std::byte* const> operands, int64_t index) const;
  void scoreGrads(const Head& head, int64_t row, int64_t rows, Operand<C> p, C* scores) const;
  void runHead(const Head& head, const Lane& lane) const;

  Shape heads_;
  HeadMatrix q_, k_, v_, p_, grad_, dq_, dk_, dv_;
  std::optional<HeadMatrix> keep_;
  C scale_;
  int64_t block_ = 1, headsPerChunk_ = 1, chunks_ = 0, lanes_ = 0, laneBytes_ = 0;
  std::string text_;
};

template <typename C>
typename AttentionGradKernel<C>::Head AttentionGradKernel<C>::headOf(std::span<std::byte* const> operands,
                                                                     int64_t index) const {
  size_t next = 0;
  const auto at = [&](const HeadMatrix& m) { return m.at(operands[next++], heads_, index); };
  Head head{at(q_), at(k_), at(v_), at(p_), at(grad_), {}, {}, {}, {}};
  if (keep_) head.keep = at(*keep_);
  head.dq = at(dq_);
  head.dk = at(dk_);
  head.dv = at(dv_);
  return head;
}

/// `scores` holds the gradient of some rows of P and becomes that of q k^T.
template <typename C>
void AttentionGradKernel<C>::scoreGrads(const Head& head, int64_t row, int64_t rows, Operand<C> p,
                                        C* scores) const {
  const auto& ops = simd::rowOps<C>();
  const int64_t n = p_.cols;
  for (int64_t i = 0; i < rows; ++i) {
    C* const x = scores + i * n;
    const C* const y = p.data + i * p.row;
    ops.softmaxGrad(y, x, ops.dot(y, x, n), x, n);
    if (scale_ != C{1}) ops.scale(x, scale_, x, n);
    if (head.keep) fillMasked(rowsOf(*head.keep, row + i, 1), C{0}, x);
  }
}

template <typename C>
void AttentionGradKernel<C>::runHead(const Head& head, const Lane& lane) const {
  const int64_t n = p_.cols, width = q_.cols, depth = v_.cols;
  const Rhs<C> k = packRhs(n, width, read(head.k, lane.k), lane.kPacked);
  const Rhs<C> vT = packRhs(depth, n, transposed(read(head.v, lane.v)), lane.vPacked);
  const Target<C> dk = target(head.dk, lane.dk), dv = target(head.dv, lane.dv);
  for (int64_t row = 0; row == 0 || row < q_.rows; row += block_) {  // without rows dk and dv are 0
    const int64_t rows = std::min(block_, q_.rows - row);
    const Rhs<C> q = packRhs(rows, width, read(rowsOf(head.q, row, rows), lane.q), lane.qPacked);
    const Operand<C> p = read(rowsOf(head.p, row, rows), lane.p);
    const Operand<C> grad = read(rowsOf(head.grad, row, rows), lane.grad);
    const Rhs<C> values = packRhs(rows, depth, grad, lane.gradPacked);
    const Target<C> scores{lane.scores, n};
    const Operand<C> dScores{lane.scores, n, 1};
    product<C>(rows, n, depth, grad, vT, scores, false);
    product<C>(n, depth, rows, transposed(p), values, dv, row > 0);
    scoreGrads(head, row, rows, p, lane.scores);
    product<C>(n, width, rows, transposed(dScores), q, dk, row > 0);
    const Matrix dq = rowsOf(head.dq, row, rows);
    product<C>(rows, width, n, dScores, k, target(dq, lane.dq), false);
    finish(dq, lane.dq);
  }
  finish(head.dk, lane.dk);
  finish(head.dv, lane.dv);
}

template <typename C>
void AttentionGradKernel<C>::run(std::span<std::byte* const> operands) const {
  std::byte* const scratch = laneBytes_ > 0 && lanes_ > 0 ? operands.back() : nullptr;
  dense::forLanes(chunks_, lanes_, [&](int64_t chunk, int64_t index) {
    Carver carver(scratch + index * laneBytes_);
    const Lane lane = laneOf(carver);
    const int64_t first = chunk * headsPerChunk_;
    for (int64_t h = first; h < std::min(first + headsPerChunk_, numElements(heads_)); ++h) {
      runHead(headOf(operands, h), lane);
    }
  });
}

}  // namespace

KernelPtr makeAttentionGrad(AttentionGradSpec spec) {
  return withFloatCompute(spec.grad.dtype, [&](auto zero) -> KernelPtr {
    return std::make_unique<AttentionGradKernel<decltype(zero)>>(spec);
  });
}

}  // namespace popxl::kernels
