#include "kernels/gather.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "kernels/copy.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

constexpr int64_t kIndexBlock = 256;

/// t seen as [groups, outer, size, inner], indices as [groups, count], out as [groups, outer, count, inner].
struct GatherShape {
  int64_t groups = 1, outer = 1, size = 1, inner = 1, count = 1;

  GatherShape(const Layout& t, const Layout& indices, int64_t axis, bool grouped) {
    POPXL_ASSERT(axis >= (grouped ? 1 : 0) && axis < t.rank(), "axis {} of {}", axis, toString(t.shape));
    for (int64_t d = 0; d < t.rank(); ++d) {
      const int64_t n = t.shape[static_cast<size_t>(d)];
      (grouped && d == 0 ? groups : d < axis ? outer : d == axis ? size : inner) *= n;
    }
    count = indices.numElements() / std::max<int64_t>(groups, 1);
  }
};

/// Nearest valid index, or -1 where the index is out of range and such elements are to be zero (or dropped).
int64_t resolve(int64_t index, int64_t size, bool dropOutOfRange) {
  if (index >= 0 && index < size) return index;
  if (dropOutOfRange || size == 0) return -1;
  return index < 0 ? 0 : size - 1;
}

/// fn(i, resolved index) for indices first ... first + n - 1.
template <typename Fn>
void forIndices(DType dtype, const std::byte* indices, int64_t first, int64_t n, int64_t size, bool drop,
                const Fn& fn) {
  int64_t block[kIndexBlock];
  for (int64_t at = 0; at < n; at += kIndexBlock) {
    const int64_t count = std::min(kIndexBlock, n - at);
    readIndices(dtype, indices, first + at, count, block);
    for (int64_t i = 0; i < count; ++i) fn(at + i, resolve(block[i], size, drop));
  }
}

template <int64_t kBytes>
void copyRow(std::byte* dst, const std::byte* src, int64_t bytes) {
  std::memcpy(dst, src, static_cast<size_t>(kBytes > 0 ? kBytes : bytes));
}

class Gather : public Kernel {
 public:
  Gather(const Layout& t, const Layout& indices, int64_t axis, bool zero, bool grouped)
      : shape_(t, indices, axis, grouped),
        indexType_(indices.dtype),
        zero_(zero),
        rowBytes_(shape_.inner * sizeOf(t.dtype)),
        chunks_(shape_.groups * shape_.outer * shape_.count, rowBytes_ / 4 + 1, 1 << 20),
        name_(fmt::format("gather {} {} by {} on axis {}", nameOf(t.dtype), toString(t.shape),
                          toString(indices.shape), axis)) {}

  void run(std::span<std::byte* const> operands) const override {
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      switch (rowBytes_) {
        case 1:
          return runChunk<1>(operands, chunk);
        case 2:
          return runChunk<2>(operands, chunk);
        case 4:
          return runChunk<4>(operands, chunk);
        case 8:
          return runChunk<8>(operands, chunk);
        default:
          return runChunk<0>(operands, chunk);
      }
    });
  }
  std::string describe() const override { return name_; }

 private:
  template <int64_t kBytes>
  void runChunk(std::span<std::byte* const> operands, int64_t chunk) const {
    int64_t row = chunks_.begin(chunk);
    const int64_t end = chunks_.end(chunk);
    while (row < end) {  // the part of one (group, outer) that is in this chunk
      const int64_t block = row / shape_.count, first = row % shape_.count;
      const int64_t n = std::min(end - row, shape_.count - first);
      const std::byte* const table = operands[0] + block * shape_.size * rowBytes_;
      std::byte* const out = operands[2] + row * rowBytes_;
      const int64_t indexBase = block / shape_.outer * shape_.count;
      forIndices(indexType_, operands[1], indexBase + first, n, shape_.size, zero_,
                 [&](int64_t i, int64_t index) {
                   std::byte* const dst = out + i * rowBytes_;
                   if (index < 0) {
                     std::memset(dst, 0, static_cast<size_t>(rowBytes_));
                   } else {
                     copyRow<kBytes>(dst, table + index * rowBytes_, rowBytes_);
                   }
                 });
      row += n;
    }
  }

  GatherShape shape_;
  DType indexType_;
  bool zero_;
  int64_t rowBytes_;
  RowChunks chunks_;
  std::string name_;
};

