#include "kernels/copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "kernels/parallel.h"
#include "kernels/rows.h"
#include "kernels/rows_simd.h"

namespace popxl::kernels {
namespace {

constexpr int64_t kChunkBytes = 128 * 1024;
/// The same of results that nobody reads soon: those should not drive out what is there.
constexpr int64_t kLeftBytes = 1024 * 1024;
constexpr size_t kMaxRank = 16;

template <typename T>
void copyStridedTyped(const std::byte* src, int64_t srcStride, std::byte* dst, int64_t dstStride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * dstStride, src + i * srcStride, sizeof(T));
}

struct Sixteen {
  uint64_t words[2];
};

void copyStrided(const std::byte* src, int64_t srcStride, std::byte* dst, int64_t dstStride, int64_t n,
                 int64_t size) {
  switch (size) {
    case 1:
      return copyStridedTyped<uint8_t>(src, srcStride, dst, dstStride, n);
    case 2:
      return copyStridedTyped<uint16_t>(src, srcStride, dst, dstStride, n);
    case 4:
      return copyStridedTyped<uint32_t>(src, srcStride, dst, dstStride, n);
    case 8:
      return copyStridedTyped<uint64_t>(src, srcStride, dst, dstStride, n);
    default:
      return copyStridedTyped<Sixteen>(src, srcStride, dst, dstStride, n);
  }
}

/// One piece, on this thread.
void copyPiece(const std::byte* src, std::byte* dst, int64_t bytes, bool stream) {
  if (stream && bytes >= 1024) {
    simd::moveOps().stream(src, dst, bytes);
    simd::flushStream();
  } else {
    std::memcpy(dst, src, static_cast<size_t>(bytes));
  }
}

}  // namespace

void copyBytes(const std::byte* src, std::byte* dst, int64_t bytes, After after) {
  const bool stream = bytes > (after == After::kLeft ? kLeftBytes : kStreamBytes);
  const int64_t piece = bytes <= 2 * kChunkBytes ? std::max<int64_t>(bytes, 1) : kChunkBytes;
  parallelFor((bytes + piece - 1) / piece, [&](int64_t i) {
    copyPiece(src + i * piece, dst + i * piece, std::min(piece, bytes - i * piece), stream);
  });
}

CopyPlan::CopyPlan(const Layout& src, const Layout& dst, int64_t srcOffset, int64_t dstOffset) {
  POPXL_ASSERT(src.shape == dst.shape && sizeOf(src.dtype) == sizeOf(dst.dtype), "copy of {} {} to {} {}",
               nameOf(src.dtype), toString(src.shape), nameOf(dst.dtype), toString(dst.shape));
  elementBytes_ = sizeOf(src.dtype);
  elements_ = src.numElements();
  srcOffset_ = srcOffset * elementBytes_;
  dstOffset_ = dstOffset * elementBytes_;
  for (size_t i = 0; i < src.shape.size(); ++i) {
    if (src.shape[i] == 1) continue;
    Dim dim{src.shape[i], src.strides[i] * elementBytes_, dst.strides[i] * elementBytes_};
    if (dim.dst < 0) {  // walk every destination upwards
      srcOffset_ += (dim.size - 1) * dim.src;
      dstOffset_ += (dim.size - 1) * dim.dst;
      dim.src = -dim.src;
      dim.dst = -dim.dst;
    }
    outer_.push_back(dim);
  }
  std::stable_sort(outer_.begin(), outer_.end(), [](const Dim& a, const Dim& b) { return a.dst > b.dst; });
  for (size_t i = outer_.size(); i-- > 1;) {
    Dim& out = outer_[i - 1];
    const Dim& in = outer_[i];
    if (out.src != in.src * in.size || out.dst != in.dst * in.size) continue;
    out = {out.size * in.size, in.src, in.dst};
    outer_.erase(outer_.begin() + static_cast<int64_t>(i));
  }
  POPXL_ASSERT(outer_.size() <= kMaxRank, "rank {}", src.rank());
  chooseInner();
  chooseChunks();
}

void CopyPlan::chooseInner() {
  if (outer_.empty()) {
    b_ = {1, elementBytes_, elementBytes_};
    return;
  }
  b_ = outer_.back();
  outer_.pop_back();
  if (b_.src == elementBytes_ && b_.dst == elementBytes_) return;
  inner_ = Inner::kStrided;
  if (b_.dst != elementBytes_ || elementBytes_ > 8) return;
  const auto contiguous = std::find_if(outer_.begin(), outer_.end(), [&](const Dim& dim) {
    return dim.src == elementBytes_ && dim.size >= 4;
  });
  if (contiguous == outer_.end()) return;
  a_ = *contiguous;
  outer_.erase(contiguous);
  inner_ = Inner::kTranspose;
}

