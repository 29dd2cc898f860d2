#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "kernels/copy.h"
#include "kernels/gather.h"
#include "kernels/reduce_ops.h"
#include "kernels/rows.h"
#include "kernels/tile_ops.h"

namespace popxl::kernels {
namespace {

constexpr size_t kMaxRank = 16;

/// Walks the positions of `indices` in row-major order and finds the element of the (contiguous) target that
/// each one addresses. Different outer positions (dimensions before the axis) never address the same element.
class ScatterWalk {
 public:
  ScatterWalk(const Layout& indices, const Layout& target, int64_t axis, bool wrap)
      : shape_(indices.shape),
        strides_(contiguousStrides(target.shape)),
        axis_(static_cast<size_t>(axis)),
        size_(target.shape[axis_]),
        indexType_(indices.dtype),
        wrap_(wrap) {
    POPXL_ASSERT(indices.rank() == target.rank() && shape_.size() <= kMaxRank, "indices {} target {}",
                 toString(indices.shape), toString(target.shape));
    int64_t outer = 1;
    bool covers = true;
    for (size_t d = 0; d < shape_.size(); ++d) {
      POPXL_ASSERT(d == axis_ || shape_[d] <= target.shape[d], "indices {} target {}",
                   toString(indices.shape), toString(target.shape));
      (d < axis_ ? outer : perOuter_) *= shape_[d];
      if (d > axis_) inner_ *= shape_[d];
      covers = covers && (d == axis_ || shape_[d] == target.shape[d]);
    }
    if (covers && inner_ >= kNarrow) width_ = std::clamp<int64_t>(inner_ / 8, kNarrow, kBlock);
    const int64_t blocks = width_ == 0 ? 1 : (inner_ + width_ - 1) / width_;
    chunks_ = RowChunks(outer * blocks, 4 * perOuter_ / blocks);
  }

  /// The indices hold one number for each position up to the axis, meant for all that follow it. Only where
  /// every element after the axis is addressed.
  void oneIndexPerRow() {
    if (width_ > 0) perRow_ = true;
  }
  bool hasRows() const { return width_ > 0; }

  /// fn(position, element, count) for runs of positions whose index is in range, which address elements one
  /// after another; in parallel over positions that never address the same element.
  template <typename Fn>
  void run(const std::byte* indices, const Fn& fn) const {
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      if (width_ == 0)
        return walk(indices, chunks_.begin(chunk) * perOuter_, chunks_.end(chunk) * perOuter_, fn);
      const int64_t blocks = (inner_ + width_ - 1) / width_;
      for (int64_t b = chunks_.begin(chunk); b < chunks_.end(chunk); ++b) {
        const int64_t from = b % blocks * width_, count = std::min(width_, inner_ - from);
        perRow_ ? walkRows(indices, b / blocks, from, count, fn)
                : walkBlock(indices, b / blocks, from, count, fn);
      }
    });
  }

 private:
  bool find(int64_t& index) const {
    if (wrap_ && index < 0 && index >= -size_) index += size_;
    return index >= 0 && index < size_;
  }

  /// `count` columns from column `from` of an outer position, row by row.
  template <typename Fn>
  void walkBlock(const std::byte* indices, int64_t outer, int64_t from, int64_t count, const Fn& fn) const {
    const int64_t rows = shape_[axis_];
    int64_t block[kBlock];
    for (int64_t k = 0; k < rows; ++k) {
      const int64_t position = (outer * rows + k) * inner_ + from;
      readIndices(indexType_, indices, position, count, block);
      for (int64_t i = 0; i < count; ++i) {
        if (find(block[i])) fn(position + i, (outer * size_ + block[i]) * inner_ + from + i, int64_t{1});
      }
    }
  }

