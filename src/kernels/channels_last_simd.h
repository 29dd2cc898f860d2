#pragma once

#include <cstdint>

#include "kernels/pool_simd.h"

// Loops over channels-last memory: `positions` rows of `channels` numbers side by side. Per-channel operands
// have one number a channel.

namespace popxl::kernels::simd {

/// sum[c] and the sum of squared distances from this sum's own mean.
void channelMoments(const float* x, int64_t positions, int64_t channels, float* sum, float* squares);
/// y = (x - mean) * factor + bias.
void channelAffine(const float* x, int64_t positions, int64_t channels, const float* mean,
                   const float* factor, const float* bias, float* y);
/// sums[c] = sum of dy, products[c] = sum of dy * (x - mean).
void channelGradSums(const float* x, const float* dy, int64_t positions, int64_t channels, const float* mean,
                     float* sums, float* products);
/// dx = dy * factor - (x - mean) * slope - shift.
void channelGradInput(const float* x, const float* dy, int64_t positions, int64_t channels, const float* mean,
                      const float* factor, const float* slope, const float* shift, float* dx);

/// One image of a pooling: x and dx with in[0..2] positions, y and dy with out[0..2], `stride` numbers apart.
struct PoolImage {
  const float *x, *y, *dy;
  float* result;     ///< y forwards, dx backwards
  int64_t stride;    ///< channels of the image
  int64_t channels;  ///< of them worked on here
  float* left;       ///< scratch of as many
};

/// Forwards: output rows (of the outer two dimensions together) [begin, end).
void poolChannelsLast(PoolPass pass, const PoolSizes& sizes, const PoolImage& image, int64_t begin,
                      int64_t end);

}  // namespace popxl::kernels::simd