void CopyPlan::chooseChunks() {
  for (const Dim& dim : outer_) outerCount_ *= dim.size;
  const int64_t innerBytes = a_.size * b_.size * elementBytes_;
  // Split along a for transposes (whole destination rows), along b otherwise.
  const int64_t length = inner_ == Inner::kTranspose ? a_.size : b_.size;
  pieceSize_ = length;
  if (bytes() <= kSerialElements * 4) {
    outerPerChunk_ = std::max<int64_t>(outerCount_, 1);
    return;
  }
  outerPerChunk_ = std::max<int64_t>(1, kChunkBytes / std::max<int64_t>(innerBytes, 1));
  if (innerBytes > 2 * kChunkBytes) {
    const int64_t piece = std::max<int64_t>(1, length * kChunkBytes / innerBytes);
    pieceSize_ = std::min(length, (piece + 63) / 64 * 64);
  }
  innerPieces_ = (length + pieceSize_ - 1) / pieceSize_;
}

void CopyPlan::run(const std::byte* src, std::byte* dst) const {
  if (elements_ == 0) return;
  src += srcOffset_;
  dst += dstOffset_;
  const int64_t chunks = (outerCount_ + outerPerChunk_ - 1) / outerPerChunk_ * innerPieces_;
  parallelFor(chunks, [&](int64_t chunk) { runChunk(chunk, src, dst); });
}

void CopyPlan::runChunk(int64_t chunk, const std::byte* src, std::byte* dst) const {
  const int64_t begin = chunk % innerPieces_ * pieceSize_;
  const int64_t end = std::min(begin + pieceSize_, inner_ == Inner::kTranspose ? a_.size : b_.size);
  int64_t i = chunk / innerPieces_ * outerPerChunk_;
  const int64_t last = std::min(i + outerPerChunk_, outerCount_);
  std::array<int64_t, kMaxRank> at{};
  int64_t rest = i;
  for (size_t d = outer_.size(); d-- > 0;) {
    at[d] = rest % outer_[d].size;
    rest /= outer_[d].size;
    src += at[d] * outer_[d].src;
    dst += at[d] * outer_[d].dst;
  }
  for (; i < last; ++i) {
    runInner(src, dst, begin, end);
    for (size_t d = outer_.size(); d-- > 0;) {
      src += outer_[d].src;
      dst += outer_[d].dst;
      if (++at[d] < outer_[d].size) break;
      at[d] = 0;
      src -= outer_[d].size * outer_[d].src;
      dst -= outer_[d].size * outer_[d].dst;
    }
  }
}