/// A gather from a table that is not contiguous, such as a transposed weight: rows are copied one by one with
/// their strides, so that the table itself never is.
class StridedGather : public Kernel {
 public:
  StridedGather(const Layout& t, const Layout& indices, int64_t axis, bool zero)
      : shape_(t, indices, axis, false),
        t_(t),
        axis_(static_cast<size_t>(axis)),
        indexType_(indices.dtype),
        zero_(zero),
        elementBytes_(sizeOf(t.dtype)),
        chunks_(shape_.outer * shape_.count, shape_.inner, 1 << 20),
        name_(fmt::format("gather {} {} (strided) by {} on axis {}", nameOf(t.dtype), toString(t.shape),
                          toString(indices.shape), axis)) {
    const Layout row(t.dtype, Shape(t.shape.begin() + axis + 1, t.shape.end()),
                     Strides(t.strides.begin() + axis + 1, t.strides.end()));
    row_ = CopyPlan(row, Layout(t.dtype, row.shape));
  }

  void run(std::span<std::byte* const> operands) const override {
    const int64_t rowBytes = shape_.inner * elementBytes_;
    parallelFor(chunks_.chunks, [&](int64_t chunk) {
      for (int64_t row = chunks_.begin(chunk); row < chunks_.end(chunk); ++row) {
        int64_t block = row / shape_.count, offset = 0;
        for (size_t d = axis_; d-- > 0;) {
          offset += block % t_.shape[d] * t_.strides[d];
          block /= t_.shape[d];
        }
        forIndices(indexType_, operands[1], row % shape_.count, 1, shape_.size, zero_,
                   [&](int64_t, int64_t index) {
                     std::byte* const dst = operands[2] + row * rowBytes;
                     if (index < 0) {
                       std::memset(dst, 0, static_cast<size_t>(rowBytes));
                     } else {
                       row_.run(operands[0] + (offset + index * t_.strides[axis_]) * elementBytes_, dst);
                     }
                   });
      }
    });
  }
  std::string describe() const override { return name_; }

 private:
  GatherShape shape_;
  Layout t_;
  size_t axis_;
  DType indexType_;
  bool zero_;
  int64_t elementBytes_;
  RowChunks chunks_;
  CopyPlan row_;
  std::string name_;
};

/// dst[g, o, index[g, j], :] += factor * values[g, o, j, :] in the order of j. Work is cut where no two
/// pieces touch the same element: by outer position and by columns, or by ranges of the axis where rows are
/// short.
template <typename T, typename Sum>
class ScatterAdd {
 public:
  ScatterAdd(const GatherShape& shape, DType indexType, bool drop, double factor)
      : shape_(shape), indexType_(indexType), drop_(drop), factor_(factor) {
    constexpr int64_t kPieces = 16, kLine = 64 / static_cast<int64_t>(sizeof(T));
    byColumns_ = shape.inner >= 2 * kLine;
    length_ = byColumns_ ? shape.inner : shape.size;
    pieceSize_ = std::max<int64_t>(length_, 1);
    blocks_ = shape.groups * shape.outer;
    const bool large = blocks_ * shape.count * shape.inner > kSerialElements;
    if (large && blocks_ < kPieces) {
      const int64_t piece = (length_ + kPieces - 1) / kPieces;
      pieceSize_ = byColumns_ ? (piece + kLine - 1) / kLine * kLine : std::max<int64_t>(piece, 1);
    }
    pieces_ = std::max<int64_t>(1, (length_ + pieceSize_ - 1) / pieceSize_);
  }

