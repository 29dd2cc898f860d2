#include "kernels/argreduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/half.h"
#include "kernels/argreduce_simd.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

template <typename T>
auto valueOf(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    return halfToFloat(value.bits);
  } else {
    return value;
  }
}

template <typename V>
bool isNan(V value) {
  if constexpr (std::is_floating_point_v<V>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

/// a before b in ascending order, NaN last.
template <typename V>
bool ascends(V a, V b) {
  return isNan(b) ? !isNan(a) : a < b;
}

/// A number of at most 32 bits as an integer that ascends with it, NaN last.
template <typename V>
int32_t rankOf(V value) {
  constexpr uint32_t kSign = 0x80000000;
  if constexpr (std::is_same_v<V, float>) {
    const auto bits = std::bit_cast<int32_t>(value + 0.0f);  // 0 of either sign is the same
    return std::isnan(value) ? std::numeric_limits<int32_t>::max() : bits ^ (bits < 0 ? 0x7fffffff : 0);
  } else {
    return std::bit_cast<int32_t>(static_cast<uint32_t>(value) ^ (std::is_signed_v<V> ? 0 : kSign));
  }
}

template <typename T>
class ArgReduce : public Kernel {
 public:
  ArgReduce(const Layout& x, DType outType, bool largest)
      : n_(x.shape.back()),
        chunks_(x.numElements() / std::max<int64_t>(n_, 1), 2 * n_),
        outType_(outType),
        largest_(largest),
        name_(fmt::format("{} {} {}", largest ? "argmax" : "argmin", nameOf(x.dtype), toString(x.shape))) {}
  void run(std::span<std::byte* const> operands) const override {
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      for (int64_t row = chunks_.begin(chunk); row < chunks_.end(chunk); ++row) {
        const T* const x = reinterpret_cast<const T*>(operands[0]) + row * n_;
        writeNumber(outType_, operands[1], row, static_cast<double>(best(x)));
      }
    });
  }
  std::string describe() const override { return name_; }

 private:
  int64_t best(const T* x) const {
    if constexpr (std::is_floating_point_v<T>) return simd::firstExtreme(x, n_, largest_);
    return largest_ ? best(x, [](auto a, auto b) { return a > b; })
                    : best(x, [](auto a, auto b) { return a < b; });
  }

  template <typename Better>
  int64_t best(const T* x, const Better& better) const {
    int64_t at = 0;
    auto most = valueOf(x[0]);
    for (int64_t i = 1; i < n_ && !isNan(most); ++i) {
      const auto value = valueOf(x[i]);
      if (!better(value, most) && !isNan(value)) continue;
      most = value;
      at = i;
    }
    return at;
  }

  int64_t n_;
  RowChunks chunks_;
  DType outType_;
  bool largest_;
  std::string name_;
};

/// Positions begin ... end - 1 of each row in order: those of a top-k, or the one of a median.
template <typename T>
class OrderedRows : public Kernel {
 public:
  OrderedRows(const Layout& x, DType indexType, int64_t k, bool largest, bool median)
      : n_(x.shape.back()),
        k_(k),
        chunks_(x.numElements() / std::max<int64_t>(n_, 1), 16 * n_),
        indexType_(indexType),
        largest_(largest),
        median_(median),
        name_(fmt::format("{} {} {}", median ? "median" : "top k", nameOf(x.dtype), toString(x.shape))) {}