void CopyPlan::runInner(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const {
  const int64_t n = end - begin;
  switch (inner_) {
    case Inner::kBytes: {
      const int64_t offset = begin * elementBytes_, size = n * elementBytes_;
      return copyPiece(src + offset, dst + offset, size, bytes() > kStreamBytes);
    }
    case Inner::kTranspose:
      return simd::moveOps().transpose(src + begin * a_.src, b_.src, dst + begin * a_.dst, a_.dst, b_.size, n,
                                       elementBytes_);
    case Inner::kStrided:
      return copyStrided(src + begin * b_.src, b_.src, dst + begin * b_.dst, b_.dst, n, elementBytes_);
  }
}

namespace {

class CopyKernel : public Kernel {
 public:
  CopyKernel(const Layout& src, int64_t srcOffset, const Layout& dst, int64_t dstOffset)
      : plan_(src, dst, srcOffset, dstOffset),
        name_(fmt::format("copy {} {}{}", nameOf(dst.dtype), toString(dst.shape),
                          src.isContiguous() && dst.isContiguous() ? "" : " strided")) {}
  void run(std::span<std::byte* const> operands) const override { plan_.run(operands[0], operands[1]); }
  std::string describe() const override { return name_; }

 private:
  CopyPlan plan_;
  std::string name_;
};

class ConcatKernel : public Kernel {
 public:
  ConcatKernel(const std::vector<Layout>& ins, int64_t axis, const Layout& out)
      : name_(fmt::format("concat {} {} axis {}", nameOf(out.dtype), toString(out.shape), axis)) {
    POPXL_ASSERT(axis >= 0 && axis < out.rank(), "axis {} of {}", axis, toString(out.shape));
    const auto d = static_cast<size_t>(axis);
    int64_t at = 0;
    for (const Layout& in : ins) {
      Layout window = out;
      window.shape[d] = in.shape[d];
      plans_.emplace_back(in, window, 0, at * out.strides[d]);
      at += in.shape[d];
    }
    POPXL_ASSERT(at == out.shape[d], "inputs have {} on axis {}, the output {}", at, axis,
                 toString(out.shape));
  }
  void run(std::span<std::byte* const> operands) const override {
    for (size_t i = 0; i < plans_.size(); ++i) plans_[i].run(operands[i], operands[plans_.size()]);
  }
  std::string describe() const override { return name_; }

 private:
  std::vector<CopyPlan> plans_;
  std::string name_;
};

/// Fills contiguous memory with one element's bytes.
class FillKernel : public Kernel {
 public:
  FillKernel(const Layout& dst, double value)
      : bytes_(dst.bytes()),
        elementBytes_(sizeOf(dst.dtype)),
        name_(fmt::format("fill {} {} with {}", nameOf(dst.dtype), toString(dst.shape), value)) {
    // A pattern of whole elements, long enough that copying it is cheap.
    std::array<std::byte, 16> element{};
    if (isComplex(dst.dtype)) {
      writeNumber(dst.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64, element.data(), 0,
                  value);
    } else if (isFloat8(dst.dtype)) {
      element[0] = static_cast<std::byte>(floatToFloat8(static_cast<float>(value), dst.dtype, true));
    } else {
      writeNumber(dst.dtype, element.data(), 0, value);
    }
    for (size_t i = 0; i < pattern_.size(); ++i)
      pattern_[i] = element[i % static_cast<size_t>(elementBytes_)];
    uniform_ = std::all_of(pattern_.begin(), pattern_.end(), [&](std::byte b) { return b == pattern_[0]; });
  }
  void run(std::span<std::byte* const> operands) const override {
    std::byte* const dst = operands[0];
    const int64_t chunk = bytes_ <= 2 * kChunkBytes ? bytes_ : kChunkBytes;
    if (bytes_ == 0) return;
    parallelFor((bytes_ + chunk - 1) / chunk,
                [&](int64_t i) { fill(dst + i * chunk, std::min(chunk, bytes_ - i * chunk)); });
  }
  std::string describe() const override { return name_; }

 private:
  void fill(std::byte* dst, int64_t n) const {
    if (uniform_) {
      std::memset(dst, static_cast<int>(pattern_[0]), static_cast<size_t>(n));
      return;
    }
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(pattern_.size())) {
      std::memcpy(dst + i, pattern_.data(), static_cast<size_t>(std::min<int64_t>(pattern_.size(), n - i)));
    }
  }

  int64_t bytes_, elementBytes_;
  std::array<std::byte, 64> pattern_;
  bool uniform_ = false;
  std::string name_;
};

class SliceGradKernel : public Kernel {
 public:
  SliceGradKernel(const Layout& dy, const Layout& dx, int64_t offset, Strides strides)
      : zero_(makeFill(dx, 0)),
        zeroScratch_(zero_->scratchBytes()),
        plan_(dy, Layout(dx.dtype, dy.shape, std::move(strides)), 0, offset),
        name_(fmt::format("slice gradient {} {} into {}", nameOf(dx.dtype), toString(dy.shape),
                          toString(dx.shape))) {}
  void run(std::span<std::byte* const> operands) const override {
    const std::array<std::byte*, 2> fill = {operands[1], zeroScratch_ > 0 ? operands[2] : nullptr};
    zero_->run(std::span(fill.data(), zeroScratch_ > 0 ? 2 : 1));
    plan_.run(operands[0], operands[1]);
  }
  int64_t scratchBytes() const override { return zeroScratch_; }
  std::string describe() const override { return name_; }

 private:
  KernelPtr zero_;
  int64_t zeroScratch_;
  CopyPlan plan_;
  std::string name_;
};

}  // namespace

KernelPtr makeCopy(const Layout& src, const Layout& dst) {
  return std::make_unique<CopyKernel>(src, 0, dst, 0);
}

KernelPtr makeWindowCopy(const Layout& src, int64_t srcOffset, const Layout& dst, int64_t dstOffset) {
  return std::make_unique<CopyKernel>(src, srcOffset, dst, dstOffset);
}

KernelPtr makeConcat(const std::vector<Layout>& ins, int64_t axis, const Layout& out) {
  return std::make_unique<ConcatKernel>(ins, axis, out);
}

KernelPtr makeFill(const Layout& dst, double value) {
  return withContiguous({}, {dst}, [value](const std::vector<Layout>& layouts) -> KernelPtr {
    return std::make_unique<FillKernel>(layouts[0], value);
  });
}

KernelPtr makeSliceGrad(const Layout& dy, const Layout& dx, int64_t offset, Strides strides) {
  return std::make_unique<SliceGradKernel>(dy, dx, offset, std::move(strides));
}

}  // namespace popxl::kernels
