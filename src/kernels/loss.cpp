#include "kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

constexpr int64_t kLabelBlock = 256;

/// What the three kernels share: the rows, their labels and the reduction.
template <typename T>
class NllBase : public Kernel {
 public:
  using C = ComputeOf<T>;

  NllBase(const NllSpec& spec, int64_t rowCost, const char* what)
      : spec_(spec),
        classes_(spec.probs.shape.back()),
        chunks_(spec.labels.numElements(), std::max<int64_t>(rowCost, 32)),
        name_(fmt::format("{} {} {}", what, nameOf(spec.probs.dtype), toString(spec.probs.shape))) {}
  std::string describe() const override { return name_; }

 protected:
  enum class Label { kUsed, kIgnored, kInvalid };

  Label classify(int64_t label) const {
    if (spec_.ignoreIndex == label) return Label::kIgnored;
    return label >= 0 && label < classes_ ? Label::kUsed : Label::kInvalid;
  }

  /// By what kMean divides; 1 for the other reductions.
  double divisor(const std::byte* labels) const {
    if (spec_.reduction != LossReduction::kMean) return 1;
    if (!spec_.ignoreIndex) return static_cast<double>(std::max<int64_t>(chunks_.rows, 1));
    int64_t count = 0;
    forLabels(labels, 0, chunks_.rows,
              [&](int64_t, int64_t label) { count += label != *spec_.ignoreIndex ? 1 : 0; });
    return static_cast<double>(std::max<int64_t>(count, 1));
  }

  /// fn(row, label) for rows begin ... end - 1.
  template <typename Fn>
  void forLabels(const std::byte* labels, int64_t begin, int64_t end, const Fn& fn) const {
    int64_t block[kLabelBlock];
    for (int64_t first = begin; first < end; first += kLabelBlock) {
      const int64_t n = std::min(kLabelBlock, end - first);
      readIndices(spec_.labels.dtype, labels, first, n, block);
      for (int64_t i = 0; i < n; ++i) fn(first + i, block[i]);
    }
  }

  static C compute(T value) {
    C buffer;
    return *loadRow(&value, &buffer, 1);
  }
  /// The smallest positive normal number of T.
  static constexpr C smallest() {
    if constexpr (std::is_same_v<T, Half>) {
      return 0x1p-14f;
    } else {
      return std::numeric_limits<T>::min();
    }
  }

  double rowLoss(const T* probs, int64_t row, int64_t label) const {
    switch (classify(label)) {
      case Label::kIgnored:
        return 0;
      case Label::kInvalid:
        return std::numeric_limits<double>::quiet_NaN();
      case Label::kUsed:
        break;
    }
    const C p = compute(probs[row * classes_ + label]);
    if (spec_.logProb) return -p;
    return std::isnan(p) ? p : -std::log(std::max(p, smallest()));
  }

  /// Losses of one chunk's rows: stored for kNone, else their sum returned.
  double chunkLoss(const T* probs, const std::byte* labels, std::byte* loss, int64_t chunk) const {
    double sum = 0;
    forLabels(labels, chunks_.begin(chunk), chunks_.end(chunk), [&](int64_t row, int64_t label) {
      const double value = rowLoss(probs, row, label);
      if (spec_.reduction == LossReduction::kNone) writeNumber(spec_.loss.dtype, loss, row, value);
      sum += value;
    });
    return sum;
  }

  void finishLoss(const double* sums, double divisor, std::byte* loss) const {
    if (spec_.reduction == LossReduction::kNone) return;
    double total = 0;
    for (int64_t i = 0; i < chunks_.chunks; ++i) total += sums[i];
    writeNumber(spec_.loss.dtype, loss, 0, total / divisor);
  }

  int64_t sumBytes() const { return lines(chunks_.chunks * static_cast<int64_t>(sizeof(double))); }

  NllSpec spec_;
  int64_t classes_;
  RowChunks chunks_;
  std::string name_;
};

