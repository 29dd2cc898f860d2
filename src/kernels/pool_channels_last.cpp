#include "kernels/pool_channels_last.h"

#include <algorithm>

#include "kernels/channels_last_simd.h"
#include "kernels/dense_lanes.h"

namespace popxl::kernels {
namespace {

using simd::PoolPass;

constexpr int64_t kGradChannels = 32;  // gradients add up over windows: cut by channels, not by rows

class PoolLast final : public Kernel {
 public:
  PoolLast(const PoolSpec& spec, PoolPass pass, simd::PoolSizes sizes, std::string text)
      : pass_(pass),
        sizes_(std::move(sizes)),
        samples_(spec.input.shape[0]),
        channels_(spec.input.shape[1]),
        text_(std::move(text)) {
    const int64_t windows = sizes_.kernel[0] * sizes_.kernel[1] * sizes_.kernel[2];
    rowsPerChunk_ = std::max<int64_t>(1, kSerialElements / (sizes_.out[2] * channels_ * windows));
    const int64_t cuts = isGrad() ? (channels_ + kGradChannels - 1) / kGradChannels
                                  : (rows() + rowsPerChunk_ - 1) / rowsPerChunk_;
    chunks_ = samples_ * cuts;
    lanes_ = dense::lanesFor(chunks_);
  }

  int64_t scratchBytes() const override { return isGrad() ? lanes_ * kGradChannels * 4 : 0; }
  std::string describe() const override { return text_; }

  void run(std::span<std::byte* const> operands) const override {
    if (chunks_ == 0) return;
    const int64_t cuts = chunks_ / samples_;
    dense::forLanes(chunks_, lanes_, [&](int64_t chunk, int64_t lane) {
      simd::PoolImage image = imageOf(operands, chunk / cuts);
      if (!isGrad()) {
        const int64_t begin = chunk % cuts * rowsPerChunk_;
        return simd::poolChannelsLast(pass_, sizes_, image, begin, std::min(rows(), begin + rowsPerChunk_));
      }
      const int64_t first = chunk % cuts * kGradChannels;
      image.channels = std::min(kGradChannels, channels_ - first);
      image.x += image.x == nullptr ? 0 : first;
      image.y += image.y == nullptr ? 0 : first;
      image.dy += first;
      image.result += first;
      image.left = reinterpret_cast<float*>(operands.back()) + lane * kGradChannels;
      for (int64_t p = 0; p < positions(sizes_.in); ++p) {
        std::fill_n(image.result + p * channels_, image.channels, 0.0f);
      }
      simd::poolChannelsLast(pass_, sizes_, image, 0, rows());
    });
  }

 private:
  static int64_t positions(const std::array<int64_t, 3>& size) { return size[0] * size[1] * size[2]; }
  bool isGrad() const { return pass_ == PoolPass::kMaxGrad || pass_ == PoolPass::kAverageGrad; }
  int64_t rows() const { return sizes_.out[0] * sizes_.out[1]; }

  simd::PoolImage imageOf(std::span<std::byte* const> operands, int64_t sample) const {
    const int64_t in = sample * channels_ * positions(sizes_.in),
                  out = sample * channels_ * positions(sizes_.out);
    const auto at = [&](size_t i, int64_t offset) { return reinterpret_cast<float*>(operands[i]) + offset; };
    simd::PoolImage image{nullptr, nullptr, nullptr, nullptr, channels_, channels_, nullptr};
    switch (pass_) {
      case PoolPass::kMaxGrad:
        image.x = at(0, in);
        image.y = at(1, out);
        image.dy = at(2, out);
        image.result = at(3, in);
        break;
      case PoolPass::kAverageGrad:
        image.dy = at(0, out);
        image.result = at(1, in);
        break;
      default:
        image.x = at(0, in);
        image.result = at(1, out);
    }
    return image;
  }

  PoolPass pass_;
  simd::PoolSizes sizes_;
  int64_t samples_, channels_, rowsPerChunk_ = 1, chunks_ = 0, lanes_ = 1;
  std::string text_;
};

}  // namespace

KernelPtr makePoolChannelsLast(const PoolSpec& spec, PoolPass pass, const simd::PoolSizes& sizes,
                               std::string text) {
  return std::make_unique<PoolLast>(spec, pass, sizes, std::move(text));
}

}  // namespace popxl::kernels
