#include "kernels/onednn_conv.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "kernels/dense_lanes.h"
#include "kernels/dense_pack.h"
#include "kernels/onednn_conv_piece.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

using dense::Carver;
using onednn::ConvPiece;
using onednn::Side;

/// Weights that the library can read where they are.
bool isReadable(const Layout& weights) {
  return weights.dtype == DType::kFloat32 &&
         std::all_of(weights.strides.begin(), weights.strides.end(), [](int64_t s) { return s > 0; });
}

/// A part of a tensor outside the library: inside the whole tensor when that is used where it is, else a
/// dense buffer of its own.
Layout partLayout(const Layout& whole, bool inPlace, Shape shape) {
  if (!inPlace) return {DType::kFloat32, std::move(shape)};
  return {DType::kFloat32, std::move(shape), whole.strides};
}

/// Weights brought to the library's layout, one piece after the other for each cut of the result's channels.
class WeightPacker final : public Kernel {
 public:
  /// `step`: elements of the weights between two cuts.
  WeightPacker(const Layout& weights, Side side, int64_t cuts, int64_t step, std::string text)
      : weights_(weights), side_(std::move(side)), cuts_(cuts), step_(step), text_(std::move(text)) {
    if (!isReadable(weights_)) denseBytes_ = lines(weights_.numElements() * 4);
  }

  int64_t packedBytes() const { return cuts_ * pieceBytes(); }
  int64_t pieceBytes() const { return lines(static_cast<int64_t>(side_.inside.get_size())); }
  int64_t scratchBytes() const override { return denseBytes_ + cuts_ * lines(side_.scratchBytes()); }
  std::string describe() const override { return text_; }

  void run(std::span<std::byte* const> operands) const override {
    std::byte* from = operands[0];
    std::byte* scratch = scratchBytes() > 0 ? operands[2] : nullptr;
    if (denseBytes_ > 0) {
      dense::loadTensor(weights_, from, reinterpret_cast<float*>(scratch));
      from = scratch;
      scratch += denseBytes_;
    }
    parallelFor(cuts_, [&](int64_t i) {
      std::byte *piece = from + i * step_ * 4, *to = operands[1] + i * pieceBytes();
      if (side_.reorder == nullptr) {  // it only had to become float32
        std::memcpy(to, piece, side_.inside.get_size());
      } else {
        onednn::runReorder(*side_.reorder, piece, to, scratch + i * lines(side_.scratchBytes()));
      }
    });
  }

 private:
  Layout weights_;
  Side side_;
  int64_t cuts_, step_;
  std::string text_;
  int64_t denseBytes_ = 0;  ///< of a float32 copy of weights that the library can't read
};

/// Rows of the result of a forward pass, and the rows of the input that they see.
struct RowPiece {
  int64_t first, count, inFirst, inCount, padBegin, padEnd;
};

RowPiece rowPiece(const ConvSpec& spec, int64_t first, int64_t count) {
  const int64_t window = (spec.weights.shape[2] - 1) * spec.dilations[0] + 1, size = spec.input.shape[2];
  const int64_t begin = first * spec.strides[0] - spec.padsBegin[0];
  const int64_t end = begin + (count - 1) * spec.strides[0] + window;
  const int64_t inFirst = std::max<int64_t>(begin, 0);
  return {first,           count,
          inFirst,         std::min(end, size) - inFirst,
          inFirst - begin, std::max<int64_t>(end - size, 0)};
}

/// The convolution that one piece computes.
ConvSpec pieceSpec(const ConvSpec& spec, ConvDirection direction, const ConvCut& cut, const RowPiece& rows) {
  const bool isForward = direction == ConvDirection::kForward,
             isInput = direction == ConvDirection::kGradInput;
  ConvSpec piece = spec;
  Shape in = spec.input.shape, out = spec.output.shape, weights = spec.weights.shape;
  in[0] = out[0] = cut.images;
  (isInput ? in : out)[1] = cut.channels;
  weights[0] = isInput ? weights[0] : cut.channels;
  weights[1] = isInput ? cut.channels / spec.groups : weights[1];
  if (isForward) {
    in[2] = rows.inCount;
    out[2] = rows.count;
    piece.padsBegin[0] = rows.padBegin;
    piece.padsEnd[0] = rows.padEnd;
  }
  piece.input = partLayout(spec.input, convTensor(spec.input).isDense(), in);
  piece.output = partLayout(spec.output, convTensor(spec.output).isDense(), out);
  piece.weights = partLayout(spec.weights, isReadable(spec.weights), weights);
  // Weights that are loaded, and sums of their gradients, are dense as a whole.
  if (direction == ConvDirection::kGradWeight || !isReadable(spec.weights)) {
    piece.weights.strides = contiguousStrides(spec.weights.shape);
  }
  return piece;
}