template <typename T>
class Nll : public NllBase<T> {
 public:
  explicit Nll(const NllSpec& spec) : NllBase<T>(spec, 32, "nll") {}
  void run(std::span<std::byte* const> operands) const override {
    const T* const probs = reinterpret_cast<const T*>(operands[0]);
    auto* const sums = reinterpret_cast<double*>(operands[3]);
    parallelFor(this->chunks_.chunks, [&](int64_t chunk) {
      sums[chunk] = this->chunkLoss(probs, operands[1], operands[2], chunk);
    });
    this->finishLoss(sums, this->divisor(operands[1]), operands[2]);
  }
  int64_t scratchBytes() const override { return std::max<int64_t>(this->sumBytes(), 64); }
};

template <typename T>
class NllGrad : public NllBase<T> {
 public:
  using typename NllBase<T>::C;
  using typename NllBase<T>::Label;

  explicit NllGrad(const NllSpec& spec) : NllBase<T>(spec, spec.probs.shape.back(), "nll gradient") {}
  void run(std::span<std::byte* const> operands) const override {
    const T* const probs = reinterpret_cast<const T*>(operands[0]);
    T* const dprobs = reinterpret_cast<T*>(operands[3]);
    const double divisor = this->divisor(operands[1]);
    const bool perRow = this->spec_.reduction == LossReduction::kNone;
    const double scale = perRow ? 0 : readNumber(this->spec_.loss.dtype, operands[2], 0) / divisor;
    parallelFor(this->chunks_.chunks, [&](int64_t chunk) {
      this->forLabels(
          operands[1], this->chunks_.begin(chunk), this->chunks_.end(chunk), [&](int64_t row, int64_t label) {
            rowGrad(probs, row, label, perRow ? readNumber(this->spec_.loss.dtype, operands[2], row) : scale,
                    dprobs);
          });
    });
  }

 private:
  void rowGrad(const T* probs, int64_t row, int64_t label, double scale, T* dprobs) const {
    const DType dtype = this->spec_.probs.dtype;
    const int64_t n = this->classes_;
    T* const out = dprobs + row * n;
    // Read before the row is cleared: dprobs may be the memory of probs.
    const Label kind = this->classify(label);
    const C p = kind == Label::kUsed ? this->compute(probs[row * n + label]) : C{0};
    std::fill(out, out + n, T{});
    auto* const bytes = reinterpret_cast<std::byte*>(out);
    if (kind == Label::kInvalid) {
      for (int64_t i = 0; i < n; ++i) writeNumber(dtype, bytes, i, std::numeric_limits<double>::quiet_NaN());
    } else if (kind == Label::kUsed) {
      const double divide = this->spec_.logProb ? 1.0 : std::isnan(p) ? p : std::max(p, this->smallest());
      writeNumber(dtype, bytes, label, -scale / divide);
    }
  }
};

template <typename T>
class NllWithSoftmaxGrad : public NllBase<T> {
 public:
  using typename NllBase<T>::C;
  using typename NllBase<T>::Label;

  NllWithSoftmaxGrad(const NllSpec& spec, const Layout& lossGrad)
      : NllBase<T>(spec, 2 * spec.probs.shape.back(), "nll with softmax gradient"),
        gradType_(lossGrad.dtype),
        perRow_(lossGrad.numElements() != 1) {}

  void run(std::span<std::byte* const> operands) const override {
    const T* const probs = reinterpret_cast<const T*>(operands[0]);
    T* const dx = reinterpret_cast<T*>(operands[4]);
    std::byte* const scratch = operands[5];
    auto* const sums = reinterpret_cast<double*>(scratch);
    const double divisor = this->divisor(operands[1]);
    const double scale = perRow_ ? 0 : readNumber(gradType_, operands[2], 0) / divisor;
    parallelFor(this->chunks_.chunks, [&](int64_t chunk) {
      sums[chunk] = this->chunkLoss(probs, operands[1], operands[3], chunk);
      C* const buffer = reinterpret_cast<C*>(scratch + this->sumBytes() + chunk * bufferBytes());
      this->forLabels(
          operands[1], this->chunks_.begin(chunk), this->chunks_.end(chunk), [&](int64_t row, int64_t label) {
            rowGrad(probs, row, label, perRow_ ? readNumber(gradType_, operands[2], row) / divisor : scale,
                    buffer, dx);
          });
    });
    this->finishLoss(sums, divisor, operands[3]);
  }
  int64_t scratchBytes() const override {
    return std::max<int64_t>(this->sumBytes() + this->chunks_.chunks * bufferBytes(), 64);
  }

