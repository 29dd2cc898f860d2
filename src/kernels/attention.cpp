#include "kernels/attention.h"

#include <utility>

#include "base/error.h"
#include "kernels/attention_heads.h"
#include "kernels/rows_simd.h"

namespace popxl::kernels {
namespace {

using namespace attention;
using dense::Carver;

constexpr double kChunkFlops = 4e5;  // where few rows read them, a hundred KB or more
constexpr int64_t kChunks = 16;      // wanted at least, where the work is worth it

template <typename C>
class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const AttentionSpec& spec)
      : heads_(spec.out.shape.begin(), spec.out.shape.end() - 2),
        q_(spec.q, heads_),
        k_(spec.k, heads_),
        v_(spec.v, heads_),
        out_(spec.out, heads_),
        scale_(static_cast<C>(spec.scale)),
        fill_(static_cast<C>(spec.fill)),
        packs_(q_.rows > simd::kThinRows) {
    POPXL_ASSERT(q_.cols == k_.cols && k_.rows == v_.rows && out_.rows == q_.rows && out_.cols == v_.cols,
                 "attention of {} {} {} to {}", toString(spec.q.shape), toString(spec.k.shape),
                 toString(spec.v.shape), toString(spec.out.shape));
    if (spec.bias) bias_ = broadcastMatrix(*spec.bias, heads_, q_.rows, k_.rows);
    if (spec.keep) keep_ = broadcastMatrix(*spec.keep, heads_, q_.rows, k_.rows);
    if (spec.probabilities) probabilities_.emplace(*spec.probabilities, heads_);
    cut();
    text_ = fmt::format("attention {} {}x{}x{} x{}", nameOf(out_.dtype), q_.rows, k_.rows, q_.cols,
                        numElements(heads_));
    Carver carver;
    laneOf(carver);
    laneBytes_ = carver.used();
  }

  void run(std::span<std::byte* const> operands) const override;
  int64_t scratchBytes() const override { return lanes_ * laneBytes_; }
  double flops() const override {
    return 2.0 * static_cast<double>(numElements(heads_) * q_.rows * k_.rows) *
           static_cast<double>(q_.cols + v_.cols);
  }
  std::string describe() const override { return text_; }

 private:
  struct Lane {
    C *q, *k, *v, *kPacked, *vPacked, *scores, *out, *mask;
  };
  /// The operands of one head.
  struct Head {
    Matrix q, k, v, out;
    std::optional<Matrix> bias, keep, probabilities;
  };

  /// A chunk is some heads, or some rows of one.
  void cut() {
    block_ = blockRows(q_.rows, k_.rows, sizeof(C));
    const int64_t heads = numElements(heads_);
    const int64_t blocks = (q_.rows + block_ - 1) / block_;
    if (heads == 0 || blocks == 0) return;
    // Few rows are bound by what they read: an element counts as eight operations.
    const double read = 8.0 * static_cast<double>(heads * (k_.size() + v_.size()));
    const auto wanted = std::clamp<int64_t>(static_cast<int64_t>((flops() + read) / kChunkFlops), 1, kChunks);
    headsPerChunk_ = std::max<int64_t>(1, heads / wanted);
    const int64_t pieces = std::min(blocks, (wanted + heads - 1) / heads);
    rowsPerChunk_ = (blocks + pieces - 1) / pieces * block_;
    pieces_ = (q_.rows + rowsPerChunk_ - 1) / rowsPerChunk_;
    chunks_ = (heads + headsPerChunk_ - 1) / headsPerChunk_ * pieces_;
    lanes_ = dense::lanesFor(chunks_);
  }

  Lane laneOf(Carver& carver) const {
    const bool own = probabilities_ && writesInPlace<C>(*probabilities_);
    return {bufferOf<C>(carver, block_ * q_.cols),
            bufferOf<C>(carver, readsInPlace<C>(k_, packs_) ? 0 : k_.size()),
            bufferOf<C>(carver, readsInPlace<C>(v_, packs_) ? 0 : v_.size()),
            bufferOf<C>(carver, packs_ ? simd::gemmOps<C>().rhsElements(k_.cols, k_.rows) : 0),
            bufferOf<C>(carver, packs_ ? simd::gemmOps<C>().rhsElements(v_.rows, v_.cols) : 0),
            bufferOf<C>(carver, own ? 0 : block_ * k_.rows),
            bufferOf<C>(carver, writesInPlace<C>(out_) ? 0 : block_ * out_.cols),
            bufferOf<C>(carver, bias_ || keep_ ? k_.rows : 0)};
  }
  Head headOf(std::span<std::byte* const> operands, int64_t index) const;
  void mask(const Head& head, int64_t row, C* scores, C* buffer) const;
  void runHead(const Head& head, int64_t first, int64_t last, const Lane& lane) const;