  void run(std::span<std::byte* const> operands) const override {
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      auto* const order = reinterpret_cast<int64_t*>(operands[3] + chunk * orderBytes());
      for (int64_t row = chunks_.begin(chunk); row < chunks_.end(chunk); ++row) {
        const T* const x = reinterpret_cast<const T*>(operands[0]) + row * n_;
        T* const values = reinterpret_cast<T*>(operands[1]) + row * k_;
        const int64_t* const chosen = arrange(x, order);
        for (int64_t i = 0; i < k_; ++i) {
          values[i] = x[chosen[i]];
          writeNumber(indexType_, operands[2], row * k_ + i, static_cast<double>(chosen[i]));
        }
      }
    });
  }
  int64_t scratchBytes() const override { return std::max<int64_t>(chunks_.chunks * orderBytes(), 64); }
  std::string describe() const override { return name_; }

 private:
  int64_t orderBytes() const { return lines((n_ + 1) * static_cast<int64_t>(sizeof(int64_t))); }

  template <bool kLargest, typename V>
  static bool isBetter(V a, V b) {
    return kLargest ? ascends(b, a) : ascends(a, b);
  }

  /// The first k in order, each element put in its place among the best so far: most are no better than the
  /// last of these.
  template <bool kLargest>
  void insert(const T* x, int64_t* order) const {
    int64_t count = 0;
    auto worst = valueOf(x[0]);
    for (int64_t i = 0; i < n_; ++i) {
      const auto value = valueOf(x[i]);
      if (count == k_ && !isBetter<kLargest>(value, worst)) continue;
      int64_t at = count < k_ ? count++ : k_ - 1;
      for (; at > 0 && isBetter<kLargest>(value, valueOf(x[order[at - 1]])); --at) order[at] = order[at - 1];
      order[at] = i;
      worst = valueOf(x[order[count - 1]]);
    }
  }

  /// Orders indices of x as far as needed; returns the first of those asked for.
  const int64_t* arrange(const T* x, int64_t* order) const {
    if (!median_ && k_ > 0 && k_ <= kFew) {
      largest_ ? insert<true>(x, order) : insert<false>(x, order);
      return order;
    }
    if constexpr (sizeof(valueOf(T{})) <= sizeof(int32_t)) {
      if (median_) return findMedian(x, order);
    }
    std::iota(order, order + n_, int64_t{0});
    // Equal values go by index, so the order is total and the result unique.
    const auto before = [&](int64_t a, int64_t b) {
      const auto va = valueOf(x[a]), vb = valueOf(x[b]);
      const bool less = largest_ ? ascends(vb, va) : ascends(va, vb);
      if (less) return true;
      const bool greater = largest_ ? ascends(va, vb) : ascends(vb, va);
      return !greater && a < b;
    };
    if (!median_) {
      std::partial_sort(order, order + k_, order + n_, before);
      return order;
    }
    const int64_t middle = (n_ - 1) / 2;
    std::nth_element(order, order + middle, order + n_, before);
    return order + middle;
  }

  /// Of numbers that have a rank: no search is faster than counting for each of its bits.
  int64_t* findMedian(const T* x, int64_t* scratch) const {
    auto* const ranks = reinterpret_cast<int32_t*>(scratch + 1);
    for (int64_t i = 0; i < n_; ++i) ranks[i] = rankOf(valueOf(x[i]));
    *scratch = simd::nthSmallest(ranks, n_, (n_ - 1) / 2);
    return scratch;
  }

  static constexpr int64_t kFew = 16;
  int64_t n_, k_;
  RowChunks chunks_;
  DType indexType_;
  bool largest_, median_;
  std::string name_;
};

KernelPtr makeArg(const Layout& x, const Layout& out, int64_t axis, bool largest) {
  Shape reduced = x.shape;
  reduced[static_cast<size_t>(axis)] = 1;
  POPXL_ASSERT(out.shape == reduced && isInt(out.dtype) && x.shape[static_cast<size_t>(axis)] > 0,
               "x {} axis {} out {} {}", toString(x.shape), axis, nameOf(out.dtype), toString(out.shape));
  return withContiguous({axisLast(x, axis)}, {axisLast(out, axis)}, [&](const std::vector<Layout>& layouts) {
    return dispatchNumber(x.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<ArgReduce<T>>(layouts[0], out.dtype, largest);
    });
  });
}

KernelPtr makeOrdered(const Layout& x, const Layout& values, const Layout& indices, int64_t axis,
                      bool largest, bool median) {
  const auto d = static_cast<size_t>(axis);
  Shape want = x.shape;
  want[d] = values.shape[d];
  POPXL_ASSERT(values.shape == want && indices.shape == want && values.dtype == x.dtype &&
                   isInt(indices.dtype) && want[d] <= x.shape[d],
               "x {} axis {} values {} indices {} {}", toString(x.shape), axis, toString(values.shape),
               nameOf(indices.dtype), toString(indices.shape));
  return withContiguous({axisLast(x, axis)}, {axisLast(values, axis), axisLast(indices, axis)},
                        [&](const std::vector<Layout>& layouts) {
                          return dispatchNumber(x.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
                            return std::make_unique<OrderedRows<T>>(layouts[0], indices.dtype, want[d],
                                                                    largest, median);
                          });
                        });
}

}  // namespace

KernelPtr makeArgMax(const Layout& x, const Layout& out, int64_t axis) { return makeArg(x, out, axis, true); }
KernelPtr makeArgMin(const Layout& x, const Layout& out, int64_t axis) {
  return makeArg(x, out, axis, false);
}

KernelPtr makeTopK(const Layout& x, const Layout& values, const Layout& indices, int64_t axis, bool largest) {
  return makeOrdered(x, values, indices, axis, largest, false);
}

KernelPtr makeMedian(Layout x, Layout values, const Layout& indices, int64_t axis) {
  POPXL_ASSERT(values.shape[static_cast<size_t>(axis)] == 1 && x.shape[static_cast<size_t>(axis)] > 0,
               "median of {} into {}", toString(x.shape), toString(values.shape));
  return makeOrdered(x, values, indices, axis, false, true);
}

}  // namespace popxl::kernels
