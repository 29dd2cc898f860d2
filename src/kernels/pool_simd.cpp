#include "kernels/pool_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/scalar_ops.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Plain loops over rows: the compiler turns them into vectors for each target, also for a stride of two.

/// Calls fn(offset of the input row) for each row of the windows of output row (od, oh) inside the input;
/// returns how many there are.
template <typename Fn>
HWY_ATTR HWY_INLINE int64_t forRows(const PoolSizes& s, int64_t od, int64_t oh, const Fn& fn) {
  int64_t count = 0;
  for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
    const int64_t d = od * s.stride[0] - s.pad[0] + kd * s.dilation[0];
    for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
      const int64_t h = oh * s.stride[1] - s.pad[1] + kh * s.dilation[1];
      if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1]) continue;
      fn((d * s.in[1] + h) * s.in[2]);
      ++count;
    }
  }
  return count;
}

/// Calls body(i, i * step) for the columns with a step that the compiler knows where it is 1 or 2.
template <typename Body>
HWY_ATTR HWY_INLINE void forColumns(const PoolSpan& span, int64_t step, const Body& body) {
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
  if constexpr (std::is_floating_point_v<T>) return (x > y) | scalar::isNan(x) ? x : y;
  return x > y ? x : y;
}

template <typename T>
constexpr T lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

/// The rows of a window brought together first, column by column: contiguous, and done once for all columns
/// of it.
template <bool kIsMax, typename T>
HWY_ATTR void joinRows(const PoolSizes& s, int64_t od, int64_t oh, const T* x, T* HWY_RESTRICT joined) {
  bool first = true;
  forRows(s, od, oh, [&](int64_t offset) HWY_ATTR {
    const T* HWY_RESTRICT row = x + offset;
    if (first) {
      for (int64_t i = 0; i < s.in[2]; ++i) joined[i] = row[i];
    } else if (kIsMax) {
      for (int64_t i = 0; i < s.in[2]; ++i) joined[i] = larger(row[i], joined[i]);
    } else {
      for (int64_t i = 0; i < s.in[2]; ++i) joined[i] += row[i];
    }
    first = false;
  });
  if (!first) return;
  for (int64_t i = 0; i < s.in[2]; ++i) joined[i] = kIsMax ? lowest<T>() : T{0};
}