  template <typename Fn>
  void walkRows(const std::byte* indices, int64_t outer, int64_t from, int64_t count, const Fn& fn) const {
    const int64_t rows = shape_[axis_];
    int64_t block[kBlock];
    for (int64_t k = 0; k < rows; ++k) {
      if (k % kBlock == 0)
        readIndices(indexType_, indices, outer * rows + k, std::min(kBlock, rows - k), block);
      int64_t index = block[k % kBlock];
      if (find(index)) fn((outer * rows + k) * inner_ + from, (outer * size_ + index) * inner_ + from, count);
    }
  }

  template <typename Fn>
  void walk(const std::byte* indices, int64_t begin, int64_t end, const Fn& fn) const {
    std::array<int64_t, kMaxRank> at{};
    int64_t base = 0, rest = begin;
    for (size_t d = shape_.size(); d-- > 0 && begin < end;) {
      at[d] = rest % shape_[d];
      rest /= shape_[d];
      if (d != axis_) base += at[d] * strides_[d];
    }
    int64_t block[kBlock];
    for (int64_t p = begin; p < end; ++p) {
      if ((p - begin) % kBlock == 0) readIndices(indexType_, indices, p, std::min(kBlock, end - p), block);
      int64_t index = block[(p - begin) % kBlock];
      if (find(index)) fn(p, base + index * strides_[axis_], int64_t{1});
      for (size_t d = shape_.size(); d-- > 0;) {
        if (d != axis_) base += strides_[d];
        if (++at[d] < shape_[d]) break;
        if (d != axis_) base -= shape_[d] * strides_[d];
        at[d] = 0;
      }
    }
  }

  static constexpr int64_t kBlock = 256, kNarrow = 32;
  Shape shape_;
  Strides strides_;
  size_t axis_;
  int64_t size_, perOuter_ = 1, inner_ = 1;
  int64_t width_ = 0;  // columns that are walked together; 0: position by position
  bool perRow_ = false;
  DType indexType_;
  bool wrap_;
  RowChunks chunks_;
};

/// Whether a tensor has one value for all positions behind the axis.
bool isSameAfter(const Layout& t, int64_t axis) {
  for (auto d = static_cast<size_t>(axis) + 1; d < t.shape.size(); ++d) {
    if (t.strides[d] != 0 && t.shape[d] != 1) return false;
  }
  return true;
}

void copyElement(const std::byte* from, std::byte* to, int64_t bytes) {
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

/// Operands: t, indices, values, out.
class Scatter : public Kernel {
 public:
  Scatter(const Layout& t, const Layout& indices, int64_t axis)
      : copy_(t, t),
        walk_(indices, t, axis, true),
        elementBytes_(sizeOf(t.dtype)),
        name_(fmt::format("scatter {} into {} {} on axis {}", toString(indices.shape), nameOf(t.dtype),
                          toString(t.shape), axis)) {}
  void run(std::span<std::byte* const> operands) const override {
    if (operands[0] != operands[3]) copy_.run(operands[0], operands[3]);
    walk_.run(operands[1], [&](int64_t position, int64_t element, int64_t) {
      copyElement(operands[2] + position * elementBytes_, operands[3] + element * elementBytes_,
                  elementBytes_);
    });
  }
  std::string describe() const override { return name_; }

 private:
  CopyPlan copy_;
  ScatterWalk walk_;
  int64_t elementBytes_;
  std::string name_;
};

template <typename T>
T combine(ScatterReduction reduction, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if ((reduction == ScatterReduction::kMax || reduction == ScatterReduction::kMin) &&
        (std::isnan(a) || std::isnan(b))) {
      return std::isnan(a) ? a : b;
    }
    if (reduction == ScatterReduction::kSum) return a + b;
    if (reduction == ScatterReduction::kMul) return a * b;
  } else {
    using U = std::make_unsigned_t<T>;  // sums and products wrap
    if (reduction == ScatterReduction::kSum)
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    if (reduction == ScatterReduction::kMul) {
      return static_cast<T>(static_cast<U>(static_cast<uint64_t>(static_cast<U>(a)) *
                                           static_cast<uint64_t>(static_cast<U>(b))));
    }
  }
  if (reduction == ScatterReduction::kMax) return std::max(a, b);
  if (reduction == ScatterReduction::kMin) return std::min(a, b);
  return b;
}

