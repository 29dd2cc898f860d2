#include <cstring>

#include "base/error.h"
#include "kernels/parallel.h"
#include "kernels/pool.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

/// All positions of a window in row-major order: f(offset in a plane of the input) until it says true.
class Windows {
 public:
  explicit Windows(const PoolSpec& spec)
      : in_(spec.input.shape.begin() + 2, spec.input.shape.end()),
        out_(spec.output.shape.begin() + 2, spec.output.shape.end()),
        spec_(spec) {}
  int64_t outputs() const { return numElements(out_); }
  int64_t inputs() const { return numElements(in_); }

  template <typename F>
  bool anyOf(int64_t output, const F& f) const {
    return any(output, 0, 0, outputs(), f);
  }

 private:
  /// `rest`: elements of the output that one step of this dimension passes, times its size.
  template <typename F>
  bool any(int64_t output, size_t dim, int64_t offset, int64_t rest, const F& f) const {
    if (dim == in_.size()) return f(offset);
    rest /= out_[dim];
    const int64_t start = output / rest * spec_.strides[dim] - spec_.padsBegin[dim];
    for (int64_t k = 0; k < spec_.kernel[dim]; ++k) {
      const int64_t at = start + k * spec_.dilations[dim];
      if (at < 0 || at >= in_[dim]) continue;
      if (any(output % rest, dim + 1, offset * in_[dim] + at, rest, f)) return true;
    }
    return false;
  }

  Shape in_, out_;
  PoolSpec spec_;
};

class MaxPoolPick final : public Kernel {
 public:
  explicit MaxPoolPick(const PoolSpec& spec)
      : windows_(spec),
        dtype_(spec.input.dtype),
        planes_(spec.input.shape[0] * spec.input.shape[1]),
        text_(fmt::format("max pool pick {} {} to {}", nameOf(dtype_), toString(spec.input.shape),
                          toString(spec.output.shape))) {
    POPXL_ASSERT(spec.input.isContiguous() && spec.output.isContiguous(), "{}", text_);
  }

  void run(std::span<std::byte* const> operands) const override {
    if (windows_.outputs() > 0) parallelFor(planes_, [&](int64_t plane) { runPlane(operands, plane); });
  }
  std::string describe() const override { return text_; }

 private:
  void runPlane(std::span<std::byte* const> operands, int64_t plane) const {
    const std::byte *x = operands[0], *y = operands[1], *from = operands[2];
    const int64_t size = sizeOf(dtype_), first = plane * windows_.inputs();
    for (int64_t i = 0; i < windows_.outputs(); ++i) {
      const int64_t at = plane * windows_.outputs() + i;
      const double largest = readNumber(dtype_, y, at);
      std::byte* out = operands[3] + at * size;
      const bool found = windows_.anyOf(i, [&](int64_t offset) {
        if (readNumber(dtype_, x, first + offset) != largest) return false;
        std::memcpy(out, from + (first + offset) * size, static_cast<size_t>(size));
        return true;
      });
      if (!found) std::memset(out, 0, static_cast<size_t>(size));
    }
  }

  Windows windows_;
  DType dtype_;
  int64_t planes_;
  std::string text_;
};

}  // namespace

KernelPtr makeMaxPoolPick(const PoolSpec& spec) { return std::make_unique<MaxPoolPick>(spec); }

}  // namespace popxl::kernels
