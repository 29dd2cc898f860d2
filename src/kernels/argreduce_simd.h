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

}  // namespace popxl::kernels::simd
