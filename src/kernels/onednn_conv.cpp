#include "kernels/onednn_conv.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "kernels/dense_lanes.h"
#include "kernels/dense_pack.h"
#include "kernels/onednn_gemm.h"
#include "kernels/onednn_primitive.h"

namespace popxl::kernels {
namespace {

using dense::Carver;
using dnnl::memory;
using onednn::Primitive;

constexpr double kSerialFlops = 3e6;
constexpr int64_t kChannelBlock = 16;

int64_t roundUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

void runWith(const Primitive& primitive, void* a, void* b, std::byte* scratchpad) {
  primitive.scratchBytes() > 0 ? primitive.run({a, b, scratchpad}) : primitive.run({a, b});
}

/// A tensor of a chunk: as it lies outside the library, and as the primitive wants it.
struct Side {
  memory::desc outside, inside;
  std::unique_ptr<Primitive> reorder;  ///< null when they are the same

  int64_t insideBytes() const { return reorder == nullptr ? 0 : static_cast<int64_t>(inside.get_size()); }
  int64_t scratchBytes() const { return reorder == nullptr ? 0 : reorder->scratchBytes(); }
};

/// The primitives of one chunk: result = first (*) second.
struct Chunk {
  Side first, second, result;
  std::unique_ptr<Primitive> conv;

  int64_t scratchBytes() const {
    return std::max(
        {conv->scratchBytes(), first.scratchBytes(), second.scratchBytes(), result.scratchBytes()});
  }
};

/// How the work is cut: `images` of the batch and `channels` of the result's channels (the output channels
/// for the gradient of the weights).
struct Cut {
  int64_t images, channels;
};

memory::dims tail(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

memory::desc descOf(const Shape& shape, const Strides& strides) {
  return memory::desc(tail(shape), memory::data_type::f32, tail(strides));
}

/// The oneDNN form of weights [O, C / g, K...]: with groups [g, O / g, C / g, K...].
memory::desc weightsDesc(const Layout& l, int64_t groups) {
  if (groups == 1) return descOf(l.shape, l.strides);
  Shape shape{groups, l.shape[0] / groups};
  Strides strides{l.strides[0] * shape[1], l.strides[0]};
  shape.insert(shape.end(), l.shape.begin() + 1, l.shape.end());
  strides.insert(strides.end(), l.strides.begin() + 1, l.strides.end());
  return descOf(shape, strides);
}

memory::desc anyOf(const memory::desc& d) {
  return memory::desc(d.dims(), memory::data_type::f32, memory::format_tag::any);
}

Side makeSide(const memory::desc& outside, const memory::desc& inside, bool toInside) {
  Side side{outside, inside, nullptr};
  side.reorder = toInside ? onednn::makeReorder(side.outside, side.inside)
                          : onednn::makeReorder(side.inside, side.outside);
  return side;
}

/// Brings a tensor to the library's layout; returns where it then is.
void* enterSide(const Side& side, void* outside, std::byte* inside, std::byte* scratchpad) {
  if (side.reorder == nullptr) return outside;
  runWith(*side.reorder, outside, inside, scratchpad);
  return inside;
}

bool isFast(const char* implementation) {
  const std::string_view name(implementation);
  return name.find("ref") == std::string_view::npos && name.find("gemm") == std::string_view::npos;
}

/// Descriptors of the three tensors of a chunk as they lie outside.
struct Outside {
  memory::desc input, weights, output;
};

template <typename Desc>
Chunk assemble(const Desc& pd, const dnnl::primitive& primitive, const Outside& outside,
               ConvDirection direction) {
  Chunk chunk;
  const auto make = [&](Primitive::Argument a, Primitive::Argument b, Primitive::Argument r) {
    chunk.conv = std::make_unique<Primitive>(primitive, std::vector<Primitive::Argument>{a, b, r},
                                             pd.scratchpad_desc());
  };
  if constexpr (std::is_same_v<Desc, dnnl::convolution_forward::primitive_desc>) {
    chunk.first = makeSide(outside.input, pd.src_desc(), true);
    chunk.second = makeSide(outside.weights, pd.weights_desc(), true);
    chunk.result = makeSide(outside.output, pd.dst_desc(), false);
    make({DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()});
  } else if constexpr (std::is_same_v<Desc, dnnl::convolution_backward_data::primitive_desc>) {
    chunk.first = makeSide(outside.output, pd.diff_dst_desc(), true);
    chunk.second = makeSide(outside.weights, pd.weights_desc(), true);
    chunk.result = makeSide(outside.input, pd.diff_src_desc(), false);
    make({DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()},
         {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()});
  } else {
    chunk.first = makeSide(outside.input, pd.src_desc(), true);
    chunk.second = makeSide(outside.output, pd.diff_dst_desc(), true);
    chunk.result = makeSide(outside.weights, pd.diff_weights_desc(), false);
    make({DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
         {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()});
  }
  POPXL_ASSERT(chunk.conv != nullptr, "direction {}", static_cast<int>(direction));
  return chunk;
}

std::optional<Chunk> makeChunk(const ConvSpec& spec, ConvDirection direction, const Outside& outside) {
  const memory::dims strides = tail(spec.strides), low = tail(spec.padsBegin), high = tail(spec.padsEnd);
  memory::dims dilates = tail(spec.dilations);
  for (auto& d : dilates) d -= 1;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto in = anyOf(outside.input), weights = anyOf(outside.weights), out = anyOf(outside.output);
  const auto attributes = onednn::userScratchpad();
  const auto& engine = onednn::cpuEngine();
  const dense::SingleThreaded guard;
  try {
    const dnnl::convolution_forward::primitive_desc forward(
        {direction == ConvDirection::kForward ? dnnl::prop_kind::forward_inference
                                              : dnnl::prop_kind::forward_training,
         algorithm, in, weights, out, strides, dilates, low, high},
        attributes, engine);
    if (direction == ConvDirection::kForward) {
      if (!isFast(forward.impl_info_str())) return std::nullopt;
      return assemble(forward, dnnl::convolution_forward(forward), outside, direction);
    }
    if (direction == ConvDirection::kGradInput) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {algorithm, in, weights, out, strides, dilates, low, high}, attributes, engine, forward);
      if (!isFast(backward.impl_info_str())) return std::nullopt;
      return assemble(backward, dnnl::convolution_backward_data(backward), outside, direction);
    }
    const dnnl::convolution_backward_weights::primitive_desc backward(
        {algorithm, in, weights, out, strides, dilates, low, high}, attributes, engine, forward);
    if (!isFast(backward.impl_info_str())) return std::nullopt;
    return assemble(backward, dnnl::convolution_backward_weights(backward), outside, direction);
  } catch (const dnnl::error&) {  // the library has no implementation for these sizes
    return std::nullopt;
  }
}

Cut chooseCut(const ConvSizes& s, ConvDirection direction) {
  const int64_t channels = direction == ConvDirection::kGradInput ? s.inChannels : s.outChannels;
  Cut cut{s.batch, channels};
  if (direction == ConvDirection::kGradWeight) {
    cut.images = imagesPerSum(s);
  } else if (s.flops() >= kSerialFlops) {
    cut.images = imagesPerChunk(s, std::clamp(s.flops() / 8, 4e6, 24e6));
  }
  if (s.groups > 1) return cut;
  const double piece = s.flopsPerImage() * static_cast<double>(cut.images);
  const double wanted = std::min(16.0, s.flops() / 12e6);
  // Few images: cut channels too, as long as a piece is worth a thread and keeps whole blocks of channels.
  const auto pieces = [&] { return s.batch / cut.images * (channels / cut.channels); };
  while (static_cast<double>(pieces()) * 2 <= wanted && cut.channels % (4 * kChannelBlock) == 0 &&
         piece * static_cast<double>(cut.channels) / static_cast<double>(channels) > 2 * kSerialFlops) {
    cut.channels /= 2;
  }
  return cut;
}

class OnednnConv final : public Kernel {
 public:
  OnednnConv(const ConvSpec& spec, ConvDirection direction, Cut cut, Chunk chunk);

