#include "kernels/conv_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/dense_pack.h"
#include "kernels/parallel.h"

namespace popxl::kernels {
namespace {

constexpr int64_t kMaxSums = 16;
constexpr double kSerialFlops = 3e6;   // work below this is one piece
constexpr double kPieceFlops = 12e6;   // wanted of a piece
constexpr double kMaxPieces = 8;       // wanted of a convolution
constexpr int64_t kChannelBlock = 16;  // channels are cut in multiples of this
constexpr double kStridedCopy = 2;     // a result cut by channels is written, read and written again

std::array<int64_t, 3> spatial(std::span<const int64_t> values, int64_t missing) {
  std::array<int64_t, 3> result{missing, missing, missing};
  std::copy(values.begin(), values.end(), result.begin() + static_cast<std::ptrdiff_t>(3 - values.size()));
  return result;
}

std::string joined(const Shape& shape) {
  std::string text;
  for (const int64_t d : shape) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

}  // namespace

Layout ConvTensor::part(int64_t first, int64_t second) const {
  Layout result = layout;
  result.shape[0] = first;
  result.shape[1] = second;
  return result;
}

bool ConvSizes::isPointwise() const {
  return kernelVolume() == 1 && stride == std::array<int64_t, 3>{1, 1, 1} &&
         pad == std::array<int64_t, 3>{0, 0, 0} && in == out;
}

ConvSizes convSizes(const ConvSpec& spec) {
  const size_t dims = spec.strides.size();
  POPXL_ASSERT(dims >= 1 && dims <= 3, "{} spatial dimensions", dims);
  for (const Layout* l : {&spec.input, &spec.weights, &spec.output}) {
    POPXL_ASSERT(l->shape.size() == dims + 2, "{} for {} spatial dimensions", toString(l->shape), dims);
  }
  POPXL_ASSERT(spec.padsBegin.size() == dims && spec.padsEnd.size() == dims && spec.dilations.size() == dims,
               "{} spatial dimensions", dims);
  const auto tail = [](const Layout& l) { return std::span(l.shape).subspan(2); };
  ConvSizes s{};
  s.batch = spec.input.shape[0];
  s.inChannels = spec.input.shape[1];
  s.outChannels = spec.output.shape[1];
  s.groups = spec.groups;
  s.in = spatial(tail(spec.input), 1);
  s.out = spatial(tail(spec.output), 1);
  s.kernel = spatial(tail(spec.weights), 1);
  s.stride = spatial(spec.strides, 1);
  s.pad = spatial(spec.padsBegin, 0);
  s.dilation = spatial(spec.dilations, 1);
  POPXL_ASSERT(s.groups >= 1 && spec.output.shape[0] == s.batch && spec.weights.shape[0] == s.outChannels &&
                   spec.weights.shape[1] * s.groups == s.inChannels && s.outChannels % s.groups == 0,
               "input {} weights {} output {} groups {}", toString(spec.input.shape),
               toString(spec.weights.shape), toString(spec.output.shape), s.groups);
  return s;
}

ConvTensor convTensor(const Layout& layout) {
  const bool direct = dense::isComputeType(layout.dtype);
  return {layout, direct && layout.isContiguous(), direct && layout.isChannelsLast()};
}

int64_t imagesPerSum(const ConvSizes& sizes) {
  const double wanted = std::clamp(sizes.flops() / 8e6, 1.0, static_cast<double>(kMaxSums));
  auto images = static_cast<int64_t>(std::ceil(static_cast<double>(sizes.batch) / wanted));
  images = std::max<int64_t>(images, 1);
  while (sizes.batch % images != 0) ++images;
  return images;
}

namespace {

/// Bytes that the pieces of a cut move together.
double movedBytes(const ConvSizes& s, ConvDirection direction, const ConvCut& cut, double pieces,
                  int64_t channels) {
  const int64_t imageCuts = s.batch / cut.images, cutsOfChannels = channels / cut.channels;
  const auto images = static_cast<double>(imageCuts);
  const double in = static_cast<double>(s.batch * s.inChannels * s.inVolume());
  const double out = static_cast<double>(s.batch * s.outChannels * s.outVolume());
  const double weights = static_cast<double>(s.outChannels * s.depth());
  const auto channelCuts = static_cast<double>(cutsOfChannels);
  const double copies = channelCuts > 1 ? 1 + kStridedCopy : 1;
  if (direction == ConvDirection::kGradWeight) {
    return in * channelCuts + out * copies + weights * (images > 1 ? 2 * images : 1);
  }
  const bool isForward = direction == ConvDirection::kForward;
  return (isForward ? in : out) * channelCuts + (isForward ? out : in) * copies +
         weights * pieces / channelCuts;
}

/// Whether every piece of `rows` output rows sees some row of the input.
bool canCutRows(const ConvSpec& spec, int64_t rows) {
  const int64_t first = (spec.output.shape[2] - 1) / rows * rows;
  const int64_t window = (spec.weights.shape[2] - 1) * spec.dilations[0] + 1;
  const int64_t end =
      (std::min(rows, spec.output.shape[2]) - 1) * spec.strides[0] - spec.padsBegin[0] + window;
  return spec.padsBegin[0] >= 0 && first * spec.strides[0] - spec.padsBegin[0] < spec.input.shape[2] &&
         end > 0;
}

}  // namespace

ConvCut chooseCut(const ConvSpec& spec, ConvDirection direction) {
  const ConvSizes s = convSizes(spec);
  const bool isForward = direction == ConvDirection::kForward;
  const int64_t channels = direction == ConvDirection::kGradInput ? s.inChannels : s.outChannels;
  const int64_t allRows = isForward ? spec.output.shape[2] : spec.input.shape[2];
  const ConvCut whole{s.batch, allRows, channels};
  if (s.flops() < kSerialFlops) return whole;
  const double wanted = std::clamp(s.flops() / kPieceFlops, 1.0, kMaxPieces);
  ConvCut best = whole;
  double bestBytes = 0, bestPieces = 0;
  const auto offer = [&](const ConvCut& cut) {
    const int64_t rowCuts = (allRows + cut.rows - 1) / cut.rows;
    const int64_t cuts = s.batch / cut.images * rowCuts * (channels / cut.channels);
    const auto pieces = static_cast<double>(cuts);
    const double bytes = movedBytes(s, direction, cut, pieces, channels);
    const bool enough = pieces >= wanted, hadEnough = bestPieces >= wanted;
    const bool better =
        enough && hadEnough ? bytes < bestBytes : enough || (!hadEnough && pieces > bestPieces);
    if (bestPieces > 0 && !better) return;
    best = cut;
    bestBytes = bytes;
    bestPieces = pieces;
  };
  for (int64_t images = s.batch; images >= 1; --images) {
    if (s.batch % images != 0 || (direction == ConvDirection::kGradWeight && s.batch / images > kMaxSums))
      continue;
    for (int64_t part = channels;; part /= 2) {
      offer({images, allRows, part});
      if (s.groups > 1 || part % (2 * kChannelBlock) != 0) break;
    }
    if (images > 1 || !isForward) continue;
    for (int64_t rows = (allRows + 1) / 2; rows >= 4; rows = (rows + 1) / 2) {
      if (canCutRows(spec, rows)) offer({images, rows, channels});
    }
  }
  return best;
}

bool prefersLibrary(const ConvSpec& spec, ConvDirection direction, bool avx512) {
  const ConvSizes sizes = convSizes(spec);
  const ConvTensor in = convTensor(spec.input), out = convTensor(spec.output);
  if (in.channelsLast && out.channelsLast && !(in.plain && out.plain)) return true;
  if (sizes.isPointwise() && sizes.groups == 1 && sizes.outVolume() >= 128) return false;
  const int64_t channels = sizes.groupIn();
  switch (direction) {
    case ConvDirection::kForward:
      return !(avx512 && channels == 1 && sizes.groups == 1 && sizes.kernelVolume() <= 9);
    case ConvDirection::kGradInput:
      return channels >= 8 || sizes.groups > 1;
    default:
      if (avx512 || sizes.groups > 1) return true;
      return channels >= 4 && !(channels >= 32 && sizes.kernelVolume() == 9);
  }
}

template <typename T>
void sumWeightParts(const T* partial, int64_t parts, const Layout& layout, std::byte* out) {
  const int64_t all = layout.numElements();
  if (all == 0) return;
  const int64_t rows = layout.shape[0], row = all / rows;
  const int64_t each = std::clamp<int64_t>(kSerialElements / (row * parts), 1, rows);
  constexpr int64_t kBlock = 256;
  parallelFor((rows + each - 1) / each, [&](int64_t chunk) {
    const int64_t first = chunk * each, end = std::min(rows, first + each);
    T* sum = const_cast<T*>(partial);  // the first part takes the sum: it is scratch
    for (int64_t at = first * row; at < end * row; at += kBlock) {
      const int64_t width = std::min(kBlock, end * row - at);
      for (int64_t p = 1; p < parts; ++p) {
        const T* next = partial + p * all + at;
        for (int64_t i = 0; i < width; ++i) sum[at + i] += next[i];
      }
    }
    Layout part = layout;
    part.shape[0] = end - first;
    dense::storeTensor(sum + first * row, T{1}, part, out + first * layout.strides[0] * sizeOf(layout.dtype));
  });
}
template void sumWeightParts<float>(const float*, int64_t, const Layout&, std::byte*);
template void sumWeightParts<double>(const double*, int64_t, const Layout&, std::byte*);
template void sumWeightParts<uint32_t>(const uint32_t*, int64_t, const Layout&, std::byte*);
template void sumWeightParts<uint64_t>(const uint64_t*, int64_t, const Layout&, std::byte*);

float readScale(const std::byte* scale) {
  if (scale == nullptr) return 1;
  int32_t log2 = 0;
  std::memcpy(&log2, scale, sizeof(log2));
  return std::ldexp(1.0f, log2);
}

std::string describeConv(const ConvSpec& spec, ConvDirection direction) {
  constexpr std::array kNames{"conv", "conv input gradient", "conv weights gradient"};
  return fmt::format("{} {} {} * {}", kNames[static_cast<size_t>(direction)], nameOf(spec.weights.dtype),
                     joined(spec.input.shape), joined(spec.weights.shape));
}

}  // namespace popxl::kernels
