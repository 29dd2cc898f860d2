#include "kernels/conv.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/conv_im2col.h"
#include "kernels/conv_plan.h"
#include "kernels/dense_pack.h"
#include "kernels/onednn_conv.h"

namespace popxl::kernels {
namespace {

/// Some dimension is 0: the result, if it has elements, is zero.
class EmptyConv final : public Kernel {
 public:
  EmptyConv(Layout result, size_t at, std::string text)
      : result_(std::move(result)), at_(at), text_(std::move(text)) {}

  void run(std::span<std::byte* const> operands) const override {
    const int64_t count = result_.numElements(), size = sizeOf(result_.dtype);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, offset = 0;
      for (size_t d = result_.shape.size(); d-- > 0; rest /= result_.shape[d]) {
        offset += rest % result_.shape[d] * result_.strides[d];
      }
      std::fill_n(operands[at_] + offset * size, size, std::byte{0});
    }
  }
  std::string describe() const override { return text_; }

 private:
  Layout result_;
  size_t at_;
  std::string text_;
};

void checkTypes(const Layout& a, const Layout& b, const Layout& result) {
  const bool float8 = isFloat8(a.dtype) && isFloat8(b.dtype) && result.dtype == DType::kFloat16;
  const bool same = a.dtype == b.dtype && a.dtype == result.dtype && !isFloat8(a.dtype);
  if (!same && !float8) {
    fail(ErrorKind::kType,
         "conv: operands are {} and {}, the result is {}; expected one dtype for all three, or two float8 "
         "operands and "
         "a float16 result; cast an operand",
         nameOf(a.dtype), nameOf(b.dtype), nameOf(result.dtype));
  }
}

/// The gradient of the input of a convolution without a window is a product with the transposed weights, that
/// is a convolution too; the library's forward kernels are the faster ones.
bool isPointwiseChannelsLast(const ConvSpec& spec) {
  const auto is = [](const Layout& l) { return l.dtype == DType::kFloat32 && l.isChannelsLast(); };
  return spec.groups == 1 && !spec.scaled && convSizes(spec).isPointwise() && is(spec.input) &&
         is(spec.output) && spec.weights.isContiguous();
}

ConvSpec asForward(const ConvSpec& spec) {
  ConvSpec forward = spec;
  std::swap(forward.input, forward.output);
  std::swap(forward.weights.shape[0], forward.weights.shape[1]);
  std::swap(forward.weights.strides[0], forward.weights.strides[1]);
  return forward;
}

KernelPtr make(const ConvSpec& spec, ConvDirection direction) {
  const bool isInput = direction == ConvDirection::kGradInput,
             isWeights = direction == ConvDirection::kGradWeight;
  const Layout& first = isInput ? spec.output : spec.input;
  const Layout& second = isWeights ? spec.output : spec.weights;
  const Layout& result = isInput ? spec.input : isWeights ? spec.weights : spec.output;
  checkTypes(first, second, result);
  const dense::Compute compute = dense::computeOf(first.dtype, "conv");
  POPXL_ASSERT(!spec.scaled || isFloat8(first.dtype), "a scale needs float8 operands, not {}",
               nameOf(first.dtype));
  if (first.numElements() == 0 || second.numElements() == 0 || result.numElements() == 0) {
    return std::make_unique<EmptyConv>(result, spec.scaled ? 3 : 2, describeConv(spec, direction));
  }
  if (isInput && isPointwiseChannelsLast(spec)) {
    if (KernelPtr kernel = makeOnednnConv(asForward(spec), ConvDirection::kForward)) return kernel;
  }
  if (compute == dense::Compute::kF32 && prefersLibrary(spec, direction, onednnHasAvx512())) {
    if (KernelPtr kernel = makeOnednnConv(spec, direction)) return kernel;
  }
  return makeIm2colConv(spec, direction);
}

}  // namespace

KernelPtr makeConv(const ConvSpec& spec) { return make(spec, ConvDirection::kForward); }
KernelPtr makeConvGradInput(const ConvSpec& spec) { return make(spec, ConvDirection::kGradInput); }
KernelPtr makeConvGradWeight(const ConvSpec& spec) { return make(spec, ConvDirection::kGradWeight); }

}  // namespace popxl::kernels