class OnednnConv final : public Kernel {
 public:
  /// False from isValid where the library has no fast implementation of some piece.
  OnednnConv(const ConvSpec& spec, ConvDirection direction, const ConvCut& cut);
  bool isValid() const { return isValid_; }

  void run(std::span<std::byte* const> operands) const override;
  int64_t scratchBytes() const override;
  Preparation takePreparation() override;
  double flops() const override { return sizes_.flops(); }
  std::string describe() const override { return text_; }

 private:
  struct Lane {
    float *firstDense, *secondDense, *resultDense;  ///< where the operand is not dense float32
    std::byte *first, *second, *result;             ///< channels last
    std::byte* scratchpad;
  };
  /// Scratch that all lanes share.
  struct Shared {
    std::byte *packed, *packing;  ///< weights in the library's layout; what bringing them there needs
    float* sums;                  ///< of the gradient of the weights, one for each image cut
  };

  bool isWeights() const { return direction_ == ConvDirection::kGradWeight; }
  int64_t imageCuts() const { return sizes_.batch / cut_.images; }
  int64_t channelCuts() const { return channels_ / cut_.channels; }
  int64_t pieces() const { return imageCuts() * static_cast<int64_t>(rows_.size()) * channelCuts(); }
  void makeVariants(const ConvSpec& spec);
  void makePacker(const ConvSpec& spec);
  Shared sharedOf(Carver& carver) const;
  Lane laneOf(Carver& carver) const;
  void* enter(const ConvTensor& tensor, const Side& side, const Layout& part, std::byte* data, float* dense,
              std::byte* inside, std::byte* scratchpad) const;
  void multiply(int64_t piece, std::span<std::byte* const> operands, const Shared& shared,
                const Lane& lane) const;

  ConvSizes sizes_;
  ConvDirection direction_;
  ConvTensor first_, second_, result_;  ///< as the operands: what is read, and what is written
  ConvCut cut_;
  int64_t channels_;
  std::vector<RowPiece> rows_;
  std::vector<size_t> variantOf_;  ///< of rows_
  std::vector<ConvPiece> variants_;
  std::vector<ConvSpec> specs_;  ///< of variants_
  std::unique_ptr<WeightPacker> packer_;
  int64_t packedStride_ = 0;  ///< bytes between the weights of two channel cuts, packed or not
  bool scaled_;
  bool isValid_ = true;
  int64_t lanes_ = 1;
  std::string text_;
};

const Layout& firstOf(const ConvSpec& s, ConvDirection d) {
  return d == ConvDirection::kGradInput ? s.output : s.input;
}
const Layout& secondOf(const ConvSpec& s, ConvDirection d) {
  return d == ConvDirection::kGradWeight ? s.output : s.weights;
}
const Layout& resultOf(const ConvSpec& s, ConvDirection d) {
  return d == ConvDirection::kForward ? s.output : d == ConvDirection::kGradInput ? s.input : s.weights;
}

OnednnConv::OnednnConv(const ConvSpec& spec, ConvDirection direction, const ConvCut& cut)
    : sizes_(convSizes(spec)),
      direction_(direction),
      first_(convTensor(firstOf(spec, direction))),
      second_(convTensor(secondOf(spec, direction))),
      result_(convTensor(resultOf(spec, direction))),
      cut_(cut),
      channels_(direction == ConvDirection::kGradInput ? sizes_.inChannels : sizes_.outChannels),
      scaled_(spec.scaled) {
  makeVariants(spec);
  if (!isValid_) return;
  if (!isWeights()) makePacker(spec);
  lanes_ = dense::lanesFor(pieces());
  text_ = fmt::format("{} in {} pieces", describeConv(spec, direction), pieces());
}