  Shape heads_;
  HeadMatrix q_, k_, v_, out_;
  std::optional<HeadMatrix> bias_, keep_, probabilities_;
  C scale_, fill_;
  bool packs_;  // a few rows read keys and values as they lie
  int64_t block_ = 1, headsPerChunk_ = 1, rowsPerChunk_ = 1, pieces_ = 1, chunks_ = 0, lanes_ = 0;
  int64_t laneBytes_ = 0;
  std::string text_;
};

template <typename C>
typename AttentionKernel<C>::Head AttentionKernel<C>::headOf(std::span<std::byte* const> operands,
                                                             int64_t index) const {
  size_t next = 0;
  const auto at = [&](const HeadMatrix& m) { return m.at(operands[next++], heads_, index); };
  const auto optional = [&](const std::optional<HeadMatrix>& m) {
    return m ? std::optional(at(*m)) : std::nullopt;
  };
  Head head{at(q_), at(k_), at(v_), {}, {}, {}, {}};
  head.bias = optional(bias_);
  head.keep = optional(keep_);
  head.out = at(out_);
  head.probabilities = optional(probabilities_);
  return head;
}

/// Bias and mask of one row of scores.
template <typename C>
void AttentionKernel<C>::mask(const Head& head, int64_t row, C* scores, C* buffer) const {
  const auto& ops = simd::rowOps<C>();
  const int64_t n = k_.rows;
  if (head.bias) {
    const Matrix bias = rowsOf(*head.bias, row, 1);
    const bool direct = bias.colStride == 1 && dense::isComputeType(bias.dtype);
    ops.axpy(C{1}, read(bias, direct ? nullptr : buffer).data, scores, n);
  }
  if (head.keep) fillMasked(rowsOf(*head.keep, row, 1), fill_, scores);
}

/// Rows [first, last) of one head, a block after the other.
template <typename C>
void AttentionKernel<C>::runHead(const Head& head, int64_t first, int64_t last, const Lane& lane) const {
  const auto& ops = simd::rowOps<C>();
  const int64_t n = k_.rows, width = q_.cols;
  const Rhs<C> kT = packRhs(width, n, transposed(read(head.k, lane.k)), lane.kPacked);
  const Rhs<C> v = packRhs(n, v_.cols, read(head.v, lane.v), lane.vPacked);
  for (int64_t row = first; row < last; row += block_) {
    const int64_t rows = std::min(block_, last - row);
    dense::load(rowsOf(head.q, row, rows), lane.q);
    if (scale_ != C{1}) ops.scale(lane.q, scale_, lane.q, rows * width);
    const std::optional<Matrix> kept =
        head.probabilities ? std::optional(rowsOf(*head.probabilities, row, rows)) : std::nullopt;
    const Target<C> scores = kept ? target(*kept, lane.scores) : Target<C>{lane.scores, n};
    product<C>(rows, n, width, {lane.q, width, 1}, kT, scores, false);
    for (int64_t i = 0; i < rows; ++i) {
      C* const x = scores.data + i * scores.row;
      mask(head, row + i, x, lane.mask);
      ops.softmax(x, x, n);
    }
    if (kept) finish(*kept, lane.scores);
    const Matrix out = rowsOf(head.out, row, rows);
    product<C>(rows, v_.cols, n, {scores.data, scores.row, 1}, v, target(out, lane.out), false);
    finish(out, lane.out);
  }
}

template <typename C>
void AttentionKernel<C>::run(std::span<std::byte* const> operands) const {
  std::byte* const scratch = laneBytes_ > 0 && lanes_ > 0 ? operands.back() : nullptr;
  dense::forLanes(chunks_, lanes_, [&](int64_t chunk, int64_t index) {
    Carver carver(scratch + index * laneBytes_);
    const Lane lane = laneOf(carver);
    const int64_t first = chunk / pieces_ * headsPerChunk_;
    const int64_t row = chunk % pieces_ * rowsPerChunk_;
    for (int64_t h = first; h < std::min(first + headsPerChunk_, numElements(heads_)); ++h) {
      runHead(headOf(operands, h), row, std::min(row + rowsPerChunk_, q_.rows), lane);
    }
  });
}

}  // namespace

KernelPtr makeAttention(AttentionSpec spec) {
  return withFloatCompute(spec.out.dtype, [&](auto zero) -> KernelPtr {
    return std::make_unique<AttentionKernel<decltype(zero)>>(spec);
  });
}

}  // namespace popxl::kernels