  void run(const std::byte* values, const std::byte* indices, Sum* dst) const {
    const T* const from = reinterpret_cast<const T*>(values);
    parallelFor(blocks_ * pieces_, [&](int64_t unit) {
      const int64_t block = unit / pieces_, begin = unit % pieces_ * pieceSize_,
                    end = std::min(begin + pieceSize_, length_);
      const T* const source = from + block * shape_.count * shape_.inner;
      Sum* const target = dst + block * shape_.size * shape_.inner;
      const int64_t base = block / shape_.outer * shape_.count;
      forIndices(indexType_, indices, base, shape_.count, shape_.size, drop_, [&](int64_t j, int64_t index) {
        if (index < 0 || (!byColumns_ && (index < begin || index >= end))) return;
        const int64_t first = byColumns_ ? begin : 0, n = byColumns_ ? end - begin : shape_.inner;
        add(source + j * shape_.inner + first, target + index * shape_.inner + first, n);
      });
    });
  }

 private:
  void add(const T* from, Sum* to, int64_t n) const {
    if constexpr (std::is_floating_point_v<T> && std::is_same_v<T, Sum>) {
      simd::rowOps<T>().axpy(static_cast<T>(factor_), from, to, n);
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<Sum, Half>) {
      for (int64_t i = 0; i < n; ++i) {
        const float value = static_cast<float>(factor_) * widen(from[i]);
        if constexpr (std::is_same_v<Sum, Half>) {
          to[i].bits = floatToHalf(widen(to[i]) + value);
        } else {
          to[i] += value;
        }
      }
    } else {
      using U = std::make_unsigned_t<T>;  // sums wrap
      const bool plain = factor_ == 1.0;
      for (int64_t i = 0; i < n; ++i) {
        const T value = plain ? from[i] : static_cast<T>(factor_ * static_cast<double>(from[i]));
        to[i] = static_cast<T>(static_cast<U>(static_cast<U>(to[i]) + static_cast<U>(value)));
      }
    }
  }

  GatherShape shape_;
  DType indexType_;
  bool drop_, byColumns_;
  double factor_;
  int64_t blocks_, length_, pieceSize_, pieces_;
};

/// Operands: dy, indices, dt.
template <typename T>
class GatherGrad : public Kernel {
 public:
  using Sum = std::conditional_t<std::is_same_v<T, Half>, float, T>;

  GatherGrad(const Layout& dt, const Layout& indices, int64_t axis, bool drop, bool grouped)
      : shape_(dt, indices, axis, grouped),
        add_(shape_, indices.dtype, drop, 1.0),
        elements_(dt.numElements()),
        chunks_(elements_, 1, 1 << 20),
        name_(fmt::format("gather gradient {} {} by {} on axis {}", nameOf(dt.dtype), toString(dt.shape),
                          toString(indices.shape), axis)) {}

  void run(std::span<std::byte* const> operands) const override {
    Sum* sums = nullptr;
    if constexpr (kConverts) {
      sums = reinterpret_cast<float*>(operands[3]);
    } else {
      sums = reinterpret_cast<T*>(operands[2]);
    }
    parallelFor(chunks_.chunks,
                [&](int64_t i) { std::fill(sums + chunks_.begin(i), sums + chunks_.end(i), Sum{}); });
    add_.run(operands[0], operands[1], sums);
    if constexpr (kConverts) {
      T* const dt = reinterpret_cast<T*>(operands[2]);
      parallelFor(chunks_.chunks, [&](int64_t i) {
        storeRow(sums + chunks_.begin(i), dt + chunks_.begin(i), chunks_.end(i) - chunks_.begin(i));
      });
    }
  }
  int64_t scratchBytes() const override {
    return kConverts ? std::max<int64_t>(elements_ * static_cast<int64_t>(sizeof(Sum)), 64) : 0;
  }
  std::string describe() const override { return name_; }

 private:
  static constexpr bool kConverts = std::is_same_v<T, Half>;
  GatherShape shape_;
  ScatterAdd<T, Sum> add_;
  int64_t elements_;
  RowChunks chunks_;
  std::string name_;
};

