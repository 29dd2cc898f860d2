#pragma once

#include <cstdint>
#include <vector>

#include "base/shape.h"
#include "kernels/kernel.h"

namespace popxl::kernels {

// Movement of elements of any dtype by their size. Layouts may have any strides, negative and (as sources)
// zero ones. An element offset beside a Layout says where its element 0 lies relative to the operand's
// pointer.

/// Results larger than this are written past the caches: they would not stay there anyway.
inline constexpr int64_t kStreamBytes = 16 * 1024 * 1024;

/// The copy of one strided region to another of the same shape and element size, prepared once.
class CopyPlan {
 public:
  CopyPlan() = default;
  CopyPlan(const Layout& src, const Layout& dst, int64_t srcOffset = 0, int64_t dstOffset = 0);
  /// The regions must not overlap, unless they are the same. Parallel when large.
  void run(const std::byte* src, std::byte* dst) const;
  int64_t bytes() const { return elements_ * elementBytes_; }

 private:
  struct Dim {
    int64_t size, src, dst;  // strides in bytes
  };
  enum class Inner { kBytes, kTranspose, kStrided };
  void runChunk(int64_t chunk, const std::byte* src, std::byte* dst) const;
  void runInner(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const;
  void chooseInner();
  void chooseChunks();

  std::vector<Dim> outer_;  // loops around the inner region
  Dim a_{1, 0, 0};          // inner region: for kTranspose a is contiguous in src, b in dst
  Dim b_{1, 0, 0};
  Inner inner_ = Inner::kBytes;
  int64_t elementBytes_ = 1, elements_ = 0, srcOffset_ = 0, dstOffset_ = 0;
  int64_t outerCount_ = 1, outerPerChunk_ = 1, innerPieces_ = 1, pieceSize_ = 1;
};

/// A copy of dense memory, parallel when large.
enum class After : uint8_t { kRead, kLeft };  ///< whether the copy is read again soon, or left alone
void copyBytes(const std::byte* src, std::byte* dst, int64_t bytes, After after);

/// Operands: src, dst. Same shape and dtype. Covers contiguous, transposed, broadcast (source stride 0) and
/// sliced views.
KernelPtr makeCopy(const Layout& src, const Layout& dst);
/// makeCopy from src[srcOffset...] to dst[dstOffset...], offsets in elements: a slice of, or into, a larger
/// tensor.
KernelPtr makeWindowCopy(const Layout& src, int64_t srcOffset, const Layout& dst, int64_t dstOffset);
/// Operands: the inputs, then out, whose size on `axis` is the sum of theirs.
KernelPtr makeConcat(const std::vector<Layout>& ins, int64_t axis, const Layout& out);
/// Operands: dst. Sets every element to `value` converted to the dtype.
KernelPtr makeFill(const Layout& dst, double value);
/// Operands: dy, dx. dx is 0 but for the window of dy's shape that starts at element `offset` of dx and steps
/// by `strides` elements of dx's memory, which receives dy: the gradient of a strided slice.
KernelPtr makeSliceGrad(const Layout& dy, const Layout& dx, int64_t offset, Strides strides);

}  // namespace popxl::kernels
