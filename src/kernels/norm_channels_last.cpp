#include "kernels/norm_channels_last.h"

#include <cmath>

#include "kernels/channels_last_simd.h"
#include "kernels/dense_lanes.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

using dense::Carver;

/// Sizes of both directions. Each sample's positions are cut into chunks; sums over a chunk are kept for each
/// channel and joined in order.
class LastBase : public Kernel {
 public:
  LastBase(const GroupNormSpec& spec, const char* what)
      : spec_(spec),
        samples_(spec.x.shape[0]),
        channels_(spec.x.shape[1]),
        positions_(spec.x.numElements() / (samples_ * channels_)),
        perChunk_(std::clamp<int64_t>(kSerialElements / channels_, 1, positions_)),
        chunks_((positions_ + perChunk_ - 1) / perChunk_),
        name_(fmt::format("{} float32 {} groups {}, channels last", what, toString(spec.x.shape),
                          spec.groups)) {}
  std::string describe() const override { return name_; }
  double flops() const override { return 8.0 * static_cast<double>(spec_.x.numElements()); }

 protected:
  int64_t groupChannels() const { return channels_ / spec_.groups; }
  double groupElements() const { return static_cast<double>(groupChannels() * positions_); }
  int64_t sizeOfChunk(int64_t chunk) const { return std::min(perChunk_, positions_ - chunk * perChunk_); }

  /// Calls fn(sample, chunk, offset of its first element, number of positions) for all chunks of all samples.
  template <typename Fn>
  void forChunks(const Fn& fn) const {
    parallelFor(samples_ * chunks_, [&](int64_t i) {
      const int64_t n = i / chunks_, chunk = i % chunks_;
      fn(n, chunk, (n * positions_ + chunk * perChunk_) * channels_, sizeOfChunk(chunk));
    });
  }
  /// Two numbers for each channel of a chunk.
  float* partial(float* partials, int64_t sample, int64_t chunk) const {
    return partials + (sample * chunks_ + chunk) * 2 * channels_;
  }
  int64_t partialCount() const { return samples_ * chunks_ * 2 * channels_; }

  const float* parameter(const std::byte* operand, float* scratch) const {
    if (spec_.weight.dtype == DType::kFloat32) return reinterpret_cast<const float*>(operand);
    convertToCompute(spec_.weight.dtype, operand, channels_, scratch);
    return scratch;
  }
  float readMean(const std::byte* operand, int64_t i) const {
    return static_cast<float>(readNumber(spec_.mean.dtype, operand, i));
  }

  GroupNormSpec spec_;
  int64_t samples_, channels_, positions_, perChunk_, chunks_;
  std::string name_;
};

float* floats(std::byte* p) { return reinterpret_cast<float*>(p); }

class GroupNormLast final : public LastBase {
 public:
  explicit GroupNormLast(const GroupNormSpec& spec) : LastBase(spec, "group norm") {}

  int64_t scratchBytes() const override {
    Carver carver;
    scratchOf(carver);
    return carver.used();
  }

  void run(std::span<std::byte* const> operands) const override {
    Carver carver(operands[6]);
    const Scratch s = scratchOf(carver);
    const float* weight = parameter(operands[1], s.weight);
    const float* bias = parameter(operands[2], s.bias);
    forChunks([&](int64_t n, int64_t chunk, int64_t at, int64_t count) {
      float* sums = partial(s.partials, n, chunk);
      simd::channelMoments(floats(operands[0]) + at, count, channels_, sums, sums + channels_);
    });
    for (int64_t n = 0; n < samples_; ++n) {
      for (int64_t g = 0; g < spec_.groups; ++g) joinGroup(n, g, operands, weight, s);
    }
    forChunks([&](int64_t n, int64_t, int64_t at, int64_t count) {
      simd::channelAffine(floats(operands[0]) + at, count, channels_, s.mean + n * channels_,
                          s.factor + n * channels_, bias, floats(operands[3]) + at);
    });
  }

 private:
  struct Scratch {
    float *weight, *bias, *partials, *mean, *factor;
  };
  Scratch scratchOf(Carver& carver) const {
    const int64_t perSample = samples_ * channels_;
    return {carver.take<float>(channels_), carver.take<float>(channels_), carver.take<float>(partialCount()),
            carver.take<float>(perSample), carver.take<float>(perSample)};
  }

  /// Mean and variance of a group from the moments of its chunks and channels about their own means.
  void joinGroup(int64_t n, int64_t group, std::span<std::byte* const> operands, const float* weight,
                 const Scratch& s) const {
    const int64_t first = group * groupChannels(), end = first + groupChannels();
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < chunks_; ++k) {
      const float* sums = partial(s.partials, n, k);
      for (int64_t c = first; c < end; ++c) sum += static_cast<double>(sums[c]);
    }
    const double mean = sum / groupElements();
    for (int64_t k = 0; k < chunks_; ++k) {
      const float* sums = partial(s.partials, n, k);
      const auto count = static_cast<double>(sizeOfChunk(k));
      for (int64_t c = first; c < end; ++c) {
        const double distance = static_cast<double>(sums[c]) / count - mean;
        squares += static_cast<double>(sums[channels_ + c]) + count * distance * distance;
      }
    }
    const double inverse = 1 / std::sqrt(squares / groupElements() + spec_.eps);
    writeNumber(spec_.mean.dtype, operands[4], n * spec_.groups + group, mean);
    writeNumber(spec_.mean.dtype, operands[5], n * spec_.groups + group, inverse);
    for (int64_t c = first; c < end; ++c) {
      s.mean[n * channels_ + c] = static_cast<float>(mean);
      s.factor[n * channels_ + c] = static_cast<float>(inverse) * weight[c];
    }
  }
};

