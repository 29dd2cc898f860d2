#include "kernels/resample.h"

#include <algorithm>
#include <span>

#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

/// [outer, elements, inner] to [outer, rows, inner].
template <typename C>
class ResampleStep {
 public:
  ResampleStep(const Shape& shape, const ResampledAxis& along)
      : rows_(static_cast<int64_t>(along.taps.rows.size())),
        elements_(shape[static_cast<size_t>(along.axis)]) {
    for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
      if (d != along.axis) (d < along.axis ? outer_ : inner_) *= shape[static_cast<size_t>(d)];
    }
    for (const auto& row : along.taps.rows) {
      begin_.push_back(taps_.size());
      for (const Taps::Tap& tap : row) {
        POPXL_ASSERT(tap.element >= 0 && tap.element < elements_, "tap {} of {}", tap.element, elements_);
        taps_.push_back({tap.element * inner_, static_cast<C>(tap.weight)});
      }
    }
    begin_.push_back(taps_.size());
    const auto most = along.taps.rows.empty() ? 0 : along.taps.rows[0].size();
    const bool same = std::all_of(along.taps.rows.begin(), along.taps.rows.end(),
                                  [&](const auto& row) { return row.size() == most; });
    if (same) uniform_ = static_cast<int64_t>(most);
    const auto perRow = static_cast<int64_t>(taps_.size()) / std::max<int64_t>(rows_, 1) + 1;
    chunks_ = RowChunks(outer_ * rows_, perRow * inner_, 256);
  }

  int64_t results() const { return outer_ * rows_ * inner_; }

  void run(const C* from, C* to) const {
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      const int64_t end = chunks_.end(chunk);
      for (int64_t row = chunks_.begin(chunk); row < end;) {
        const int64_t first = row % rows_, count = std::min(end - row, rows_ - first);
        runRows(from + row / rows_ * elements_ * inner_, first, count, to + row * inner_);
        row += count;
      }
    });
  }

 private:
  struct Weighted {
    int64_t offset;
    C weight;
  };

  /// `count` rows from row `first` of one outer position.
  void runRows(const C* source, int64_t first, int64_t count, C* to) const {
    if (inner_ == 1 && uniform_ == 1) return sumLine<1>(source, first, count, to);
    if (inner_ == 1 && uniform_ == 2) return sumLine<2>(source, first, count, to);
    for (int64_t i = 0; i < count; ++i) {
      const auto r = static_cast<size_t>(first + i);
      const std::span<const Weighted> taps(taps_.data() + begin_[r], taps_.data() + begin_[r + 1]);
      if (inner_ == 1) {
        to[i] = sumOf(taps, source);
      } else {
        combine(taps, source, to + i * inner_);
      }
    }
  }

  /// Results of kTaps taps each, one after another.
  template <int64_t kTaps>
  void sumLine(const C* source, int64_t first, int64_t count, C* to) const {
    const Weighted* taps = taps_.data() + first * kTaps;
    for (int64_t i = 0; i < count; ++i, taps += kTaps) {
      C sum = taps[0].weight * source[taps[0].offset];
      if constexpr (kTaps == 2) sum += taps[1].weight * source[taps[1].offset];
      to[i] = sum;
    }
  }

  static C sumOf(std::span<const Weighted> taps, const C* source) {
    if (taps.empty()) return 0;
    C sum = taps[0].weight * source[taps[0].offset];
    for (const Weighted& tap : taps.subspan(1)) sum += tap.weight * source[tap.offset];
    return sum;
  }
  void combine(std::span<const Weighted> taps, const C* source, C* to) const {
    if (taps.empty()) {
      std::fill(to, to + inner_, C{0});
      return;
    }
    const C* const first = source + taps[0].offset;
    if (taps.size() == 1 && taps[0].weight == C{1}) {
      std::copy(first, first + inner_, to);
      return;
    }
    if (taps.size() == 2) {
      const C* const second = source + taps[1].offset;
      for (int64_t i = 0; i < inner_; ++i) to[i] = taps[0].weight * first[i] + taps[1].weight * second[i];
      return;
    }
    for (int64_t i = 0; i < inner_; ++i) to[i] = taps[0].weight * first[i];
    for (const Weighted& tap : taps.subspan(1)) {
      const C* const element = source + tap.offset;
      for (int64_t i = 0; i < inner_; ++i) to[i] += tap.weight * element[i];
    }
  }

  int64_t rows_, elements_, outer_ = 1, inner_ = 1;
  int64_t uniform_ = 0;  // taps of every row, where all have as many
  std::vector<size_t> begin_;
  std::vector<Weighted> taps_;
  RowChunks chunks_;
};

