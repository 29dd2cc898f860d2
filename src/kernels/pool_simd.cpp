#include "kernels/pool_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

// Plain loops over rows: the compiler turns them into vectors for each target, also for a stride of two.

/// Columns of the output whose window position `kernel` lies inside the input.
struct Span {
  int64_t low, high, shift;
};

HWY_ATTR inline Span spanOf(const PoolSizes& s, int64_t kernel) {
  const int64_t shift = kernel * s.dilation[2] - s.pad[2], step = s.stride[2];
  const int64_t first = shift >= 0 ? 0 : (-shift + step - 1) / step;
  const int64_t room = s.in[2] - 1 - shift;
  int64_t high = room < 0 ? 0 : room / step + 1;
  if (high > s.out[2]) high = s.out[2];
  return {first < high ? first : high, high, shift};
}

/// Calls fn(offset of the input row) for each row of the windows of output row `row` inside the input;
/// returns how many there are.
template <typename Fn>
HWY_ATTR int64_t forRows(const PoolSizes& s, int64_t row, const Fn& fn) {
  int64_t count = 0;
  for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
    const int64_t d = row / s.out[1] * s.stride[0] - s.pad[0] + kd * s.dilation[0];
    for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
      const int64_t h = row % s.out[1] * s.stride[1] - s.pad[1] + kh * s.dilation[1];
      if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1]) continue;
      fn((d * s.in[1] + h) * s.in[2]);
      ++count;
    }
  }
  return count;
}

/// Calls body(i, i * step) for the columns with a step that the compiler knows where it is 1 or 2.
template <typename Body>
HWY_ATTR HWY_INLINE void forColumns(const Span& span, int64_t step, const Body& body) {
  if (step == 1) {
    for (int64_t i = span.low; i < span.high; ++i) body(i, i);
  } else if (step == 2) {
    for (int64_t i = span.low; i < span.high; ++i) body(i, 2 * i);
  } else {
    for (int64_t i = span.low; i < span.high; ++i) body(i, i * step);
  }
}

template <typename T>
HWY_ATTR HWY_INLINE T larger(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return (x > y) | (x != x) ? x : y;
  return x > y ? x : y;
}

template <typename T>
constexpr T lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

template <typename T>
HWY_ATTR void maxRow(const PoolSizes& s, int64_t row, const PoolPlane<T>& p) {
  T* HWY_RESTRICT out = p.result + row * s.out[2];
  for (int64_t i = 0; i < s.out[2]; ++i) out[i] = lowest<T>();
  forRows(s, row, [&](int64_t offset) HWY_ATTR {
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const Span span = spanOf(s, k);
      const T* HWY_RESTRICT x = p.x + offset + span.shift;
      forColumns(span, s.stride[2], [&](int64_t i, int64_t at) HWY_ATTR { out[i] = larger(x[at], out[i]); });
    }
  });
}

template <typename T>
HWY_ATTR void averageRow(const PoolSizes& s, int64_t row, const PoolPlane<T>& p) {
  T* HWY_RESTRICT out = p.result + row * s.out[2];
  for (int64_t i = 0; i < s.out[2]; ++i) out[i] = 0;
  const int64_t rows = forRows(s, row, [&](int64_t offset) HWY_ATTR {
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const Span span = spanOf(s, k);
      const T* HWY_RESTRICT x = p.x + offset + span.shift;
      forColumns(span, s.stride[2], [&](int64_t i, int64_t at) HWY_ATTR { out[i] += x[at]; });
    }
  });
  const T factor = static_cast<T>(rows);
  for (int64_t i = 0; i < s.out[2]; ++i) {
    const T count = p.counts[i] * factor;
    out[i] = out[i] / (count > 0 ? count : T{1});
  }
}

template <typename T>
HWY_ATTR void averageGradRow(const PoolSizes& s, int64_t row, const PoolPlane<T>& p) {
  T* HWY_RESTRICT share = p.row;
  const T* dy = p.dy + row * s.out[2];
  const auto factor = static_cast<T>(forRows(s, row, [](int64_t) HWY_ATTR {}));
  for (int64_t i = 0; i < s.out[2]; ++i) {
    const T count = p.counts[i] * factor;
    share[i] = dy[i] / (count > 0 ? count : T{1});
  }
  forRows(s, row, [&](int64_t offset) HWY_ATTR {
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const Span span = spanOf(s, k);
      T* HWY_RESTRICT dx = p.result + offset + span.shift;
      forColumns(span, s.stride[2], [&](int64_t i, int64_t at) HWY_ATTR { dx[at] += share[i]; });
    }
  });
}

template <typename T>
HWY_ATTR HWY_INLINE bool sameValue(T x, T y) {
  return (x == y) | ((x != x) & (y != y));
}