void OnednnConv::makeVariants(const ConvSpec& spec) {
  const bool isForward = direction_ == ConvDirection::kForward;
  const int64_t allRows = isForward ? spec.output.shape[2] : cut_.rows;
  std::map<std::array<int64_t, 4>, size_t> known;
  for (int64_t first = 0; first < allRows; first += cut_.rows) {
    const RowPiece piece = rowPiece(spec, first, std::min(cut_.rows, allRows - first));
    const auto [it, fresh] =
        known.emplace(std::array{piece.count, piece.inCount, piece.padBegin, piece.padEnd}, variants_.size());
    if (fresh) {
      specs_.push_back(pieceSpec(spec, direction_, cut_, piece));
      std::optional<ConvPiece> made =
          onednn::makeConvPiece(specs_.back(), direction_,
                                variants_.empty() || isWeights() ? nullptr : &variants_[0].second.inside);
      isValid_ = made.has_value();
      if (!isValid_) return;
      variants_.push_back(std::move(*made));
    }
    rows_.push_back(piece);
    variantOf_.push_back(it->second);
  }
}

void OnednnConv::makePacker(const ConvSpec& spec) {
  Side& side = variants_[0].second;
  const Layout& part = specs_[0].weights;
  const int64_t step = cut_.channels * part.strides[direction_ == ConvDirection::kGradInput ? 1 : 0];
  packedStride_ = step * 4;
  if (side.reorder == nullptr && isReadable(spec.weights)) return;
  packer_ = std::make_unique<WeightPacker>(spec.weights, std::move(side), channelCuts(), step,
                                           "weights of " + describeConv(spec, direction_));
  packedStride_ = packer_->pieceBytes();
}

Preparation OnednnConv::takePreparation() {
  if (packer_ == nullptr) return {};
  const int64_t bytes = packer_->packedBytes();
  return {1, bytes, std::move(packer_)};
}

int64_t OnednnConv::scratchBytes() const {
  Carver carver;
  sharedOf(carver);
  for (int64_t i = 0; i < lanes_; ++i) laneOf(carver);
  return carver.used();
}

OnednnConv::Shared OnednnConv::sharedOf(Carver& carver) const {
  Shared shared{};
  if (packer_ != nullptr) {
    shared.packed = carver.take<std::byte>(packer_->packedBytes());
    if (packer_->scratchBytes() > 0) shared.packing = carver.take<std::byte>(packer_->scratchBytes());
  }
  if (isWeights() && !(result_.plain && imageCuts() == 1)) {
    shared.sums = carver.take<float>(imageCuts() * result_.layout.numElements());
  }
  return shared;
}

OnednnConv::Lane OnednnConv::laneOf(Carver& carver) const {
  int64_t first = 0, second = 0, result = 0, scratch = 0, firstDense = 0, secondDense = 0, resultDense = 0;
  for (size_t i = 0; i < variants_.size(); ++i) {
    const ConvPiece& v = variants_[i];
    first = std::max(first, v.first.insideBytes());
    result = std::max(result, v.result.insideBytes());
    scratch = std::max({scratch, v.conv->scratchBytes(), v.first.scratchBytes(), v.result.scratchBytes()});
    firstDense = std::max(firstDense, firstOf(specs_[i], direction_).numElements());
    resultDense = std::max(resultDense, resultOf(specs_[i], direction_).numElements());
    if (!isWeights()) continue;
    second = std::max(second, v.second.insideBytes());
    scratch = std::max(scratch, v.second.scratchBytes());
    secondDense = std::max(secondDense, secondOf(specs_[i], direction_).numElements());
  }
  const auto bytes = [&](int64_t n) { return n > 0 ? carver.take<std::byte>(n) : nullptr; };
  const auto floats = [&](bool wanted, int64_t n) { return wanted ? carver.take<float>(n) : nullptr; };
  Lane lane{};
  lane.firstDense = floats(!first_.isDense(), firstDense);
  lane.secondDense = floats(isWeights() && !second_.isDense(), secondDense);
  lane.resultDense = floats(!isWeights() && !result_.isDense(), resultDense);
  lane.first = bytes(first);
  lane.second = bytes(second);
  lane.result = bytes(result);
  lane.scratchpad = bytes(scratch);
  return lane;
}

