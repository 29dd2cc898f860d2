#include "kernels/conv_im2col.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/dense_lanes.h"
#include "kernels/dense_pack.h"
#include "kernels/onednn_gemm.h"

namespace popxl::kernels {
namespace {

using dense::Carver;
using dense::Operand;

constexpr int64_t kColumnElements = 96 * 1024;  // of one block of columns
constexpr double kChunkFlops = 6e6;

/// Calls fn(input offset, first valid, end of valid) for each window position and output row; the offset is
/// that of output column 0 (possibly outside); a row wholly outside has no valid columns.
template <typename Fn>
void forWindowRows(const ConvSizes& s, int64_t firstRow, int64_t endRow, const Fn& fn) {
  for (int64_t c = 0; c < s.groupIn(); ++c) {
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
          const int64_t shift = kw * s.dilation[2] - s.pad[2], step = s.stride[2];
          const int64_t low = std::clamp<int64_t>(shift >= 0 ? 0 : (-shift + step - 1) / step, 0, s.out[2]);
          const int64_t room = s.in[2] - 1 - shift;
          const int64_t high = room < 0 ? low : std::clamp<int64_t>(room / step + 1, low, s.out[2]);
          for (int64_t row = firstRow; row < endRow; ++row) {
            const int64_t d = row / s.out[1] * s.stride[0] - s.pad[0] + kd * s.dilation[0];
            const int64_t h = row % s.out[1] * s.stride[1] - s.pad[1] + kh * s.dilation[1];
            const bool outside = d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1];
            fn(((c * s.in[0] + d) * s.in[1] + h) * s.in[2] + shift, outside ? 0 : low, outside ? 0 : high);
          }
        }
      }
    }
  }
}

template <typename T>
void writeColumns(const ConvSizes& s, int64_t firstRow, int64_t endRow, const T* image, T* columns) {
  const int64_t width = s.out[2], step = s.stride[2];
  forWindowRows(s, firstRow, endRow, [&](int64_t offset, int64_t low, int64_t high) {
    std::fill(columns, columns + low, T{0});
    if (step == 1) {
      if (low < high) std::copy(image + offset + low, image + offset + high, columns + low);
    } else {
      for (int64_t i = low; i < high; ++i) columns[i] = image[offset + i * step];
    }
    std::fill(columns + high, columns + width, T{0});
    columns += width;
  });
}

template <typename T>
void addColumns(const ConvSizes& s, int64_t firstRow, int64_t endRow, const T* columns, T* image) {
  const int64_t width = s.out[2], step = s.stride[2];
  forWindowRows(s, firstRow, endRow, [&](int64_t offset, int64_t low, int64_t high) {
    for (int64_t i = low; i < high; ++i) image[offset + i * step] += columns[i];
    columns += width;
  });
}

template <typename T>
class Im2colConv final : public Kernel {
 public:
  Im2colConv(const ConvSpec& spec, ConvDirection direction);

  void run(std::span<std::byte* const> operands) const override;
  int64_t scratchBytes() const override { return scratch_; }
  double flops() const override { return sizes_.flops(); }
  std::string describe() const override { return text_ + " im2col"; }

 private:
  struct Lane {
    T *image, *result, *columns;
  };
  Lane laneOf(Carver& carver) const;
  T* weightsOf(Carver& carver) const;
  int64_t rowBlocks() const { return (sizes_.outRows() + rowsPerBlock_ - 1) / rowsPerBlock_; }

  const T* readImage(const ConvTensor& tensor, std::byte* data, int64_t image, T* buffer) const;
  void runImages(std::byte* from, const T* weights, std::byte* to, std::byte* lanes, T scale) const;
  void forward(const T* image, const T* weights, T* result, int64_t block, T* columns) const;
  void gradInput(const T* image, const T* weights, T* result, T* columns) const;
  void runWeights(std::byte* input, std::byte* outputGrad, std::byte* to, T* sums, std::byte* lanes) const;
  void gradWeight(const T* image, const T* outputGrad, T* sum, bool first, T* columns) const;

  ConvSizes sizes_;
  ConvDirection direction_;
  ConvTensor input_, weights_, output_;
  bool scaled_;
  bool pointwise_;
  std::string text_;
  int64_t rowsPerBlock_ = 1;
  int64_t blocksPerUnit_ = 1;  ///< forward: a unit of work is these row blocks of an image
  int64_t perChunk_ = 1;       ///< units (forward), images (gradients) of a chunk
  int64_t chunks_ = 1;
  int64_t lanes_ = 1;
  int64_t scratch_ = 0;
};

