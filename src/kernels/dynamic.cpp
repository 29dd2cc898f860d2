#include <algorithm>
#include <array>

#include "kernels/copy.h"
#include "kernels/gather.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

/// Where a window of shape `window` lies in a tensor, from indices read at run time.
class WindowPlace {
 public:
  WindowPlace(const Layout& tensor, const Layout& index, const std::vector<int64_t>& axes,
              const Shape& window)
      : type_(index.dtype), indexStride_(index.rank() == 0 ? 0 : index.strides.back()) {
    POPXL_ASSERT(
        index.numElements() == static_cast<int64_t>(axes.size()) && tensor.shape.size() == window.size(),
        "tensor {} index {} axes {} window {}", toString(tensor.shape), toString(index.shape), axes.size(),
        toString(window));
    for (const int64_t axis : axes) {
      POPXL_ASSERT(axis >= 0 && axis < tensor.rank(), "axis {} of {}", axis, toString(tensor.shape));
      const auto d = static_cast<size_t>(axis);
      POPXL_ASSERT(window[d] <= tensor.shape[d], "window {} of {}", toString(window), toString(tensor.shape));
      last_.push_back(tensor.shape[d] - window[d]);
      strides_.push_back(tensor.strides[d] * sizeOf(tensor.dtype));
    }
  }
  /// Bytes from the tensor's first element to the window's.
  int64_t offset(const std::byte* index) const {
    int64_t out = 0;
    for (size_t i = 0; i < last_.size(); ++i) {
      int64_t at = 0;
      readIndices(type_, index, static_cast<int64_t>(i) * indexStride_, 1, &at);
      out += std::clamp<int64_t>(at, 0, last_[i]) * strides_[i];
    }
    return out;
  }

 private:
  DType type_;
  int64_t indexStride_;
  std::vector<int64_t> last_, strides_;
};

/// The part of `tensor` that the window covers when it lies at the start.
Layout windowOf(const Layout& tensor, const Shape& window) {
  return Layout(tensor.dtype, window, tensor.strides);
}

class DynamicSlice : public Kernel {
 public:
  DynamicSlice(const Layout& t, const Layout& index, const std::vector<int64_t>& axes, const Layout& out)
      : place_(t, index, axes, out.shape),
        plan_(windowOf(t, out.shape), out),
        name_(fmt::format("dynamic slice {} of {} {}", toString(out.shape), nameOf(t.dtype),
                          toString(t.shape))) {}
  void run(std::span<std::byte* const> operands) const override {
    plan_.run(operands[0] + place_.offset(operands[1]), operands[2]);
  }
  std::string describe() const override { return name_; }

 private:
  WindowPlace place_;
  CopyPlan plan_;
  std::string name_;
};

/// What lies around and in the window of `out`: `background` is a tensor or zero, `v` is a tensor or zero.
class DynamicWrite : public Kernel {
 public:
  DynamicWrite(const std::optional<Layout>& background, const Layout& index, const std::vector<int64_t>& axes,
               const Shape& window, const std::optional<Layout>& v, const Layout& out, const char* what)
      : hasBackground_(background.has_value()),
        hasValue_(v.has_value()),
        place_(out, index, axes, window),
        background_(background ? *background : zeros(out.dtype, out.shape), out),
        value_(v ? *v : zeros(out.dtype, window), windowOf(out, window)),
        name_(fmt::format("{} {} of {} {}", what, toString(window), nameOf(out.dtype), toString(out.shape))) {
  }

  void run(std::span<std::byte* const> operands) const override {
    alignas(16) static constexpr std::array<std::byte, 16> kZero{};
    size_t next = 0;
    const std::byte* const background = hasBackground_ ? operands[next++] : kZero.data();
    const int64_t offset = place_.offset(operands[next++]);
    const std::byte* const value = hasValue_ ? operands[next++] : kZero.data();
    std::byte* const out = operands[next];
    if (background != out) background_.run(background, out);
    value_.run(value, out + offset);
  }
  std::string describe() const override { return name_; }

 private:
  /// One zero element, broadcast.
  static Layout zeros(DType dtype, const Shape& shape) {
    return Layout(dtype, shape, Strides(shape.size(), 0));
  }

  bool hasBackground_, hasValue_;
  WindowPlace place_;
  CopyPlan background_, value_;
  std::string name_;
};

}  // namespace

KernelPtr makeDynamicSlice(const Layout& t, const Layout& index, const std::vector<int64_t>& axes,
                           const Layout& out) {
  return std::make_unique<DynamicSlice>(t, index, axes, out);
}

KernelPtr makeDynamicUpdate(Layout t, const Layout& index, const std::vector<int64_t>& axes, Layout v,
                            const Layout& out) {
  return std::make_unique<DynamicWrite>(t, index, axes, v.shape, v, out, "dynamic update");
}

KernelPtr makeDynamicPad(const Layout& index, const std::vector<int64_t>& axes, Layout v, const Layout& out) {
  return std::make_unique<DynamicWrite>(std::nullopt, index, axes, v.shape, v, out, "dynamic pad");
}

KernelPtr makeDynamicZero(Layout t, const Layout& index, const std::vector<int64_t>& axes,
                          const Shape& window, const Layout& out) {
  return std::make_unique<DynamicWrite>(t, index, axes, window, std::nullopt, out, "dynamic zero");
}

}  // namespace popxl::kernels