/// Operands: t, out, and as scratch memory what lies between two steps.
template <typename T>
class Resample final : public Kernel {
 public:
  using C = std::conditional_t<std::is_same_v<T, Half>, float, T>;

  Resample(const Layout& t, const std::vector<ResampledAxis>& axes)
      : elements_(t.numElements()), name_(fmt::format("resample {} {}", nameOf(t.dtype), toString(t.shape))) {
    Shape shape = t.shape;
    for (const ResampledAxis& along : axes) {
      steps_.emplace_back(shape, along);
      shape[static_cast<size_t>(along.axis)] = static_cast<int64_t>(along.taps.rows.size());
      name_ += fmt::format(" to {}", toString(shape));
    }
    for (const ResampleStep<C>& step : steps_) between_ = std::max(between_, step.results());
    if constexpr (kConverts) between_ = std::max(between_, elements_);
  }

  void run(std::span<std::byte* const> operands) const override {
    // Two buffers take turns; without conversions the first step reads t and the last writes out.
    const auto buffer = [&](size_t which) {
      return reinterpret_cast<C*>(operands[2] + static_cast<int64_t>(which) * bufferBytes());
    };
    const C* from = nullptr;
    size_t next = 0;
    if constexpr (kConverts) {
      from = loadRow(reinterpret_cast<const T*>(operands[0]), buffer(next++), elements_);
    } else {
      from = reinterpret_cast<const C*>(operands[0]);
    }
    for (size_t i = 0; i < steps_.size(); ++i) {
      C* to = nullptr;
      if constexpr (kConverts) {
        to = buffer(next++ % 2);
      } else {
        to = i + 1 == steps_.size() ? reinterpret_cast<C*>(operands[1]) : buffer(next++ % 2);
      }
      steps_[i].run(from, to);
      from = to;
    }
    const int64_t results = steps_.empty() ? elements_ : steps_.back().results();
    if constexpr (kConverts) {
      storeRow(from, reinterpret_cast<T*>(operands[1]), results);
    } else if (steps_.empty()) {
      std::copy(from, from + results, reinterpret_cast<C*>(operands[1]));
    }
  }
  int64_t scratchBytes() const override { return kConverts || steps_.size() > 1 ? 2 * bufferBytes() : 0; }
  std::string describe() const override { return name_; }

 private:
  static constexpr bool kConverts = std::is_same_v<T, Half>;
  int64_t bufferBytes() const { return lines((between_ + 1) * static_cast<int64_t>(sizeof(C))); }

  std::vector<ResampleStep<C>> steps_;
  int64_t elements_, between_ = 0;
  std::string name_;
};

/// The order of least work: axes that shrink, then those that grow, the innermost first, as its results are
/// made one by one and the others' a line at a time.
void orderAxes(const Shape& shape, std::vector<ResampledAxis>& axes) {
  const auto grows = [&](const ResampledAxis& along) {
    return static_cast<int64_t>(along.taps.rows.size()) > shape[static_cast<size_t>(along.axis)];
  };
  std::stable_sort(axes.begin(), axes.end(), [&](const ResampledAxis& a, const ResampledAxis& b) {
    if (grows(a) != grows(b)) return grows(b);
    return grows(a) && a.axis > b.axis;
  });
}

}  // namespace

Taps Taps::transposed(int64_t elements) const {
  Taps result;
  result.rows.resize(static_cast<size_t>(elements));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const Tap& tap : rows[i]) {
      result.rows[static_cast<size_t>(tap.element)].push_back({static_cast<int64_t>(i), tap.weight});
    }
  }
  return result;
}

KernelPtr makeResample(Layout t, Layout out, std::vector<ResampledAxis> axes) {
  POPXL_ASSERT(t.dtype == out.dtype && t.rank() == out.rank(), "t {} out {}", toString(t.shape),
               toString(out.shape));
  orderAxes(t.shape, axes);
  return withContiguous({t}, {out}, [&](const std::vector<Layout>& layouts) {
    return dispatchNumber(t.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<Resample<T>>(layouts[0], axes);
    });
  });
}

}  // namespace popxl::kernels