  void run(std::span<std::byte* const> operands) const override;
  int64_t scratchBytes() const override { return scratch_; }
  double flops() const override { return sizes_.flops(); }
  std::string describe() const override { return text_; }

 private:
  struct Lane {
    float *firstDense, *secondDense, *resultDense;  ///< where the operand is not dense float32
    std::byte *first, *second, *result;             ///< the library's layouts
    std::byte* scratchpad;
  };
  /// Scratch that all lanes share.
  struct Shared {
    float* dense;           ///< weights in float32, or partial sums of their gradient
    std::byte* weights;     ///< in the library's layout, one piece per channel cut
    std::byte* scratchpad;  ///< for bringing them there
  };

  bool isWeights() const { return direction_ == ConvDirection::kGradWeight; }
  int64_t imageCuts() const { return sizes_.batch / cut_.images; }
  int64_t channelCuts() const { return channels_ / cut_.channels; }
  Shared sharedOf(Carver& carver) const;
  Lane laneOf(Carver& carver) const;
  void prepareWeights(std::byte* operand, const Shared& shared) const;
  void multiply(int64_t image, int64_t channel, std::span<std::byte* const> operands, const Shared& shared,
                const Lane& lane) const;

  ConvSizes sizes_;
  ConvDirection direction_;
  ConvTensor first_, second_, result_;  ///< as the operands: what is read, and what is written
  Cut cut_;
  int64_t channels_;
  Chunk chunk_;
  bool scaled_;
  std::string text_;
  int64_t lanes_ = 1;
  int64_t scratch_ = 0;
};

OnednnConv::OnednnConv(const ConvSpec& spec, ConvDirection direction, Cut cut, Chunk chunk)
    : sizes_(convSizes(spec)),
      direction_(direction),
      first_(convTensor(direction == ConvDirection::kGradInput ? spec.output : spec.input)),
      second_(convTensor(direction == ConvDirection::kGradWeight ? spec.output : spec.weights)),
      result_(convTensor(direction == ConvDirection::kForward     ? spec.output
                         : direction == ConvDirection::kGradInput ? spec.input
                                                                  : spec.weights)),
      cut_(cut),
      channels_(direction == ConvDirection::kGradInput ? sizes_.inChannels : sizes_.outChannels),
      chunk_(std::move(chunk)),
      scaled_(spec.scaled),
      text_(fmt::format("{} in {} pieces", describeConv(spec, direction), imageCuts() * channelCuts())) {
  lanes_ = dense::lanesFor(imageCuts() * channelCuts());
  Carver carver;
  sharedOf(carver);
  for (int64_t i = 0; i < lanes_; ++i) laneOf(carver);
  scratch_ = carver.used();
}

OnednnConv::Shared OnednnConv::sharedOf(Carver& carver) const {
  if (isWeights()) {
    const bool direct = result_.plain && imageCuts() == 1;
    return {direct ? nullptr : carver.take<float>(imageCuts() * result_.layout.numElements()), nullptr,
            nullptr};
  }
  Shared shared{};
  if (!second_.plain) shared.dense = carver.take<float>(second_.layout.numElements());
  if (chunk_.second.insideBytes() > 0) {
    shared.weights = carver.take<std::byte>(channelCuts() * roundUp(chunk_.second.insideBytes()));
    shared.scratchpad = carver.take<std::byte>(channelCuts() * roundUp(chunk_.second.scratchBytes()));
  }
  return shared;
}

OnednnConv::Lane OnednnConv::laneOf(Carver& carver) const {
  Lane lane{};
  const auto buffer = [&](const ConvTensor& t, int64_t channels) {
    return t.plain ? nullptr : carver.take<float>(t.partElements(cut_.images, channels));
  };
  lane.firstDense = buffer(first_, first_.layout.shape[1]);
  if (isWeights()) {
    lane.secondDense = buffer(second_, cut_.channels);
  } else {
    lane.resultDense = buffer(result_, cut_.channels);
  }
  const auto inside = [&](const Side& s) {
    return s.insideBytes() > 0 ? carver.take<std::byte>(s.insideBytes()) : nullptr;
  };
  lane.first = inside(chunk_.first);
  if (isWeights()) lane.second = inside(chunk_.second);
  lane.result = inside(chunk_.result);
  lane.scratchpad = carver.take<std::byte>(chunk_.scratchBytes());
  return lane;
}

void OnednnConv::prepareWeights(std::byte* operand, const Shared& shared) const {
  const ConvTensor& w = second_;
  if (shared.dense != nullptr) dense::loadTensor(w.layout, operand, shared.dense);
  if (shared.weights == nullptr) return;
  float* from = shared.dense != nullptr ? shared.dense : reinterpret_cast<float*>(operand);
  const Strides strides = {w.partElements(1, w.layout.shape[1]), w.partElements(1, 1)};
  const int64_t step = cut_.channels * strides[direction_ == ConvDirection::kGradInput ? 1 : 0];
  const int64_t bytes = roundUp(chunk_.second.insideBytes()), pad = roundUp(chunk_.second.scratchBytes());
  parallelFor(channelCuts(), [&](int64_t i) {
    enterSide(chunk_.second, from + i * step, shared.weights + i * bytes, shared.scratchpad + i * pad);
  });
}

void OnednnConv::multiply(int64_t image, int64_t channel, std::span<std::byte* const> operands,
                          const Shared& shared, const Lane& lane) const {
  const int64_t n = image * cut_.images, c = channel * cut_.channels;
  void* first = first_.at(operands[0], n, 0);
  if (!first_.plain) {
    dense::loadTensor(first_.part(cut_.images, first_.layout.shape[1]), static_cast<std::byte*>(first),
                      lane.firstDense);
    first = lane.firstDense;
  }
  first = enterSide(chunk_.first, first, lane.first, lane.scratchpad);
  std::byte* target = operands[scaled_ ? 3 : 2];
  void* second = nullptr;
  void* outside = nullptr;
  if (isWeights()) {
    second = second_.at(operands[1], n, c);
    if (!second_.plain) {
      dense::loadTensor(second_.part(cut_.images, cut_.channels), static_cast<std::byte*>(second),
                        lane.secondDense);
      second = lane.secondDense;
    }
    second = enterSide(chunk_.second, second, lane.second, lane.scratchpad);
    float* sums = shared.dense != nullptr ? shared.dense + image * result_.layout.numElements()
                                          : reinterpret_cast<float*>(target);
    outside = sums + c * result_.partElements(1, result_.layout.shape[1]);
  } else {
    const int64_t bytes = roundUp(chunk_.second.insideBytes());
    second = shared.weights != nullptr ? shared.weights + channel * bytes
             : shared.dense != nullptr ? reinterpret_cast<std::byte*>(shared.dense)
                                       : operands[1];
    target = result_.at(target, n, c);
    outside = result_.plain ? static_cast<void*>(target) : lane.resultDense;
  }
  void* inside = chunk_.result.reorder == nullptr ? outside : lane.result;
  if (chunk_.conv->scratchBytes() > 0) {
    chunk_.conv->run({first, second, inside, lane.scratchpad});
  } else {
    chunk_.conv->run({first, second, inside});
  }
  if (chunk_.result.reorder != nullptr) runWith(*chunk_.result.reorder, inside, outside, lane.scratchpad);
  if (!isWeights() && !result_.plain) {
    dense::storeTensor(lane.resultDense, readScale(scaled_ ? operands[2] : nullptr),
                       result_.part(cut_.images, cut_.channels), target);
  }
}

void OnednnConv::run(std::span<std::byte* const> operands) const {
  const size_t count = scaled_ ? 4 : 3;
  POPXL_ASSERT(operands.size() >= count + (scratch_ > 0 ? 1 : 0), "{}: {} operands", text_, operands.size());
  Carver carver(scratch_ > 0 ? operands[count] : nullptr);
  const Shared shared = sharedOf(carver);
  std::byte* lanes = scratch_ > 0 ? operands[count] + carver.used() : nullptr;
  Carver one;
  laneOf(one);
  if (!isWeights()) prepareWeights(operands[1], shared);
  dense::forLanes(imageCuts() * channelCuts(), lanes_, [&](int64_t chunk, int64_t index) {
    Carver own(lanes + index * one.used());
    multiply(chunk / channelCuts(), chunk % channelCuts(), operands, shared, laneOf(own));
  });
  if (isWeights() && shared.dense != nullptr) {
    sumWeightParts(shared.dense, imageCuts(), result_.layout, operands[count - 1]);
  }
}

/// A chunk's part of a tensor outside the library: inside the whole tensor when that is dense float32 (or for
/// partial sums), else a dense buffer of its own.
Layout chunkLayout(const ConvTensor& t, int64_t first, int64_t second) {
  Layout part(DType::kFloat32, t.part(first, second).shape);
  if (t.plain) part.strides = contiguousStrides(t.layout.shape);
  return part;
}

/// The library computes the output's size from the padding; it must be ours.
bool hasLibrarySizes(const ConvSpec& spec) {
  for (size_t d = 0; d < spec.strides.size(); ++d) {
    if (spec.padsBegin[d] < 0 || spec.padsEnd[d] < 0) return false;
    const int64_t window = (spec.weights.shape[d + 2] - 1) * spec.dilations[d] + 1;
    const int64_t room = spec.input.shape[d + 2] + spec.padsBegin[d] + spec.padsEnd[d] - window;
    if (room < 0 || room / spec.strides[d] + 1 != spec.output.shape[d + 2]) return false;
  }
  return true;
}

}  // namespace

bool onednnHasAvx512() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

KernelPtr makeOnednnConv(const ConvSpec& spec, ConvDirection direction) {
  if (!hasLibrarySizes(spec)) return nullptr;
  const ConvSizes sizes = convSizes(spec);
  const Cut cut = chooseCut(sizes, direction);
  const bool byInput = direction == ConvDirection::kGradInput;
  const Layout& w = spec.weights;
  const int64_t in = byInput ? cut.channels : sizes.inChannels,
                out = byInput ? sizes.outChannels : cut.channels;
  Layout weights(DType::kFloat32, {out, in / sizes.groups});
  weights.shape.insert(weights.shape.end(), w.shape.begin() + 2, w.shape.end());
  weights.strides = contiguousStrides(w.shape);
  const Layout input = chunkLayout(convTensor(spec.input), cut.images, in);
  const Layout output = chunkLayout(convTensor(spec.output), cut.images, out);
  const Outside outside{descOf(input.shape, input.strides), weightsDesc(weights, sizes.groups),
                        descOf(output.shape, output.strides)};
  std::optional<Chunk> chunk = makeChunk(spec, direction, outside);
  if (!chunk.has_value()) return nullptr;
  return std::make_unique<OnednnConv>(spec, direction, cut, std::move(*chunk));
}

}  // namespace popxl::kernels
