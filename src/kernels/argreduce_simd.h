#pragma once

#include <cstdint>

namespace popxl::kernels::simd {

/// The position of the first of the largest elements (the smallest ones), or of the first NaN; n >= 1.
template <typename C>
int64_t firstExtreme(const C* x, int64_t n, bool largest);
template <>
int64_t firstExtreme<float>(const float* x, int64_t n, bool largest);
template <>
int64_t firstExtreme<double>(const double* x, int64_t n, bool largest);

/// The position of the element that is the k-th in ascending order, from 0, equal ones by position; k < n.
int64_t nthSmallest(const int32_t* x, int64_t n, int64_t k);

}  // namespace popxl::kernels::simd