/// Operands: t, indices, values, out.
template <typename T, typename Out>
class ScatterAddKernel : public Kernel {
 public:
  ScatterAddKernel(const Layout& t, const Layout& indices, int64_t axis, double factor)
      : copy_(t, t),
        add_(GatherShape(t, indices, axis, false), indices.dtype, false, factor),
        name_(fmt::format("scatter add {} {} by {} on axis {}", nameOf(t.dtype), toString(t.shape),
                          toString(indices.shape), axis)) {}
  void run(std::span<std::byte* const> operands) const override {
    if (operands[0] != operands[3]) copy_.run(operands[0], operands[3]);
    add_.run(operands[2], operands[1], reinterpret_cast<Out*>(operands[3]));
  }
  std::string describe() const override { return name_; }

 private:
  CopyPlan copy_;
  ScatterAdd<T, Out> add_;
  std::string name_;
};

void check(const Layout& t, const Layout& indices, const Layout& out, int64_t axis, bool grouped) {
  Shape want(t.shape.begin(), t.shape.begin() + axis);
  want.insert(want.end(), indices.shape.begin() + (grouped ? 1 : 0), indices.shape.end());
  want.insert(want.end(), t.shape.begin() + axis + 1, t.shape.end());
  POPXL_ASSERT(t.dtype == out.dtype && out.shape == want, "t {} {}, indices {}, axis {}, out {} {}",
               nameOf(t.dtype), toString(t.shape), toString(indices.shape), axis, nameOf(out.dtype),
               toString(out.shape));
}

KernelPtr gatherAny(const Layout& t, const Layout& indices, const Layout& out, int64_t axis, bool zero,
                    bool grouped) {
  check(t, indices, out, axis, grouped);
  if (!grouped && !t.isContiguous()) {
    // The kernel reads t with its strides, so t's own layout is declared contiguous to the wrapper.
    return withContiguous({Layout(t.dtype, t.shape), indices}, {out},
                          [&](const std::vector<Layout>& layouts) -> KernelPtr {
                            return std::make_unique<StridedGather>(t, layouts[1], axis, zero);
                          });
  }
  return withContiguous({t, indices}, {out}, [&](const std::vector<Layout>& layouts) -> KernelPtr {
    return std::make_unique<Gather>(layouts[0], layouts[1], axis, zero, grouped);
  });
}

}  // namespace

KernelPtr makeGather(const Layout& t, const Layout& indices, const Layout& out, int64_t axis,
                     bool zeroOutOfRange) {
  return gatherAny(t, indices, out, axis, zeroOutOfRange, false);
}

KernelPtr makeGroupedGather(const Layout& t, const Layout& indices, const Layout& out, int64_t axis,
                            bool zeroOutOfRange) {
  return gatherAny(t, indices, out, axis, zeroOutOfRange, true);
}

KernelPtr makeGatherGrad(const Layout& dy, const Layout& indices, Layout dt, int64_t axis,
                         bool zeroOutOfRange, bool grouped) {
  check(dt, indices, dy, axis, grouped);
  return withContiguous({dy, indices}, {dt}, [&](const std::vector<Layout>& layouts) {
    return dispatchNumber(dt.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<GatherGrad<T>>(layouts[2], layouts[1], axis, zeroOutOfRange, grouped);
    });
  });
}

KernelPtr makeScatterAdd(const Layout& t, const Layout& indices, const Layout& values, const Layout& out,
                         int64_t axis, double factor) {
  const bool widened = t.dtype == DType::kFloat16 && values.dtype == DType::kFloat32;
  check(t, indices, widened ? Layout(t.dtype, values.shape) : values, axis, false);
  POPXL_ASSERT(out.dtype == t.dtype && out.shape == t.shape, "t {} out {}", toString(t.shape),
               toString(out.shape));
  return withContiguous({t, indices, values}, {out}, [&](const std::vector<Layout>& layouts) -> KernelPtr {
    if (widened) {
      return std::make_unique<ScatterAddKernel<float, Half>>(layouts[0], layouts[1], axis, factor);
    }
    return dispatchNumber(t.dtype, [&]<typename T>(std::type_identity<T>) -> KernelPtr {
      return std::make_unique<ScatterAddKernel<T, T>>(layouts[0], layouts[1], axis, factor);
    });
  });
}

}  // namespace popxl::kernels