 private:
  int64_t bufferBytes() const {
    return std::is_same_v<T, Half> ? lines(this->classes_ * static_cast<int64_t>(sizeof(C))) : 0;
  }

  void rowGrad(const T* probs, int64_t row, int64_t label, double scale, C* buffer, T* dx) const {
    const int64_t n = this->classes_;
    T* const out = dx + row * n;
    const Label kind = this->classify(label);
    if (kind == Label::kIgnored) {
      std::fill(out, out + n, T{});
      return;
    }
    const C* const in = loadRow(probs + row * n, buffer, n);
    C* const target = rowTarget(out, buffer);
    if (kind == Label::kInvalid) {
      std::fill(target, target + n, std::numeric_limits<C>::quiet_NaN());
    } else {
      const C atLabel = in[label];
      simd::rowOps<C>().scale(in, static_cast<C>(scale), target, n);
      target[label] = (atLabel - C{1}) * static_cast<C>(scale);
    }
    storeRow(target, out, n);
  }

  DType gradType_;
  bool perRow_;
};

void check(const NllSpec& spec) {
  POPXL_ASSERT(spec.probs.rank() > 0, "probs is a scalar");
  const int64_t rows = spec.labels.numElements();
  POPXL_ASSERT(rows * spec.probs.shape.back() == spec.probs.numElements(), "probs {} labels {}",
               toString(spec.probs.shape), toString(spec.labels.shape));
  POPXL_ASSERT(spec.loss.numElements() == (spec.reduction == LossReduction::kNone ? rows : 1),
               "loss {} labels {}", toString(spec.loss.shape), toString(spec.labels.shape));
}

}  // namespace

KernelPtr makeNll(NllSpec spec) {
  check(spec);
  return withContiguous({spec.probs, spec.labels}, {spec.loss}, [&](const std::vector<Layout>& layouts) {
    const NllSpec dense{layouts[0], layouts[1], layouts[2], spec.reduction, spec.ignoreIndex, spec.logProb};
    return dispatchFloat(dense.probs.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<Nll<T>>(dense);
    });
  });
}

KernelPtr makeNllGrad(NllSpec spec, Layout dprobs) {
  check(spec);
  POPXL_ASSERT(dprobs.dtype == spec.probs.dtype && dprobs.shape == spec.probs.shape, "dprobs {} {}",
               nameOf(dprobs.dtype), toString(dprobs.shape));
  return withContiguous(
      {spec.probs, spec.labels, spec.loss}, {dprobs}, [&](const std::vector<Layout>& layouts) {
        const NllSpec dense{layouts[0],     layouts[1],       layouts[2],
                            spec.reduction, spec.ignoreIndex, spec.logProb};
        return dispatchFloat(dense.probs.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
          return std::make_unique<NllGrad<T>>(dense);
        });
      });
}

KernelPtr makeNllWithSoftmaxGrad(NllSpec spec, Layout lossGrad, Layout dx) {
  check(spec);
  POPXL_ASSERT(!spec.logProb && dx.dtype == spec.probs.dtype && dx.shape == spec.probs.shape, "dx {} {}",
               nameOf(dx.dtype), toString(dx.shape));
  POPXL_ASSERT(lossGrad.numElements() == 1 || lossGrad.numElements() == spec.labels.numElements(),
               "loss gradient {}", toString(lossGrad.shape));
  return withContiguous(
      {spec.probs, spec.labels, lossGrad}, {spec.loss, dx}, [&](const std::vector<Layout>& layouts) {
        const NllSpec dense{layouts[0], layouts[1], layouts[3], spec.reduction, spec.ignoreIndex, false};
        return dispatchFloat(dense.probs.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
          return std::make_unique<NllWithSoftmaxGrad<T>>(dense, layouts[2]);
        });
      });
}

}  // namespace popxl::kernels
