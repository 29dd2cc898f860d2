// Folding of dense values, for reductions.
#include "kernels/reduce_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway_reduce.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include <cstring>
#include <limits>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/rows_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <Fold kFold, class T>
struct Op {
  static constexpr bool kFloat = std::is_floating_point_v<T>;
  using Limits = std::numeric_limits<T>;

  static constexpr T neutral() {
    switch (kFold) {
      case Fold::kSum:
        return T{0};
      case Fold::kProd:
        return T{1};
      case Fold::kMax:
        return kFloat ? -Limits::infinity() : Limits::lowest();
      case Fold::kMin:
        break;
    }
    return kFloat ? Limits::infinity() : Limits::max();
  }

  template <class V>
  static HWY_INLINE V run(V a, V b) {
    if constexpr (kFold == Fold::kSum) {
      return hn::Add(a, b);
    } else if constexpr (kFold == Fold::kProd) {
      return hn::Mul(a, b);
    } else if constexpr (kFloat) {
      const auto further = kFold == Fold::kMax ? hn::Lt(a, b) : hn::Lt(b, a);
      return hn::IfThenElse(hn::Or(further, hn::IsNaN(b)), b, a);
    } else {
      return kFold == Fold::kMax ? hn::Max(a, b) : hn::Min(a, b);
    }
  }
};

template <Fold kFold, class T>
struct Code {
  using O = Op<kFold, T>;
  static constexpr int64_t kLanes = kLaneBytes / static_cast<int64_t>(sizeof(T));
  using D = hn::CappedTag<T, kLanes>;
  static constexpr int64_t kVectorLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  static constexpr int64_t kVectors = kLanes / kVectorLanes;

  /// All lanes, in registers.
  struct Sums {
    hn::Vec<D> v[kVectors];
  };

  static HWY_INLINE Sums load(const T* lanes) {
    Sums sums;
    for (int64_t j = 0; j < kVectors; ++j) sums.v[j] = hn::LoadU(D(), lanes + j * kVectorLanes);
    return sums;
  }

  /// Element i of x to lane i modulo kLanes.
  static HWY_INLINE void add(Sums& sums, const T* x, int64_t n) {
    const D d;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t j = 0; j < kVectors; ++j) {
        sums.v[j] = O::run(sums.v[j], hn::LoadU(d, x + i + j * kVectorLanes));
      }
    }
    const auto neutral = hn::Set(d, O::neutral());
    for (int64_t j = 0; j < kVectors && i < n; ++j, i += kVectorLanes) {
      sums.v[j] = O::run(sums.v[j], simd::HWY_NAMESPACE::loadTail(d, x + i, n - i, neutral));
    }
  }

  /// The lanes of one vector.
  template <class DV>
  static HWY_INLINE T halve(DV d, hn::Vec<DV> v) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (hn::MaxLanes(DV()) > 1) {
      const hn::Half<DV> half;
      return halve(half, O::run(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    }
#endif
    (void)d;
    return hn::GetLane(v);
  }

  static HWY_INLINE T combine(Sums sums) {
    for (int64_t half = kVectors / 2; half > 0; half /= 2) {
      for (int64_t j = 0; j < half; ++j) sums.v[j] = O::run(sums.v[j], sums.v[j + half]);
    }
    return halve(D(), sums.v[0]);
  }

  static HWY_INLINE T runOne(T a, T b) {
    const hn::CappedTag<T, 1> d;
    return hn::GetLane(O::run(hn::Set(d, a), hn::Set(d, b)));
  }

  static void fill(std::byte* out, int64_t n) {
    T* to = reinterpret_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = O::neutral();
  }

  static void row(const std::byte* values, int64_t n, std::byte* lanes, int64_t first) {
    const T* x = reinterpret_cast<const T*>(values);
    T* to = reinterpret_cast<T*>(lanes);
    int64_t i = 0;
    for (int64_t lane = first % kLanes; lane != 0 && i < n; ++i, lane = (lane + 1) % kLanes) {
      to[lane] = runOne(to[lane], x[i]);
    }
    Sums sums = load(to);
    add(sums, x + i, n - i);
    for (int64_t j = 0; j < kVectors; ++j) hn::StoreU(sums.v[j], D(), to + j * kVectorLanes);
  }

  static void lanes(const std::byte* lanes, std::byte* out) {
    const T result = combine(load(reinterpret_cast<const T*>(lanes)));
    std::memcpy(out, &result, sizeof(T));
  }

  static void rows(const std::byte* values, int64_t rows, int64_t length, std::byte* out) {
    const T* x = reinterpret_cast<const T*>(values);
    T* to = reinterpret_cast<T*>(out);
    Sums neutral;
    for (auto& v : neutral.v) v = hn::Set(D(), O::neutral());
    for (int64_t r = 0; r < rows; ++r, x += length) {
      Sums sums = neutral;
      add(sums, x, length);
      to[r] = combine(sums);
    }
  }

  static void shortRows(const std::byte* values, int64_t rows, int64_t length, std::byte* out,
                        int64_t outStride) {
    const T* HWY_RESTRICT x = reinterpret_cast<const T*>(values);
    T* HWY_RESTRICT to = reinterpret_cast<T*>(out);
    for (int64_t r = 0; r < rows; ++r, x += length) {
      T sum = x[0];
      for (int64_t j = 1; j < length; ++j) sum = runOne(sum, x[j]);
      to[r * outStride] = sum;
    }
  }

  static void columns(const std::byte* values, int64_t rows, int64_t n, std::byte* sums) {
    const D d;
    const T* x = reinterpret_cast<const T*>(values);
    T* to = reinterpret_cast<T*>(sums);
    int64_t i = 0;
    for (; i + kVectorLanes <= n; i += kVectorLanes) {
      auto sum = hn::LoadU(d, to + i);
      for (int64_t r = 0; r < rows; ++r) sum = O::run(sum, hn::LoadU(d, x + r * n + i));
      hn::StoreU(sum, d, to + i);
    }
    for (; i < n; ++i) {
      for (int64_t r = 0; r < rows; ++r) to[i] = runOne(to[i], x[r * n + i]);
    }
  }

  static constexpr FoldOps kOps = {fill, row, lanes, rows, shortRows, columns};
};

template <Fold kFold>
const FoldOps* findForType(VType type) {
  switch (type) {
    case VType::kF32:
      return &Code<kFold, float>::kOps;
    case VType::kF64:
      return &Code<kFold, double>::kOps;
    case VType::kI32:
      return &Code<kFold, int32_t>::kOps;
    case VType::kU32:
      return &Code<kFold, uint32_t>::kOps;
    case VType::kI64:
      return &Code<kFold, int64_t>::kOps;
    case VType::kU64:
      break;
  }
  return &Code<kFold, uint64_t>::kOps;
}

const FoldOps* findFold(Fold fold, VType type) {
  switch (fold) {
    case Fold::kSum:
      return findForType<Fold::kSum>(type);
    case Fold::kProd:
      return findForType<Fold::kProd>(type);
    case Fold::kMax:
      return findForType<Fold::kMax>(type);
    case Fold::kMin:
      break;
  }
  return findForType<Fold::kMin>(type);
}

}  // namespace popxl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popxl::kernels {
HWY_EXPORT(findFold);
const FoldOps& foldOps(Fold fold, VType type) { return *HWY_DYNAMIC_DISPATCH(findFold)(fold, type); }
}  // namespace popxl::kernels
#endif
