#pragma once

#include <array>

#include "kernels/conv.h"

namespace popxl::kernels {

enum class ConvDirection : uint8_t { kForward, kGradInput, kGradWeight };

/// A tensor of a convolution and whether its memory is dense in the compute type, so that it can be used
/// where it is.
struct ConvTensor {
  Layout layout;
  bool plain;         ///< row-major
  bool channelsLast;  ///< in the order of channelsLastStrides

  bool isDense() const { return plain || channelsLast; }
  /// The same tensor with other sizes of the first two dimensions.
  Layout part(int64_t first, int64_t second) const;
  int64_t partElements(int64_t first, int64_t second) const { return part(first, second).numElements(); }
  /// Where a part begins: at this sample, channel and row (of the outermost spatial dimension).
  std::byte* at(std::byte* data, int64_t first, int64_t second, int64_t row = 0) const {
    return data + (first * layout.strides[0] + second * layout.strides[1] + row * layout.strides[2]) *
                      sizeOf(layout.dtype);
  }
};

/// Sizes of a convolution. Spatial ones always three, outermost first; ones that the program does not have
/// are 1.
struct ConvSizes {
  int64_t batch, inChannels, outChannels, groups;
  std::array<int64_t, 3> in, out, kernel, stride, pad, dilation;

  int64_t inVolume() const { return in[0] * in[1] * in[2]; }
  int64_t outVolume() const { return out[0] * out[1] * out[2]; }
  int64_t outRows() const { return out[0] * out[1]; }
  int64_t kernelVolume() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t groupIn() const { return inChannels / groups; }
  int64_t groupOut() const { return outChannels / groups; }
  int64_t depth() const { return groupIn() * kernelVolume(); }  ///< products per output element
  double flopsPerImage() const {
    return 2.0 * static_cast<double>(outChannels) * static_cast<double>(outVolume()) *
           static_cast<double>(depth());
  }
  double flops() const { return flopsPerImage() * static_cast<double>(batch); }
  /// Output positions are input positions: no window, stride or padding.
  bool isPointwise() const;
};

ConvSizes convSizes(const ConvSpec& spec);
ConvTensor convTensor(const Layout& layout);

/// Chunks of the batch for work of which each chunk keeps a sum: images of one, for not more than 16 chunks.
int64_t imagesPerSum(const ConvSizes& sizes);

/// How a convolution is cut into pieces: images of the batch, rows (of the outermost spatial dimension) and
/// channels of the result; output channels for the gradient of the weights, whose image cuts give sums.
struct ConvCut {
  int64_t images, rows, channels;
};
/// The cut into enough pieces for many threads that moves least memory: each piece reads its part of the
/// data and all of the weights, or the reverse.
ConvCut chooseCut(const ConvSpec& spec, ConvDirection direction);

/// Whether oneDNN's kernels are to be tried (float32 arithmetic), else im2col and a matrix product.
bool prefersLibrary(const ConvSpec& spec, ConvDirection direction, bool avx512);

/// Adds `parts` dense gradients of the weights in order and writes them to `layout`; parallel.
template <typename T>
void sumWeightParts(const T* partial, int64_t parts, const Layout& layout, std::byte* out);

/// 2^s of a scaled convolution; 1 when `scale` is null.
float readScale(const std::byte* scale);

/// "conv float32 8x16x28x28 * 32x16x3x3".
std::string describeConv(const ConvSpec& spec, ConvDirection direction);

}  // namespace popxl::kernels