/// Brings a part of a tensor to where the primitive reads it; returns where that is.
void* OnednnConv::enter(const ConvTensor& tensor, const Side& side, const Layout& part, std::byte* data,
                        float* dense, std::byte* inside, std::byte* scratchpad) const {
  void* at = data;
  if (!tensor.isDense()) {
    Layout from = tensor.layout;
    from.shape = part.shape;
    dense::loadTensor(from, data, dense);
    at = dense;
  }
  if (side.reorder == nullptr) return at;
  onednn::runReorder(*side.reorder, at, inside, scratchpad);
  return inside;
}

void OnednnConv::multiply(int64_t piece, std::span<std::byte* const> operands, const Shared& shared,
                          const Lane& lane) const {
  const int64_t channel = piece % channelCuts(), rest = piece / channelCuts();
  const auto rowCuts = static_cast<int64_t>(rows_.size());
  const auto row = static_cast<size_t>(rest % rowCuts);
  const int64_t image = rest / rowCuts, n = image * cut_.images, c = channel * cut_.channels;
  const ConvPiece& variant = variants_[variantOf_[row]];
  const ConvSpec& spec = specs_[variantOf_[row]];
  void* first =
      enter(first_, variant.first, firstOf(spec, direction_),
            first_.at(operands[0], n, 0, rows_[row].inFirst), lane.firstDense, lane.first, lane.scratchpad);
  std::byte* target = operands[scaled_ ? 3 : 2];
  void* second = nullptr;
  void* outside = nullptr;
  if (isWeights()) {
    second = enter(second_, variant.second, spec.output, second_.at(operands[1], n, c, 0), lane.secondDense,
                   lane.second, lane.scratchpad);
    float* sums = shared.sums != nullptr ? shared.sums + image * result_.layout.numElements()
                                         : reinterpret_cast<float*>(target);
    outside = sums + c * result_.partElements(1, result_.layout.shape[1]);
  } else {
    second = (shared.packed != nullptr ? shared.packed : operands[1]) + channel * packedStride_;
    target = result_.at(target, n, c, rows_[row].first);
    outside = result_.isDense() ? static_cast<void*>(target) : lane.resultDense;
  }
  void* inside = variant.result.reorder == nullptr ? outside : lane.result;
  if (variant.conv->scratchBytes() > 0) {
    variant.conv->run({first, second, inside, lane.scratchpad});
  } else {
    variant.conv->run({first, second, inside});
  }
  if (variant.result.reorder != nullptr) {
    onednn::runReorder(*variant.result.reorder, inside, outside, lane.scratchpad);
  }
  if (isWeights() || result_.isDense()) return;
  Layout to = result_.layout;
  to.shape = resultOf(spec, direction_).shape;
  dense::storeTensor(lane.resultDense, readScale(scaled_ ? operands[2] : nullptr), to, target);
}

void OnednnConv::run(std::span<std::byte* const> operands) const {
  const size_t count = scaled_ ? 4 : 3;
  std::byte* scratch = operands.size() > count ? operands[count] : nullptr;
  Carver carver(scratch);
  const Shared shared = sharedOf(carver);
  std::byte* lanes = scratch + carver.used();
  Carver one;
  laneOf(one);
  POPXL_ASSERT(scratch != nullptr || carver.used() + one.used() == 0, "{}: {} operands", text_,
               operands.size());
  if (packer_ != nullptr) {
    std::byte* const packing[] = {operands[1], shared.packed, shared.packing};
    packer_->run(packing);
  }
  dense::forLanes(pieces(), lanes_, [&](int64_t piece, int64_t index) {
    Carver own(lanes + index * one.used());
    multiply(piece, operands, shared, laneOf(own));
  });
  if (shared.sums != nullptr) {
    sumWeightParts(shared.sums, imageCuts(), result_.layout, operands[count - 1]);
  }
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
  auto kernel = std::make_unique<OnednnConv>(spec, direction, chooseCut(spec, direction));
  if (!kernel->isValid()) return nullptr;
  return kernel;
}

}  // namespace popxl::kernels
