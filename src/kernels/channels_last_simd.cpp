#include "kernels/channels_last_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/channels_last_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "kernels/scalar_ops.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

// Plain loops over channels: the compiler turns them into vectors for each target.

HWY_ATTR void moments(const float* HWY_RESTRICT x, int64_t positions, int64_t channels,
                      float* HWY_RESTRICT sum, float* HWY_RESTRICT squares) {
  for (int64_t c = 0; c < channels; ++c) sum[c] = 0;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) sum[c] += x[p * channels + c];
  }
  const float scale = 1.0f / static_cast<float>(positions);
  for (int64_t c = 0; c < channels; ++c) squares[c] = 0;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = x[p * channels + c] - sum[c] * scale;
      squares[c] += distance * distance;
    }
  }
}

HWY_ATTR void affine(const float* HWY_RESTRICT x, int64_t positions, int64_t channels,
                     const float* HWY_RESTRICT mean, const float* HWY_RESTRICT factor,
                     const float* HWY_RESTRICT bias, float* HWY_RESTRICT y) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      y[p * channels + c] = (x[p * channels + c] - mean[c]) * factor[c] + bias[c];
    }
  }
}

HWY_ATTR void gradSums(const float* HWY_RESTRICT x, const float* HWY_RESTRICT dy, int64_t positions,
                       int64_t channels, const float* HWY_RESTRICT mean, float* HWY_RESTRICT sums,
                       float* HWY_RESTRICT products) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = products[c] = 0;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      const float d = dy[p * channels + c];
      sums[c] += d;
      products[c] += d * (x[p * channels + c] - mean[c]);
    }
  }
}

HWY_ATTR void gradInput(const float* HWY_RESTRICT x, const float* HWY_RESTRICT dy, int64_t positions,
                        int64_t channels, const float* HWY_RESTRICT mean, const float* HWY_RESTRICT factor,
                        const float* HWY_RESTRICT slope, const float* HWY_RESTRICT shift,
                        float* HWY_RESTRICT dx) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t at = p * channels + c;
      dx[at] = dy[at] * factor[c] - (x[at] - mean[c]) * slope[c] - shift[c];
    }
  }
}

/// Calls fn(input position) for the positions of a window inside the input, in row-major order; counts them.
template <typename Fn>
HWY_ATTR HWY_INLINE int64_t forWindow(const PoolSizes& s, int64_t row, int64_t column, const Fn& fn) {
  const int64_t out[] = {row / s.out[1], row % s.out[1], column};
  int64_t count = 0, at[3];
  for (int64_t a = 0; a < s.kernel[0]; ++a) {
    at[0] = out[0] * s.stride[0] - s.pad[0] + a * s.dilation[0];
    for (int64_t b = 0; b < s.kernel[1]; ++b) {
      at[1] = out[1] * s.stride[1] - s.pad[1] + b * s.dilation[1];
      for (int64_t k = 0; k < s.kernel[2]; ++k) {
        at[2] = out[2] * s.stride[2] - s.pad[2] + k * s.dilation[2];
        bool inside = true;
        for (int d = 0; d < 3; ++d) inside = inside && at[d] >= 0 && at[d] < s.in[static_cast<size_t>(d)];
        if (!inside) continue;
        fn((at[0] * s.in[1] + at[1]) * s.in[2] + at[2]);
        ++count;
      }
    }
  }
  return count;
}

