#include "kernels/scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "kernels/rows.h"
#include "kernels/scalar_ops.h"

namespace popxl::kernels {
namespace {

template <typename T>
class CumSum : public Kernel {
 public:
  CumSum(const Layout& x, bool exclusive, bool reverse)
      : n_(x.shape.back()),
        chunks_(x.numElements() / std::max<int64_t>(n_, 1), 2 * n_),
        exclusive_(exclusive),
        reverse_(reverse),
        name_(fmt::format("cumsum {} {}", nameOf(x.dtype), toString(x.shape))) {}
  void run(std::span<std::byte* const> operands) const override {
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      const T* const x = reinterpret_cast<const T*>(operands[0]);
      T* const y = reinterpret_cast<T*>(operands[1]);
      int64_t row = chunks_.begin(chunk);
      const int64_t end = chunks_.end(chunk);
      for (; row + kTogether <= end; row += kTogether) scan<kTogether>(x + row * n_, y + row * n_);
      for (; row < end; ++row) scan<1>(x + row * n_, y + row * n_);
    });
  }
  std::string describe() const override { return name_; }

 private:
  /// Rows that are summed side by side: a sum waits for the one before it, but not for those of other rows.
  static constexpr int64_t kTogether = 4;

  using Sum = decltype(widen(T{}));

  static Sum plus(Sum sum, Sum x) {
    if constexpr (std::is_integral_v<T>) {
      return scalar::wrapAdd(sum, x);
    } else {
      return sum + x;
    }
  }

  static T narrow(Sum sum) {
    if constexpr (std::is_same_v<T, Half>) {
      return {floatToHalf(sum)};
    } else {
      return sum;
    }
  }

  template <int64_t kRows>
  void scan(const T* x, T* y) const {
    exclusive_ ? scan<kRows, true>(x, y) : scan<kRows, false>(x, y);
  }

  template <int64_t kRows, bool kExclusive>
  void scan(const T* x, T* y) const {
    const int64_t step = reverse_ ? -1 : 1;
    int64_t at = reverse_ ? n_ - 1 : 0;
    Sum sums[kRows] = {};
    for (int64_t i = 0; i < n_; ++i, at += step) {
      for (int64_t r = 0; r < kRows; ++r) {
        const Sum before = sums[r];
        sums[r] = plus(before, widen(x[r * n_ + at]));
        y[r * n_ + at] = narrow(kExclusive ? before : sums[r]);
      }
    }
  }

  int64_t n_;
  RowChunks chunks_;
  bool exclusive_, reverse_;
  std::string name_;
};

template <typename T>
class Histogram : public Kernel {
 public:
  Histogram(const Layout& x, DType countType, std::vector<double> levels, bool absolute)
      : levels_(std::move(levels)),
        bins_(static_cast<int64_t>(levels_.size()) - 1),
        countType_(countType),
        absolute_(absolute),
        chunks_(x.numElements(), 8),
        name_(fmt::format("histogram {} {} in {}", nameOf(x.dtype), toString(x.shape), bins_)) {}
  void run(std::span<std::byte* const> operands) const override {
    const T* const x = reinterpret_cast<const T*>(operands[0]);
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      auto* const counts = reinterpret_cast<int64_t*>(operands[2] + chunk * countBytes());
      std::fill(counts, counts + bins_, int64_t{0});
      for (int64_t i = chunks_.begin(chunk); i < chunks_.end(chunk); ++i) {
        const int64_t bin = binOf(x[i]);
        if (bin >= 0) ++counts[bin];
      }
    });
    for (int64_t bin = 0; bin < bins_; ++bin) {
      int64_t total = 0;
      for (int64_t chunk = 0; chunk < chunks_.chunks; ++chunk) {
        total += reinterpret_cast<const int64_t*>(operands[2] + chunk * countBytes())[bin];
      }
      writeNumber(countType_, operands[1], bin, static_cast<double>(total));
    }
  }
  int64_t scratchBytes() const override { return std::max<int64_t>(chunks_.chunks * countBytes(), 64); }
  std::string describe() const override { return name_; }

 private:
  int64_t countBytes() const { return lines(bins_ * static_cast<int64_t>(sizeof(int64_t))); }

  int64_t binOf(T element) const {
    double value = 0;
    if constexpr (std::is_same_v<T, Half>) {
      value = halfToFloat(element.bits);
    } else {
      value = static_cast<double>(element);
    }
    if (absolute_) value = std::fabs(value);
    if (value == levels_.back()) return bins_ - 1;
    if (!(value >= levels_.front() && value < levels_.back())) return -1;
    return std::upper_bound(levels_.begin(), levels_.end(), value) - levels_.begin() - 1;
  }

  std::vector<double> levels_;
  int64_t bins_;
  DType countType_;
  bool absolute_;
  RowChunks chunks_;
  std::string name_;
};

}  // namespace

KernelPtr makeCumSum(Layout x, Layout y, int64_t axis, bool exclusive, bool reverse) {
  POPXL_ASSERT(x.dtype == y.dtype && x.shape == y.shape, "x {} {} y {} {}", nameOf(x.dtype),
               toString(x.shape), nameOf(y.dtype), toString(y.shape));
  return withContiguous({axisLast(x, axis)}, {axisLast(y, axis)}, [&](const std::vector<Layout>& layouts) {
    return dispatchNumber(x.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<CumSum<T>>(layouts[0], exclusive, reverse);
    });
  });
}

KernelPtr makeHistogram(Layout x, Layout counts, std::vector<double> levels, bool absolute) {
  POPXL_ASSERT(levels.size() >= 2 && counts.numElements() == static_cast<int64_t>(levels.size()) - 1 &&
                   std::is_sorted(levels.begin(), levels.end()),
               "{} levels, counts {}", levels.size(), toString(counts.shape));
  return withContiguous({x}, {counts}, [&](const std::vector<Layout>& layouts) {
    return dispatchNumber(x.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<Histogram<T>>(layouts[0], counts.dtype, levels, absolute);
    });
  });
}

}  // namespace popxl::kernels