/// to[i] = combine(to[i], from[i]), with the reduction decided once.
template <typename Sum, typename T>
void combineRun(ScatterReduction reduction, const T* from, Sum* to, int64_t count) {
  const auto all = [&]<ScatterReduction kReduction>() {
    for (int64_t i = 0; i < count; ++i) to[i] = combine<Sum>(kReduction, to[i], widen(from[i]));
  };
  switch (reduction) {
    case ScatterReduction::kSum:
      return all.template operator()<ScatterReduction::kSum>();
    case ScatterReduction::kMax:
      return all.template operator()<ScatterReduction::kMax>();
    case ScatterReduction::kMin:
      return all.template operator()<ScatterReduction::kMin>();
    case ScatterReduction::kMul:
      return all.template operator()<ScatterReduction::kMul>();
    case ScatterReduction::kNone:
      return all.template operator()<ScatterReduction::kNone>();
  }
}

using ColumnsFn = decltype(FoldOps::columns);

/// Vector code that combines whole runs; none for types that are computed in another, and without a
/// reduction.
ColumnsFn columnsOf(ScatterReduction reduction, DType dtype) {
  if (!isComputeStorage(dtype)) return nullptr;
  const auto of = [&](Fold fold) { return foldOps(fold, computeType(dtype)).columns; };
  switch (reduction) {
    case ScatterReduction::kSum:
      return of(Fold::kSum);
    case ScatterReduction::kMul:
      return of(Fold::kProd);
    case ScatterReduction::kMax:
      return of(Fold::kMax);
    case ScatterReduction::kMin:
      return of(Fold::kMin);
    case ScatterReduction::kNone:
      break;
  }
  return nullptr;
}

/// What changes no number that it is combined with.
template <typename Sum>
Sum neutral(ScatterReduction reduction) {
  using Limits = std::numeric_limits<Sum>;
  const bool isMax = reduction == ScatterReduction::kMax;
  if constexpr (std::is_floating_point_v<Sum>) {
    return isMax ? -Limits::infinity() : Limits::infinity();
  } else {
    return isMax ? Limits::lowest() : Limits::max();
  }
}

/// Operands: data, indices, [initial], out. Combines in Sum (float for float16).
template <typename T>
class ScatterReduce : public Kernel {
 public:
  using Sum = std::conditional_t<std::is_same_v<T, Half>, float, T>;

  ScatterReduce(const Layout& indices, const Layout& out, bool hasInitial, int64_t axis,
                ScatterReduction reduction)
      : walk_(indices, out, axis, false),
        hasInitial_(hasInitial),
        reduction_(reduction),
        elements_(out.numElements()),
        extremum_(reduction == ScatterReduction::kMax || reduction == ScatterReduction::kMin),
        columns_(columnsOf(reduction, out.dtype)),
        name_(fmt::format("scatter reduce {} into {} {} on axis {}", toString(indices.shape),
                          nameOf(out.dtype), toString(out.shape), axis)) {}

  ScatterWalk& walk() { return walk_; }

  void run(std::span<std::byte* const> operands) const override {
    const size_t outAt = hasInitial_ ? 3 : 2;
    Sum* sums = nullptr;
    if constexpr (kConverts) {
      sums = reinterpret_cast<float*>(operands[outAt + 1]);
    } else {
      sums = reinterpret_cast<T*>(operands[outAt]);
    }
    start(operands, sums);
    const T* const data = reinterpret_cast<const T*>(operands[0]);
    walk_.run(operands[1], [&](int64_t position, int64_t element, int64_t count) {
      if (columns_ != nullptr && count > 1) {
        columns_(reinterpret_cast<const std::byte*>(data + position), 1, count,
                 reinterpret_cast<std::byte*>(sums + element));
      } else {
        combineRun(reduction_, data + position, sums + element, count);
      }
    });
    if constexpr (kConverts) storeRow(sums, reinterpret_cast<T*>(operands[outAt]), elements_);
  }
  int64_t scratchBytes() const override {
    return kConverts ? lines((elements_ + 1) * static_cast<int64_t>(sizeof(Sum))) : 0;
  }
  std::string describe() const override { return name_; }