/// Brings the columns of the windows together: `count` outputs of joined rows.
template <bool kIsMax, typename T>
HWY_ATTR void joinColumns(const PoolSizes& s, int64_t count, const T* joined, T* HWY_RESTRICT out) {
  if (s.tiles && s.kernel[2] == 2 && s.stride[2] == 2 && s.dilation[2] == 1) {
    for (int64_t i = 0; i < count; ++i) {
      const T a = joined[2 * i], b = joined[2 * i + 1];
      out[i] = kIsMax ? larger(b, a) : a + b;
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = kIsMax ? lowest<T>() : T{0};
  for (PoolSpan span : s.spans) {
    if (s.tiles) span.high = count;
    const T* HWY_RESTRICT x = joined + span.shift;
    forColumns(span, s.stride[2], [&](int64_t i, int64_t at) HWY_ATTR {
      out[i] = kIsMax ? larger(x[at], out[i]) : out[i] + x[at];
    });
  }
}

template <bool kIsMax, typename T>
HWY_ATTR void poolForward(const PoolSizes& s, const PoolPlane<T>& p) {
  const int64_t rows = s.out[0] * s.out[1];
  int64_t row = 0;
  for (int64_t od = 0; od < s.out[0]; ++od) {
    for (int64_t oh = 0; oh < s.out[1]; ++oh, ++row) {
      joinRows<kIsMax>(s, od, oh, p.x, p.rows + row * s.in[2]);
      if (!s.tiles) joinColumns<kIsMax>(s, s.out[2], p.rows + row * s.in[2], p.result + row * s.out[2]);
    }
  }
  if (s.tiles) joinColumns<kIsMax>(s, rows * s.out[2], p.rows, p.result);
  if constexpr (!kIsMax) {
    row = 0;
    for (int64_t od = 0; od < s.out[0]; ++od) {
      for (int64_t oh = 0; oh < s.out[1]; ++oh, ++row) {
        const auto factor = static_cast<T>(forRows(s, od, oh, [](int64_t) HWY_ATTR {}));
        T* out = p.result + row * s.out[2];
        for (int64_t i = 0; i < s.out[2]; ++i) {
          const T count = p.counts[i] * factor;
          out[i] = out[i] / (count > 0 ? count : T{1});
        }
      }
    }
  }
}

/// What each input column gets is the same for all rows of the window: spread along the row once, then added.
template <typename T>
HWY_ATTR void averageGradRow(const PoolSizes& s, int64_t od, int64_t oh, const PoolPlane<T>& p) {
  T* HWY_RESTRICT share = p.rows;
  T* HWY_RESTRICT spread = p.rows + s.out[2];
  const T* dy = p.dy + (od * s.out[1] + oh) * s.out[2];
  const auto factor = static_cast<T>(forRows(s, od, oh, [](int64_t) HWY_ATTR {}));
  for (int64_t i = 0; i < s.out[2]; ++i) {
    const T count = p.counts[i] * factor;
    share[i] = dy[i] / (count > 0 ? count : T{1});
  }
  for (int64_t i = 0; i < s.in[2]; ++i) spread[i] = 0;
  for (const PoolSpan& span : s.spans) {
    T* HWY_RESTRICT to = spread + span.shift;
    forColumns(span, s.stride[2], [&](int64_t i, int64_t at) HWY_ATTR { to[at] += share[i]; });
  }
  forRows(s, od, oh, [&](int64_t offset) HWY_ATTR {
    T* HWY_RESTRICT dx = p.result + offset;
    for (int64_t i = 0; i < s.in[2]; ++i) dx[i] += spread[i];
  });
}

template <typename T>
HWY_ATTR HWY_INLINE bool sameValue(T x, T y) {
  return (x == y) | (scalar::isNan(x) & scalar::isNan(y));
}

/// The two columns of windows 2 wide and 2 apart, a short vector of windows at once; see maxGradRow.
template <typename T>
HWY_ATTR void maxGradPairs(int64_t count, const T* x, const T* y, T* left, T* dx) {
  const hn::CappedTag<T, 4> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> x0, x1, dx0, dx1;
    hn::LoadInterleaved2(d, x + 2 * i, x0, x1);
    hn::LoadInterleaved2(d, dx + 2 * i, dx0, dx1);
    const auto best = hn::LoadU(d, y + i), all = hn::LoadU(d, left + i);
    const auto nan = hn::IsNaN(best);
    const auto same0 = hn::Or(hn::Eq(x0, best), hn::And(hn::IsNaN(x0), nan));
    const auto same1 = hn::Or(hn::Eq(x1, best), hn::And(hn::IsNaN(x1), nan));
    const auto rest = hn::IfThenElse(same0, zero, all);
    dx0 = hn::Add(dx0, hn::IfThenElse(same0, all, zero));
    dx1 = hn::Add(dx1, hn::IfThenElse(same1, rest, zero));
    hn::StoreInterleaved2(dx0, dx1, d, dx + 2 * i);
    hn::StoreU(hn::IfThenElse(same1, zero, rest), d, left + i);
  }
  for (; i < count; ++i) {
    for (int64_t k = 0; k < 2; ++k) {
      if (!sameValue(x[2 * i + k], y[i])) continue;
      dx[2 * i + k] += left[i];
      left[i] = 0;
    }
  }
}

/// `left` is what each output still has to give: its gradient until the first position that equals it, then
/// 0.
template <typename T>
HWY_ATTR void maxGradRow(const PoolSizes& s, int64_t od, int64_t oh, const PoolPlane<T>& p) {
  const int64_t row = od * s.out[1] + oh;
  T* HWY_RESTRICT left = p.rows;
  const T* y = p.y + row * s.out[2];
  const T* dy = p.dy + row * s.out[2];
  for (int64_t i = 0; i < s.out[2]; ++i) left[i] = dy[i];
  const bool pairs =
      s.kernel[2] == 2 && s.stride[2] == 2 && s.dilation[2] == 1 && s.pad[2] == 0 && s.in[2] >= 2 * s.out[2];
  forRows(s, od, oh, [&](int64_t offset) HWY_ATTR {
    if (pairs) return maxGradPairs(s.out[2], p.x + offset, y, left, p.result + offset);
    for (const PoolSpan& span : s.spans) {
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
  if (pass == PoolPass::kMax) return poolForward<true>(s, p);
  if constexpr (std::is_floating_point_v<T>) {
    if (pass == PoolPass::kAverage) return poolForward<false>(s, p);
    const int64_t count = s.in[0] * s.in[1] * s.in[2];
    for (int64_t i = 0; i < count; ++i) p.result[i] = 0;
    for (int64_t od = 0; od < s.out[0]; ++od) {
      for (int64_t oh = 0; oh < s.out[1]; ++oh) {
        if (pass == PoolPass::kMaxGrad) {
          maxGradRow(s, od, oh, p);
        } else {
          averageGradRow(s, od, oh, p);
        }
      }
    }
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

PoolSizes poolSizes(std::array<int64_t, 3> in, std::array<int64_t, 3> out, std::array<int64_t, 3> kernel,
                    std::array<int64_t, 3> stride, std::array<int64_t, 3> pad,
                    std::array<int64_t, 3> dilation) {
  PoolSizes s{in, out, kernel, stride, pad, dilation, {}, in[2] == stride[2] * out[2]};
  for (int64_t k = 0; k < kernel[2]; ++k) {
    const int64_t shift = k * dilation[2] - pad[2], step = stride[2];
    const int64_t first = shift >= 0 ? 0 : (-shift + step - 1) / step;
    const int64_t room = in[2] - 1 - shift;
    const int64_t high = room < 0 ? 0 : std::min(room / step + 1, out[2]);
    s.spans.push_back({std::min(first, high), high, shift});
    // A window that reaches into the next stride would leave the row at its end.
    s.tiles = s.tiles && shift >= 0 && shift < step && high == out[2];
  }
  return s;
}

int64_t poolScratch(PoolPass pass, const PoolSizes& s) {
  const bool isGrad = pass == PoolPass::kMaxGrad || pass == PoolPass::kAverageGrad;
  return isGrad ? s.out[2] + s.in[2] : s.out[0] * s.out[1] * s.in[2];
}

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
