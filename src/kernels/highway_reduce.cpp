// Folding of dense values, for reductions.
#include "kernels/reduce_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/highway_reduce.cpp"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include <cstring>
#include <limits>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/scalar_ops.h"

HWY_BEFORE_NAMESPACE();
namespace popxl::kernels::HWY_NAMESPACE {

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

  static HWY_INLINE T run(T a, T b) {
    if constexpr (kFold == Fold::kSum) {
      if constexpr (kFloat) {
        return a + b;
      } else {
        return scalar::wrapAdd(a, b);
      }
    } else if constexpr (kFold == Fold::kProd) {
      if constexpr (kFloat) {
        return a * b;
      } else {
        return scalar::wrapMul(a, b);
      }
    } else if constexpr (kFold == Fold::kMax) {
      return (b > a) | scalar::isNan(b) ? b : a;
    } else {
      return (b < a) | scalar::isNan(b) ? b : a;
    }
  }
};

template <Fold kFold, class T>
struct Code {
  using O = Op<kFold, T>;
  static constexpr int64_t kLanes = kLaneBytes / static_cast<int64_t>(sizeof(T));

  static void fill(std::byte* out, int64_t n) {
    T* to = reinterpret_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = O::neutral();
  }

  static void row(const std::byte* values, int64_t n, std::byte* lanes, int64_t first) {
    const T* HWY_RESTRICT x = reinterpret_cast<const T*>(values);
    T* HWY_RESTRICT to = reinterpret_cast<T*>(lanes);
    int64_t i = 0;
    int64_t lane = first % kLanes;
    for (; lane != 0 && i < n; ++i, lane = (lane + 1) % kLanes) to[lane] = O::run(to[lane], x[i]);
    if (n - i >= kLanes) {
      T sums[kLanes];
      std::memcpy(sums, to, sizeof(sums));
      for (; i + kLanes <= n; i += kLanes) {
        for (int64_t j = 0; j < kLanes; ++j) sums[j] = O::run(sums[j], x[i + j]);
      }
      std::memcpy(to, sums, sizeof(sums));
    }
    const int64_t rest = n - i;
    for (int64_t j = 0; j < rest; ++j) to[j] = O::run(to[j], x[i + j]);
  }

  static void lanes(std::byte* lanes, std::byte* out) {
    T* x = reinterpret_cast<T*>(lanes);
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
#pragma GCC ivdep
      for (int64_t j = 0; j < half; ++j) x[j] = O::run(x[j], x[j + half]);
    }
    std::memcpy(out, x, sizeof(T));
  }

  static void shortRows(const std::byte* values, int64_t rows, int64_t length, std::byte* out,
                        int64_t outStride) {
    const T* HWY_RESTRICT x = reinterpret_cast<const T*>(values);
    T* HWY_RESTRICT to = reinterpret_cast<T*>(out);
    for (int64_t r = 0; r < rows; ++r, x += length) {
      T sum = x[0];
      for (int64_t j = 1; j < length; ++j) sum = O::run(sum, x[j]);
      to[r * outStride] = sum;
    }
  }

  static void column(const std::byte* values, int64_t n, std::byte* sums) {
    const T* HWY_RESTRICT x = reinterpret_cast<const T*>(values);
    T* HWY_RESTRICT to = reinterpret_cast<T*>(sums);
    for (int64_t i = 0; i < n; ++i) to[i] = O::run(to[i], x[i]);
  }

  static constexpr FoldOps kOps = {fill, row, lanes, shortRows, column};
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