template <typename T>
Im2colConv<T>::Im2colConv(const ConvSpec& spec, ConvDirection direction)
    : sizes_(convSizes(spec)),
      direction_(direction),
      input_(convTensor(spec.input)),
      weights_(convTensor(spec.weights)),
      output_(convTensor(spec.output)),
      scaled_(spec.scaled),
      pointwise_(sizes_.isPointwise()),
      text_(describeConv(spec, direction)) {
  const int64_t rowElements = std::max<int64_t>(1, sizes_.depth() * sizes_.out[2]);
  rowsPerBlock_ =
      std::clamp<int64_t>(kColumnElements / rowElements, 1, std::max<int64_t>(1, sizes_.outRows()));
  if (direction_ == ConvDirection::kGradWeight) {
    perChunk_ = imagesPerSum(sizes_);
    chunks_ = sizes_.batch / perChunk_;
  } else {
    const bool byBlock = direction_ == ConvDirection::kForward && output_.plain;
    blocksPerUnit_ = byBlock ? 1 : rowBlocks();
    const int64_t unitsPerImage = byBlock ? rowBlocks() : 1;
    const double unitFlops =
        sizes_.flopsPerImage() / static_cast<double>(std::max<int64_t>(1, unitsPerImage));
    const int64_t units = sizes_.batch * unitsPerImage;
    perChunk_ =
        std::max<int64_t>(1, static_cast<int64_t>(std::min(1e9, kChunkFlops / std::max(1.0, unitFlops))));
    if (sizes_.flops() < kChunkFlops / 2) perChunk_ = std::max<int64_t>(units, 1);
    chunks_ = (units + perChunk_ - 1) / perChunk_;
  }
  lanes_ = dense::lanesFor(chunks_);
  Carver carver;
  weightsOf(carver);
  for (int64_t i = 0; i < lanes_; ++i) laneOf(carver);
  scratch_ = carver.used();
}

/// Dense weights where the operand's are not, or partial sums of their gradient.
template <typename T>
T* Im2colConv<T>::weightsOf(Carver& carver) const {
  const bool isSum = direction_ == ConvDirection::kGradWeight;
  if (weights_.plain && (!isSum || chunks_ == 1)) return nullptr;
  return carver.take<T>(weights_.layout.numElements() * (isSum ? chunks_ : 1));
}

template <typename T>
typename Im2colConv<T>::Lane Im2colConv<T>::laneOf(Carver& carver) const {
  const auto buffer = [&](const ConvTensor& t) {
    return carver.take<T>(t.plain ? 0 : t.partElements(1, t.layout.shape[1]));
  };
  Lane lane{};
  lane.image = buffer(direction_ == ConvDirection::kGradInput ? output_ : input_);
  lane.result = buffer(direction_ == ConvDirection::kGradInput ? input_ : output_);
  lane.columns = carver.take<T>(pointwise_ ? 0 : sizes_.depth() * rowsPerBlock_ * sizes_.out[2]);
  return lane;
}

template <typename T>
const T* Im2colConv<T>::readImage(const ConvTensor& tensor, std::byte* data, int64_t image, T* buffer) const {
  std::byte* at = tensor.at(data, image, 0);
  if (tensor.plain) return reinterpret_cast<const T*>(at);
  dense::loadTensor(tensor.part(1, tensor.layout.shape[1]), at, buffer);
  return buffer;
}

template <typename T>
void Im2colConv<T>::forward(const T* image, const T* weights, T* result, int64_t block, T* columns) const {
  const ConvSizes& s = sizes_;
  const int64_t row = block * rowsPerBlock_, end = std::min(s.outRows(), row + rowsPerBlock_);
  const int64_t at = row * s.out[2], width = (end - row) * s.out[2];
  for (int64_t g = 0; g < s.groups; ++g) {
    const T* in = image + g * s.groupIn() * s.inVolume();
    if (!pointwise_) writeColumns(s, row, end, in, columns);
    const Operand<T> right =
        pointwise_ ? Operand<T>{in + at, s.inVolume(), 1} : Operand<T>{columns, width, 1};
    const T* left = weights + g * s.groupOut() * s.depth();
    dense::gemm(s.groupOut(), width, s.depth(), Operand<T>{left, s.depth(), 1}, right,
                result + g * s.groupOut() * s.outVolume() + at, s.outVolume(), false);
  }
}

template <typename T>
void Im2colConv<T>::gradInput(const T* image, const T* weights, T* result, T* columns) const {
  const ConvSizes& s = sizes_;
  if (!pointwise_) std::fill(result, result + s.inChannels * s.inVolume(), T{0});
  for (int64_t g = 0; g < s.groups; ++g) {
    const Operand<T> left{weights + g * s.groupOut() * s.depth(), 1, s.depth()};
    T* to = result + g * s.groupIn() * s.inVolume();
    for (int64_t row = 0; row < s.outRows(); row += rowsPerBlock_) {
      const int64_t end = std::min(s.outRows(), row + rowsPerBlock_);
      const int64_t at = row * s.out[2], width = (end - row) * s.out[2];
      const Operand<T> right{image + g * s.groupOut() * s.outVolume() + at, s.outVolume(), 1};
      T* out = pointwise_ ? to + at : columns;
      dense::gemm(s.depth(), width, s.groupOut(), left, right, out, pointwise_ ? s.inVolume() : width, false);
      if (!pointwise_) addColumns(s, row, end, columns, to);
    }
  }
}