 private:
  static constexpr bool kConverts = std::is_same_v<T, Half>;
  void start(std::span<std::byte* const> operands, Sum* sums) const {
    if (!hasInitial_) {
      std::fill(sums, sums + elements_, reduction_ == ScatterReduction::kMul ? Sum{1} : Sum{0});
      // What nothing arrives at stays 0.
      if (!extremum_) return;
      walk_.run(operands[1], [&, none = neutral<Sum>(reduction_)](int64_t, int64_t element, int64_t count) {
        std::fill(sums + element, sums + element + count, none);
      });
    } else if constexpr (kConverts) {
      convertToCompute(DType::kFloat16, operands[2], elements_, sums);
    } else if (operands[2] != operands[3]) {
      std::memcpy(sums, operands[2], static_cast<size_t>(elements_) * sizeof(T));
    }
  }

  ScatterWalk walk_;
  bool hasInitial_;
  ScatterReduction reduction_;
  int64_t elements_;
  bool extremum_;
  ColumnsFn columns_;  // vector code for long runs, where there is some
  std::string name_;
};

/// Operands: t, indices, out. With `lastOnly` the scratch memory holds for every element of t the last
/// position that addresses it.
class ScatterPick : public Kernel {
 public:
  ScatterPick(const Layout& t, const Layout& indices, int64_t axis, PickRule rule)
      : walk_(indices, t, axis, rule.negativeWraps),
        lastOnly_(rule.lastOnly),
        elements_(t.numElements()),
        elementBytes_(sizeOf(t.dtype)),
        outBytes_(indices.numElements() * elementBytes_),
        name_(fmt::format("scatter pick {} from {} {} on axis {}", toString(indices.shape), nameOf(t.dtype),
                          toString(t.shape), axis)) {}
  void run(std::span<std::byte* const> operands) const override {
    std::memset(operands[2], 0, static_cast<size_t>(outBytes_));
    auto* const last = lastOnly_ ? reinterpret_cast<int64_t*>(operands[3]) : nullptr;
    if (lastOnly_) {
      walk_.run(operands[1], [&](int64_t position, int64_t element, int64_t) { last[element] = position; });
    }
    walk_.run(operands[1], [&](int64_t position, int64_t element, int64_t) {
      if (lastOnly_ && last[element] != position) return;
      copyElement(operands[0] + element * elementBytes_, operands[2] + position * elementBytes_,
                  elementBytes_);
    });
  }
  int64_t scratchBytes() const override {
    return lastOnly_ ? lines((elements_ + 1) * static_cast<int64_t>(sizeof(int64_t))) : 0;
  }
  std::string describe() const override { return name_; }

 private:
  ScatterWalk walk_;
  bool lastOnly_;
  int64_t elements_, elementBytes_, outBytes_;
  std::string name_;
};

/// Operands: indices, values, out; out is [outer, classes, inner], indices [outer, inner].
class Onehot : public Kernel {
 public:
  Onehot(const Layout& indices, const Layout& out, int64_t axis)
      : indexType_(indices.dtype),
        elementBytes_(sizeOf(out.dtype)),
        classes_(out.shape[static_cast<size_t>(axis)]),
        name_(fmt::format("onehot {} {} on axis {}", nameOf(out.dtype), toString(out.shape), axis)) {
    for (int64_t d = axis + 1; d < out.rank(); ++d) inner_ *= out.shape[static_cast<size_t>(d)];
    chunks_ = RowChunks(indices.numElements() / std::max<int64_t>(inner_, 1), classes_ * inner_);
  }
  void run(std::span<std::byte* const> operands) const override {
    const auto size = static_cast<size_t>(elementBytes_);
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      std::byte* const off = operands[1];
      const int64_t first = chunks_.begin(chunk), last = chunks_.end(chunk), block = classes_ * inner_;
      for (int64_t i = first * block; i < last * block; ++i)
        std::memcpy(operands[2] + i * elementBytes_, off, size);
      for (int64_t o = first; o < last; ++o) {
        for (int64_t k = 0; k < inner_; ++k) {
          int64_t index = 0;
          readIndices(indexType_, operands[0], o * inner_ + k, 1, &index);
          if (index < 0 && index >= -classes_) index += classes_;
          if (index < 0 || index >= classes_) continue;
          std::memcpy(operands[2] + (o * block + index * inner_ + k) * elementBytes_, off + elementBytes_,
                      size);
        }
      }
    });
  }
  std::string describe() const override { return name_; }

 private:
  DType indexType_;
  int64_t elementBytes_, classes_, inner_ = 1;
  RowChunks chunks_;
  std::string name_;
};

}  // namespace

