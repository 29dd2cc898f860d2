#include "kernels/rows.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "kernels/copy.h"

namespace popxl::kernels {
namespace {

template <typename T>
double toDouble(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    return halfToFloat(value.bits);
  } else {
    return static_cast<double>(value);
  }
}

template <typename T>
T fromDouble(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half{floatToHalf(static_cast<float>(value))};
  } else if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) return 0;
    // The upper bound as a double may be one beyond the type's largest value.
    if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
int64_t toIndex(T value) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    return value > static_cast<uint64_t>(INT64_MAX) ? kBadIndex : static_cast<int64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    const double number = toDouble(value);
    return std::fabs(number) < 0x1p62 && number == std::trunc(number) ? static_cast<int64_t>(number)
                                                                      : kBadIndex;
  }
}

/// Runs a kernel for contiguous layouts with scratch copies of the operands whose layouts are not.
class ContiguousKernel : public Kernel {
 public:
  ContiguousKernel(const std::vector<Layout>& layouts, size_t numIns, const MakeContiguous& make)
      : numIns_(numIns), plans_(layouts.size()), offsets_(layouts.size(), -1) {
    std::vector<Layout> dense;
    for (const Layout& layout : layouts) dense.emplace_back(layout.dtype, layout.shape);
    inner_ = make(dense);
    scratch_ = lines(inner_->scratchBytes());
    for (size_t i = 0; i < layouts.size(); ++i) {
      if (layouts[i].isContiguous()) continue;
      plans_[i] = i < numIns ? CopyPlan(layouts[i], dense[i]) : CopyPlan(dense[i], layouts[i]);
      offsets_[i] = scratch_;
      scratch_ += lines(dense[i].bytes());
    }
  }

  void run(std::span<std::byte* const> operands) const override {
    std::byte* const scratch = operands[plans_.size()];
    std::array<std::byte*, kMaxOperands> dense;
    for (size_t i = 0; i < plans_.size(); ++i) {
      dense[i] = offsets_[i] < 0 ? operands[i] : scratch + offsets_[i];
      if (offsets_[i] >= 0 && i < numIns_) plans_[i].run(operands[i], dense[i]);
    }
    dense[plans_.size()] = scratch;
    inner_->run(std::span(dense.data(), plans_.size() + 1));
    for (size_t i = numIns_; i < plans_.size(); ++i) {
      if (offsets_[i] >= 0) plans_[i].run(dense[i], operands[i]);
    }
  }

  int64_t scratchBytes() const override { return scratch_; }
  double flops() const override { return inner_->flops(); }
  std::string describe() const override { return inner_->describe() + " (strided operands)"; }

  static constexpr size_t kMaxOperands = 16;

 private:
  KernelPtr inner_;
  size_t numIns_;
  std::vector<CopyPlan> plans_;
  std::vector<int64_t> offsets_;  // of the dense copy in scratch, -1 without one
  int64_t scratch_ = 0;
};

}  // namespace

double readNumber(DType dtype, const std::byte* base, int64_t i) {
  return dispatchNumber(dtype, [&]<typename T>(std::type_identity<T>) {
    return toDouble(reinterpret_cast<const T*>(base)[i]);
  });
}

void writeNumber(DType dtype, std::byte* base, int64_t i, double value) {
  if (dtype == DType::kBool) value = value != 0 ? 1 : 0;
  dispatchNumber(dtype, [&]<typename T>(std::type_identity<T>) {
    reinterpret_cast<T*>(base)[i] = fromDouble<T>(value);
  });
}

void readIndices(DType dtype, const std::byte* base, int64_t first, int64_t n, int64_t* out) {
  dispatchNumber(dtype, [&]<typename T>(std::type_identity<T>) {
    const T* values = reinterpret_cast<const T*>(base) + first;
    for (int64_t i = 0; i < n; ++i) out[i] = toIndex(values[i]);
  });
}

template <typename C>
void convertToCompute(DType dtype, const std::byte* src, int64_t n, C* out) {
  dispatchFloat(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, Half> && std::is_same_v<C, float>) {
      simd::moveOps().halfToFloat(reinterpret_cast<const uint16_t*>(src), reinterpret_cast<float*>(out), n);
    } else {
      const T* values = reinterpret_cast<const T*>(src);
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<C>(toDouble(values[i]));
    }
  });
}
template void convertToCompute<float>(DType, const std::byte*, int64_t, float*);
template void convertToCompute<double>(DType, const std::byte*, int64_t, double*);

template <typename C>
void convertFromCompute(DType dtype, const C* src, int64_t n, std::byte* out) {
  dispatchFloat(dtype, [&]<typename T>(std::type_identity<T>) {
    T* values = reinterpret_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) values[i] = fromDouble<T>(static_cast<double>(src[i]));
  });
}
template void convertFromCompute<float>(DType, const float*, int64_t, std::byte*);
template void convertFromCompute<double>(DType, const double*, int64_t, std::byte*);

RowChunks::RowChunks(int64_t numRows, int64_t cost, int64_t limit) : rows(numRows) {
  cost = std::max<int64_t>(cost, 1);
  perChunk = std::max<int64_t>(rows, 1);
  if (rows * cost > kSerialElements) {
    perChunk = std::max<int64_t>({1, kSerialElements / 2 / cost, (rows + limit - 1) / limit});
  }
  chunks = (rows + perChunk - 1) / perChunk;
}

KernelPtr withContiguous(const std::vector<Layout>& ins, const std::vector<Layout>& outs,
                         const MakeContiguous& make) {
  std::vector<Layout> layouts = ins;
  layouts.insert(layouts.end(), outs.begin(), outs.end());
  POPXL_ASSERT(layouts.size() < ContiguousKernel::kMaxOperands, "{} operands", layouts.size());
  const auto dense = [](const Layout& layout) { return layout.isContiguous(); };
  if (std::all_of(layouts.begin(), layouts.end(), dense)) return make(layouts);
  return std::make_unique<ContiguousKernel>(layouts, ins.size(), make);
}

Layout axisLast(const Layout& layout, int64_t axis) {
  POPXL_ASSERT(axis >= 0 && axis < layout.rank(), "axis {} of shape {}", axis, toString(layout.shape));
  Layout out = layout;
  std::rotate(out.shape.begin() + axis, out.shape.begin() + axis + 1, out.shape.end());
  std::rotate(out.strides.begin() + axis, out.strides.begin() + axis + 1, out.strides.end());
  return out;
}

}  // namespace popxl::kernels