template <typename T>
void Im2colConv<T>::gradWeight(const T* image, const T* outputGrad, T* sum, bool first, T* columns) const {
  const ConvSizes& s = sizes_;
  for (int64_t g = 0; g < s.groups; ++g) {
    const T* in = image + g * s.groupIn() * s.inVolume();
    for (int64_t row = 0; row < s.outRows(); row += rowsPerBlock_) {
      const int64_t end = std::min(s.outRows(), row + rowsPerBlock_);
      const int64_t at = row * s.out[2], width = (end - row) * s.out[2];
      if (!pointwise_) writeColumns(s, row, end, in, columns);
      const Operand<T> left{outputGrad + g * s.groupOut() * s.outVolume() + at, s.outVolume(), 1};
      const Operand<T> right =
          pointwise_ ? Operand<T>{in + at, 1, s.inVolume()} : Operand<T>{columns, 1, width};
      dense::gemm(s.groupOut(), s.depth(), width, left, right, sum + g * s.groupOut() * s.depth(), s.depth(),
                  !first || row > 0);
    }
  }
}

template <typename T>
void Im2colConv<T>::runImages(std::byte* from, const T* weights, std::byte* to, std::byte* lanes,
                              T scale) const {
  const bool isForward = direction_ == ConvDirection::kForward;
  const ConvTensor& read = isForward ? input_ : output_;
  const ConvTensor& written = isForward ? output_ : input_;
  const int64_t unitsPerImage = isForward ? rowBlocks() / blocksPerUnit_ : 1;
  const int64_t units = sizes_.batch * unitsPerImage;
  Carver one;
  laneOf(one);
  dense::forLanes(chunks_, lanes_, [&](int64_t chunk, int64_t index) {
    Carver carver(lanes + index * one.used());
    const Lane lane = laneOf(carver);
    const T* image = nullptr;
    int64_t loaded = -1;
    for (int64_t unit = chunk * perChunk_; unit < std::min(units, (chunk + 1) * perChunk_); ++unit) {
      const int64_t n = unit / unitsPerImage, block = unit % unitsPerImage * blocksPerUnit_;
      if (n != loaded) image = readImage(read, from, n, lane.image);
      loaded = n;
      std::byte* target = written.at(to, n, 0);
      T* result = written.plain ? reinterpret_cast<T*>(target) : lane.result;
      if (isForward) {
        for (int64_t b = block; b < block + blocksPerUnit_; ++b)
          forward(image, weights, result, b, lane.columns);
      } else {
        gradInput(image, weights, result, lane.columns);
      }
      if (!written.plain) dense::storeTensor(result, scale, written.part(1, written.layout.shape[1]), target);
    }
  });
}

template <typename T>
void Im2colConv<T>::runWeights(std::byte* input, std::byte* outputGrad, std::byte* to, T* sums,
                               std::byte* lanes) const {
  Carver one;
  laneOf(one);
  dense::forLanes(chunks_, lanes_, [&](int64_t chunk, int64_t index) {
    Carver carver(lanes + index * one.used());
    const Lane lane = laneOf(carver);
    T* sum = sums == nullptr ? reinterpret_cast<T*>(to) : sums + chunk * weights_.layout.numElements();
    for (int64_t n = chunk * perChunk_; n < (chunk + 1) * perChunk_; ++n) {
      const T* image = readImage(input_, input, n, lane.image);
      const T* grad = readImage(output_, outputGrad, n, lane.result);
      gradWeight(image, grad, sum, n == chunk * perChunk_, lane.columns);
    }
  });
  if (sums != nullptr) sumWeightParts(sums, chunks_, weights_.layout, to);
}

template <typename T>
void Im2colConv<T>::run(std::span<std::byte* const> operands) const {
  const size_t count = scaled_ ? 4 : 3;
  POPXL_ASSERT(operands.size() >= count + (scratch_ > 0 ? 1 : 0), "{}: {} operands", text_, operands.size());
  Carver carver(scratch_ > 0 ? operands[count] : nullptr);
  T* own = weightsOf(carver);
  std::byte* lanes = scratch_ > 0 ? operands[count] + carver.used() : nullptr;
  if (direction_ == ConvDirection::kGradWeight) {
    return runWeights(operands[0], operands[1], operands[2], own, lanes);
  }
  const T* weights = reinterpret_cast<const T*>(operands[1]);
  if (own != nullptr) {
    dense::loadTensor(weights_.layout, operands[1], own);
    weights = own;
  }
  const auto scale = static_cast<T>(readScale(scaled_ ? operands[2] : nullptr));
  runImages(operands[0], weights, operands[count - 1], lanes, scale);
}

}  // namespace

KernelPtr makeIm2colConv(const ConvSpec& spec, ConvDirection direction) {
  return dense::withCompute(dense::computeOf(spec.weights.dtype, "conv"), [&](auto zero) -> KernelPtr {
    return std::make_unique<Im2colConv<decltype(zero)>>(spec, direction);
  });
}

}  // namespace popxl::kernels