/// `left` is what each output still has to give: its gradient until the first position that equals it, then
/// 0.
template <typename T>
HWY_ATTR void maxGradRow(const PoolSizes& s, int64_t row, const PoolPlane<T>& p) {
  T* HWY_RESTRICT left = p.row;
  const T* HWY_RESTRICT y = p.y + row * s.out[2];
  const T* dy = p.dy + row * s.out[2];
  for (int64_t i = 0; i < s.out[2]; ++i) left[i] = dy[i];
  const bool pairs =
      s.kernel[2] == 2 && s.stride[2] == 2 && s.dilation[2] == 1 && s.pad[2] == 0 && s.in[2] >= 2 * s.out[2];
  forRows(s, row, [&](int64_t offset) HWY_ATTR {
    if (pairs) {
      const T* HWY_RESTRICT x = p.x + offset;
      T* HWY_RESTRICT dx = p.result + offset;
      for (int64_t i = 0; i < s.out[2]; ++i) {
        const T all = left[i];
        const T first = sameValue(x[2 * i], y[i]) ? all : T{0};
        const T rest = sameValue(x[2 * i], y[i]) ? T{0} : all;
        const T second = sameValue(x[2 * i + 1], y[i]) ? rest : T{0};
        left[i] = sameValue(x[2 * i + 1], y[i]) ? T{0} : rest;
        dx[2 * i] += first;
        dx[2 * i + 1] += second;
      }
      return;
    }
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const Span span = spanOf(s, k);
      const T* HWY_RESTRICT x = p.x + offset + span.shift;
      T* HWY_RESTRICT dx = p.result + offset + span.shift;
      forColumns(span, s.stride[2], [&](int64_t i, int64_t at) HWY_ATTR {
        const bool same = sameValue(x[at], y[i]);
        dx[at] += same ? left[i] : T{0};
        left[i] = same ? T{0} : left[i];
      });
    }
  });
}

template <typename T>
HWY_ATTR void poolPlane(PoolPass pass, const PoolSizes& s, const PoolPlane<T>& p) {
  const int64_t rows = s.out[0] * s.out[1];
  if constexpr (std::is_floating_point_v<T>) {
    if (pass == PoolPass::kMaxGrad || pass == PoolPass::kAverageGrad) {
      const int64_t count = s.in[0] * s.in[1] * s.in[2];
      for (int64_t i = 0; i < count; ++i) p.result[i] = 0;
    }
    for (int64_t row = 0; row < rows; ++row) {
      if (pass == PoolPass::kMax) maxRow(s, row, p);
      if (pass == PoolPass::kAverage) averageRow(s, row, p);
      if (pass == PoolPass::kMaxGrad) maxGradRow(s, row, p);
      if (pass == PoolPass::kAverageGrad) averageGradRow(s, row, p);
    }
  } else {
    for (int64_t row = 0; row < rows; ++row) maxRow(s, row, p);
  }
}

HWY_ATTR void poolF32(PoolPass pass, const PoolSizes& s, const PoolPlane<float>& p) { poolPlane(pass, s, p); }
HWY_ATTR void poolF64(PoolPass pass, const PoolSizes& s, const PoolPlane<double>& p) {
  poolPlane(pass, s, p);
}
HWY_ATTR void poolI32(PoolPass pass, const PoolSizes& s, const PoolPlane<int32_t>& p) {
  poolPlane(pass, s, p);
}
HWY_ATTR void poolU32(PoolPass pass, const PoolSizes& s, const PoolPlane<uint32_t>& p) {
  poolPlane(pass, s, p);
}
HWY_ATTR void poolI64(PoolPass pass, const PoolSizes& s, const PoolPlane<int64_t>& p) {
  poolPlane(pass, s, p);
}
HWY_ATTR void poolU64(PoolPass pass, const PoolSizes& s, const PoolPlane<uint64_t>& p) {
  poolPlane(pass, s, p);
}

}  // namespace popxl::kernels::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels::simd {

HWY_EXPORT(poolF32);
HWY_EXPORT(poolF64);
HWY_EXPORT(poolI32);
HWY_EXPORT(poolU32);
HWY_EXPORT(poolI64);
HWY_EXPORT(poolU64);

void pool(PoolPass pass, const PoolSizes& s, const PoolPlane<float>& p) {
  HWY_DYNAMIC_DISPATCH(poolF32)(pass, s, p);
}
void pool(PoolPass pass, const PoolSizes& s, const PoolPlane<double>& p) {
  HWY_DYNAMIC_DISPATCH(poolF64)(pass, s, p);
}
void pool(PoolPass pass, const PoolSizes& s, const PoolPlane<int32_t>& p) {
  HWY_DYNAMIC_DISPATCH(poolI32)(pass, s, p);
}
void pool(PoolPass pass, const PoolSizes& s, const PoolPlane<uint32_t>& p) {
  HWY_DYNAMIC_DISPATCH(poolU32)(pass, s, p);
}
void pool(PoolPass pass, const PoolSizes& s, const PoolPlane<int64_t>& p) {
  HWY_DYNAMIC_DISPATCH(poolI64)(pass, s, p);
}
void pool(PoolPass pass, const PoolSizes& s, const PoolPlane<uint64_t>& p) {
  HWY_DYNAMIC_DISPATCH(poolU64)(pass, s, p);
}

}  // namespace popxl::kernels::simd
#endif  // HWY_ONCE
