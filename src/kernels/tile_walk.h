#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace popxl::kernels {

/// One operand seen along the row-major positions of a space: its own dimensions, merged where its strides
/// allow.
class Walk {
 public:
  Walk() = default;
  /// `strides` (elements) has one entry a dimension of `dims`.
  Walk(std::span<const int64_t> dims, std::span<const int64_t> strides);

  /// Positions i = 0, 1, ... lie at element i.
  bool isContiguous() const { return sizes_.empty() || (sizes_.size() == 1 && strides_[0] == 1); }
  /// Every position is the same element.
  bool isUniform() const { return sizes_.empty() || (sizes_.size() == 1 && strides_[0] == 0); }
  /// Size of the innermost merged dimension.
  int64_t inner() const { return sizes_.empty() ? 1 : sizes_.back(); }
  /// p when the operand repeats itself every p positions, p elements side by side; 0 otherwise.
  int64_t period() const {
    return sizes_.size() == 2 && strides_[0] == 0 && strides_[1] == 1 ? sizes_[1] : 0;
  }
  /// Highest element that is touched, and lowest (strides may be negative).
  int64_t highest() const;
  int64_t lowest() const;

  /// Calls f(element, stride, count) for runs of equal stride that cover positions [start, start + n) in
  /// order.
  template <class F>
  void forRuns(int64_t start, int64_t n, const F& f) const;

 private:
  static constexpr size_t kMaxDims = 16;
  std::vector<int64_t> sizes_, strides_;
};

template <class F>
void Walk::forRuns(int64_t start, int64_t n, const F& f) const {
  const size_t rank = sizes_.size();
  if (rank <= 1) {
    const int64_t stride = rank == 0 ? 0 : strides_[0];
    f(start * stride, stride, n);
    return;
  }
  std::array<int64_t, kMaxDims> at;
  int64_t element = 0;
  int64_t rest = start;
  for (size_t i = rank; i-- > 1;) {
    const int64_t outer = rest / sizes_[i];
    at[i] = rest - outer * sizes_[i];
    element += at[i] * strides_[i];
    rest = outer;
  }
  at[0] = rest;
  element += rest * strides_[0];
  const size_t last = rank - 1;
  while (true) {
    const int64_t count = std::min(n, sizes_[last] - at[last]);
    f(element, strides_[last], count);
    n -= count;
    if (n == 0) return;
    element -= at[last] * strides_[last];
    at[last] = 0;
    for (size_t i = last; i-- > 0;) {
      element += strides_[i];
      if (++at[i] < sizes_[i] || i == 0) break;
      element -= at[i] * strides_[i];
      at[i] = 0;
    }
  }
}

}  // namespace popxl::kernels