KernelPtr makeScatter(Layout t, Layout indices, Layout values, Layout out, int64_t axis) {
  POPXL_ASSERT(t.dtype == values.dtype && t.dtype == out.dtype && t.shape == out.shape &&
                   indices.shape == values.shape,
               "t {} indices {} values {} out {}", toString(t.shape), toString(indices.shape),
               toString(values.shape), toString(out.shape));
  return withContiguous({t, indices, values}, {out}, [&](const std::vector<Layout>& layouts) -> KernelPtr {
    return std::make_unique<Scatter>(layouts[0], layouts[1], axis);
  });
}

KernelPtr makeScatterReduce(Layout data, Layout indices, std::optional<Layout> initial, Layout out,
                            int64_t axis, ScatterReduction reduction) {
  POPXL_ASSERT(data.dtype == out.dtype && data.shape == indices.shape, "data {} indices {}",
               toString(data.shape), toString(indices.shape));
  // Indices that are the same for all that follows the axis are read once, not spread out.
  const Layout all(indices.dtype, indices.shape);
  const bool perRow = ScatterWalk(all, out, axis, false).hasRows() && isSameAfter(indices, axis);
  for (auto d = static_cast<size_t>(axis) + 1; perRow && d < indices.shape.size(); ++d) indices.shape[d] = 1;
  std::vector<Layout> ins = {data, indices};
  if (initial) {
    POPXL_ASSERT(initial->shape == out.shape && initial->dtype == out.dtype, "initial {} out {}",
                 toString(initial->shape), toString(out.shape));
    ins.push_back(*initial);
  }
  return withContiguous(ins, {out}, [&](const std::vector<Layout>& layouts) {
    return dispatchNumber(out.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      auto kernel =
          std::make_unique<ScatterReduce<T>>(all, layouts.back(), initial.has_value(), axis, reduction);
      if (perRow) kernel->walk().oneIndexPerRow();
      return kernel;
    });
  });
}

KernelPtr makeScatterPick(Layout t, Layout indices, Layout out, int64_t axis, PickRule rule) {
  POPXL_ASSERT(t.dtype == out.dtype && out.shape == indices.shape, "t {} indices {} out {}",
               toString(t.shape), toString(indices.shape), toString(out.shape));
  return withContiguous({t, indices}, {out}, [&](const std::vector<Layout>& layouts) -> KernelPtr {
    return std::make_unique<ScatterPick>(layouts[0], layouts[1], axis, rule);
  });
}

KernelPtr makeOnehot(Layout indices, Layout values, Layout out, int64_t axis) {
  Shape want = out.shape;
  want.erase(want.begin() + axis);
  POPXL_ASSERT(want == indices.shape && values.numElements() == 2 && values.dtype == out.dtype,
               "indices {} values {} out {} axis {}", toString(indices.shape), toString(values.shape),
               toString(out.shape), axis);
  return withContiguous({indices, values}, {out}, [&](const std::vector<Layout>& layouts) -> KernelPtr {
    return std::make_unique<Onehot>(layouts[0], layouts[2], axis);
  });
}

}  // namespace popxl::kernels