class GroupNormGradLast final : public LastBase {
 public:
  explicit GroupNormGradLast(const GroupNormSpec& spec) : LastBase(spec, "group norm gradient") {}

  int64_t scratchBytes() const override {
    Carver carver;
    scratchOf(carver);
    return carver.used();
  }

  void run(std::span<std::byte* const> operands) const override {
    Carver carver(operands[8]);
    const Scratch s = scratchOf(carver);
    POPXL_ASSERT(s.mean != nullptr, "no scratch memory");
    const float* weight = parameter(operands[1], s.weight);
    for (int64_t i = 0; i < samples_ * channels_; ++i) {
      s.mean[i] = readMean(operands[2], i / channels_ * spec_.groups + i % channels_ / groupChannels());
    }
    const float *x = floats(operands[0]), *dy = floats(operands[4]);
    forChunks([&](int64_t n, int64_t chunk, int64_t at, int64_t count) {
      float* sums = partial(s.partials, n, chunk);
      simd::channelGradSums(x + at, dy + at, count, channels_, s.mean + n * channels_, sums,
                            sums + channels_);
    });
    std::fill_n(s.weightGrad, channels_, 0.0f);
    std::fill_n(s.biasGrad, channels_, 0.0f);
    for (int64_t n = 0; n < samples_; ++n) {
      for (int64_t g = 0; g < spec_.groups; ++g) joinGroup(n, g, operands, weight, s);
    }
    convertFromCompute(spec_.weight.dtype, s.weightGrad, channels_, operands[6]);
    convertFromCompute(spec_.weight.dtype, s.biasGrad, channels_, operands[7]);
    forChunks([&](int64_t n, int64_t, int64_t at, int64_t count) {
      const int64_t row = n * channels_;
      simd::channelGradInput(x + at, dy + at, count, channels_, s.mean + row, s.factor + row, s.slope + row,
                             s.shift + row, floats(operands[5]) + at);
    });
  }

 private:
  struct Scratch {
    float *weight, *partials, *mean, *factor, *slope, *shift, *weightGrad, *biasGrad;
  };
  Scratch scratchOf(Carver& carver) const {
    const auto take = [&](int64_t n) { return carver.take<float>(n); };
    const int64_t perSample = samples_ * channels_;
    return {take(channels_), take(partialCount()), take(perSample), take(perSample),
            take(perSample), take(perSample),      take(channels_), take(channels_)};
  }

  /// dx = inv (w dy - mean(w dy) - xhat mean(w dy xhat)) with xhat = (x - mean) inv, as coefficients of dy,
  /// x - mean and 1; what the sample adds to the gradients of the parameters.
  void joinGroup(int64_t n, int64_t group, std::span<std::byte* const> operands, const float* weight,
                 const Scratch& s) const {
    const int64_t first = group * groupChannels(), end = first + groupChannels(), row = n * channels_;
    const auto inverse = static_cast<double>(readMean(operands[3], n * spec_.groups + group));
    double weighted = 0, weightedProducts = 0;
    for (int64_t c = first; c < end; ++c) {
      double sum = 0, product = 0;
      for (int64_t k = 0; k < chunks_; ++k) {
        const float* sums = partial(s.partials, n, k);
        sum += static_cast<double>(sums[c]);
        product += static_cast<double>(sums[channels_ + c]);
      }
      s.biasGrad[c] += static_cast<float>(sum);
      s.weightGrad[c] += static_cast<float>(product * inverse);
      weighted += static_cast<double>(weight[c]) * sum;
      weightedProducts += static_cast<double>(weight[c]) * product * inverse;
    }
    const double shift = inverse * weighted / groupElements();
    const double slope = inverse * inverse * weightedProducts / groupElements();
    for (int64_t c = first; c < end; ++c) {
      s.factor[row + c] = static_cast<float>(inverse) * weight[c];
      s.shift[row + c] = static_cast<float>(shift);
      s.slope[row + c] = static_cast<float>(slope);
    }
  }
};

}  // namespace

bool isGroupNormChannelsLast(const GroupNormSpec& spec, const Layout& other) {
  const auto is = [](const Layout& l) { return l.dtype == DType::kFloat32 && l.isChannelsLast(); };
  return spec.x.rank() > 2 && spec.x.numElements() > 0 && !spec.x.isContiguous() && is(spec.x) && is(other) &&
         spec.weight.isContiguous() && spec.mean.isContiguous();
}

KernelPtr makeGroupNormChannelsLast(const GroupNormSpec& spec) {
  return std::make_unique<GroupNormLast>(spec);
}
KernelPtr makeGroupNormGradChannelsLast(const GroupNormSpec& spec) {
  return std::make_unique<GroupNormGradLast>(spec);
}

}  // namespace popxl::kernels
