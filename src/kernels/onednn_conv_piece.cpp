#include "kernels/onednn_conv_piece.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "kernels/onednn_gemm.h"

namespace popxl::kernels::onednn {
namespace {

using dnnl::memory;

memory::dims dimsOf(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

memory::desc descOf(const Shape& shape, const Strides& strides) {
  return memory::desc(dimsOf(shape), memory::data_type::f32, dimsOf(strides));
}

/// The library's form of weights [O, C / g, K...]: with groups [g, O / g, C / g, K...].
memory::desc weightsDesc(const Layout& l, int64_t groups) {
  if (groups == 1) return descOf(l.shape, l.strides);
  Shape shape{groups, l.shape[0] / groups};
  Strides strides{l.strides[0] * shape[1], l.strides[0]};
  shape.insert(shape.end(), l.shape.begin() + 1, l.shape.end());
  strides.insert(strides.end(), l.strides.begin() + 1, l.strides.end());
  return descOf(shape, strides);
}

Side makeSide(const memory::desc& outside, const memory::desc& inside, bool toInside) {
  return {outside, inside, toInside ? makeReorder(outside, inside) : makeReorder(inside, outside)};
}

bool isFast(const char* implementation) {
  const std::string_view name(implementation);
  return name.find("ref") == std::string_view::npos && name.find("gemm") == std::string_view::npos;
}

/// What the descriptors of the three directions have in common.
struct Problem {
  Problem(const ConvSpec& spec, const memory::desc* packed)
      : input(dataDesc(spec.input)),
        output(dataDesc(spec.output)),
        weights(weightsDesc(spec.weights, spec.groups)),
        inner(packed != nullptr
                  ? *packed
                  : memory::desc(weights.dims(), memory::data_type::f32, memory::format_tag::any)),
        lastInput(descOf(spec.input.shape, channelsLastStrides(spec.input.shape))),
        lastOutput(descOf(spec.output.shape, channelsLastStrides(spec.output.shape))),
        strides(dimsOf(spec.strides)),
        dilates(dimsOf(spec.dilations)),
        low(dimsOf(spec.padsBegin)),
        high(dimsOf(spec.padsEnd)) {
    for (auto& d : dilates) d -= 1;
  }

  /// Dimensions of size 1 may have had any stride.
  static memory::desc dataDesc(const Layout& l) {
    return descOf(l.shape, l.isChannelsLast() ? channelsLastStrides(l.shape) : l.strides);
  }

  dnnl::convolution_forward::primitive_desc forward(dnnl::prop_kind kind) const {
    return {{kind, kAlgorithm, lastInput, inner, lastOutput, strides, dilates, low, high},
            userScratchpad(),
            cpuEngine()};
  }

  static constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  memory::desc input, output, weights;  ///< as they lie outside
  memory::desc inner;                   ///< weights inside
  memory::desc lastInput, lastOutput;
  memory::dims strides, dilates, low, high;
};

using Arguments = std::vector<Primitive::Argument>;

std::optional<ConvPiece> forwardPiece(const Problem& p) {
  const auto pd = p.forward(dnnl::prop_kind::forward_inference);
  if (!isFast(pd.impl_info_str())) return std::nullopt;
  const Arguments arguments{
      {DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}};
  return ConvPiece{
      makeSide(p.input, pd.src_desc(), true), makeSide(p.weights, pd.weights_desc(), true),
      makeSide(p.output, pd.dst_desc(), false),
      std::make_unique<Primitive>(dnnl::convolution_forward(pd), arguments, pd.scratchpad_desc())};
}

std::optional<ConvPiece> gradInputPiece(const Problem& p) {
  const dnnl::convolution_backward_data::primitive_desc pd(
      {Problem::kAlgorithm, p.lastInput, p.inner, p.lastOutput, p.strides, p.dilates, p.low, p.high},
      userScratchpad(), cpuEngine(), p.forward(dnnl::prop_kind::forward_training));
  if (!isFast(pd.impl_info_str())) return std::nullopt;
  const Arguments arguments{{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                            {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}};
  return ConvPiece{
      makeSide(p.output, pd.diff_dst_desc(), true), makeSide(p.weights, pd.weights_desc(), true),
      makeSide(p.input, pd.diff_src_desc(), false),
      std::make_unique<Primitive>(dnnl::convolution_backward_data(pd), arguments, pd.scratchpad_desc())};
}

std::optional<ConvPiece> gradWeightPiece(const Problem& p) {
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {Problem::kAlgorithm, p.lastInput, p.inner, p.lastOutput, p.strides, p.dilates, p.low, p.high},
      userScratchpad(), cpuEngine(), p.forward(dnnl::prop_kind::forward_training));
  if (!isFast(pd.impl_info_str())) return std::nullopt;
  const Arguments arguments{{DNNL_ARG_SRC, pd.src_desc()},
                            {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                            {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}};
  return ConvPiece{
      makeSide(p.input, pd.src_desc(), true), makeSide(p.output, pd.diff_dst_desc(), true),
      makeSide(p.weights, pd.diff_weights_desc(), false),
      std::make_unique<Primitive>(dnnl::convolution_backward_weights(pd), arguments, pd.scratchpad_desc())};
}

}  // namespace

std::optional<ConvPiece> makeConvPiece(const ConvSpec& spec, ConvDirection direction,
                                       const memory::desc* packed) {
  const dense::SingleThreaded guard;
  try {
    const Problem problem(spec, packed);
    switch (direction) {
      case ConvDirection::kForward:
        return forwardPiece(problem);
      case ConvDirection::kGradInput:
        return gradInputPiece(problem);
      default:
        return gradWeightPiece(problem);
    }
  } catch (const dnnl::error&) {  // the library has no implementation for these sizes
    return std::nullopt;
  }
}

void runReorder(const Primitive& primitive, void* from, void* to, std::byte* scratchpad) {
  if (primitive.scratchBytes() > 0) return primitive.run({from, to, scratchpad});
  primitive.run({from, to});
}

}  // namespace popxl::kernels::onednn