template <PoolPass kPass>
HWY_ATTR void poolWindow(const PoolSizes& s, const PoolImage& p, int64_t row, int64_t column) {
  const int64_t n = p.channels, at = (row * s.out[2] + column) * p.stride;
  if constexpr (kPass == PoolPass::kMax || kPass == PoolPass::kAverage) {
    float* HWY_RESTRICT y = p.result + at;
    for (int64_t c = 0; c < n; ++c)
      y[c] = kPass == PoolPass::kMax ? -std::numeric_limits<float>::infinity() : 0;
    const int64_t count = forWindow(s, row, column, [&](int64_t position) HWY_ATTR {
      const float* HWY_RESTRICT x = p.x + position * p.stride;
      for (int64_t c = 0; c < n; ++c) {
        if (kPass == PoolPass::kMax) {
          y[c] = (x[c] > y[c]) | scalar::isNan(x[c]) ? x[c] : y[c];
        } else {
          y[c] += x[c];
        }
      }
    });
    if (kPass == PoolPass::kMax) return;
    for (int64_t c = 0; c < n; ++c) y[c] /= static_cast<float>(std::max<int64_t>(count, 1));
  } else {
    // What each output still has to give: a maximum's gradient until the first position that equals it.
    float* HWY_RESTRICT left = p.left;
    const float* HWY_RESTRICT y = p.y + at;
    for (int64_t c = 0; c < n; ++c) left[c] = p.dy[at + c];
    if constexpr (kPass == PoolPass::kAverageGrad) {
      const int64_t count = forWindow(s, row, column, [](int64_t) HWY_ATTR {});
      for (int64_t c = 0; c < n; ++c) left[c] /= static_cast<float>(std::max<int64_t>(count, 1));
    }
    forWindow(s, row, column, [&](int64_t position) HWY_ATTR {
      float* HWY_RESTRICT dx = p.result + position * p.stride;
      if constexpr (kPass == PoolPass::kAverageGrad) {
        for (int64_t c = 0; c < n; ++c) dx[c] += left[c];
      } else {
        const float* HWY_RESTRICT x = p.x + position * p.stride;
        for (int64_t c = 0; c < n; ++c) {
          const bool same = (x[c] == y[c]) | (scalar::isNan(x[c]) & scalar::isNan(y[c]));
          dx[c] += same ? left[c] : 0.0f;
          left[c] = same ? 0.0f : left[c];
        }
      }
    });
  }
}

template <PoolPass kPass>
HWY_ATTR void poolRows(const PoolSizes& s, const PoolImage& p, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = 0; column < s.out[2]; ++column) poolWindow<kPass>(s, p, row, column);
  }
}

HWY_ATTR void pool(PoolPass pass, const PoolSizes& s, const PoolImage& p, int64_t begin, int64_t end) {
  switch (pass) {
    case PoolPass::kMax:
      return poolRows<PoolPass::kMax>(s, p, begin, end);
    case PoolPass::kAverage:
      return poolRows<PoolPass::kAverage>(s, p, begin, end);
    case PoolPass::kMaxGrad:
      return poolRows<PoolPass::kMaxGrad>(s, p, begin, end);
    case PoolPass::kAverageGrad:
      return poolRows<PoolPass::kAverageGrad>(s, p, begin, end);
  }
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(moments);
HWY_EXPORT(affine);
HWY_EXPORT(gradSums);
HWY_EXPORT(gradInput);
HWY_EXPORT(pool);

void channelMoments(const float* x, int64_t positions, int64_t channels, float* sum, float* squares) {
  HWY_DYNAMIC_DISPATCH(moments)(x, positions, channels, sum, squares);
}
void channelAffine(const float* x, int64_t positions, int64_t channels, const float* mean,
                   const float* factor, const float* bias, float* y) {
  HWY_DYNAMIC_DISPATCH(affine)(x, positions, channels, mean, factor, bias, y);
}
void channelGradSums(const float* x, const float* dy, int64_t positions, int64_t channels, const float* mean,
                     float* sums, float* products) {
  HWY_DYNAMIC_DISPATCH(gradSums)(x, dy, positions, channels, mean, sums, products);
}
void channelGradInput(const float* x, const float* dy, int64_t positions, int64_t channels, const float* mean,
                      const float* factor, const float* slope, const float* shift, float* dx) {
  HWY_DYNAMIC_DISPATCH(gradInput)(x, dy, positions, channels, mean, factor, slope, shift, dx);
}
void poolChannelsLast(PoolPass pass, const PoolSizes& sizes, const PoolImage& image, int64_t begin,
                      int64_t end) {
  HWY_DYNAMIC_DISPATCH(pool)(pass, sizes, image, begin, end);
}

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
