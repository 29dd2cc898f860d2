#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace popxl::kernels::scalar {

/// Of any type, and without a branch, so that loops over it vectorise.
template <class T>
constexpr bool isNan(T value) {
  return value != value;  // NOLINT(misc-redundant-expression): only a NaN differs from itself
}

// The exact primitives on one number, for constant folding and for the parts of the tile code without SIMD.

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
constexpr T wrapAdd(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <class T>
constexpr T wrapSub(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
}
template <class T>
constexpr T wrapMul(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
}
template <class T>
constexpr T wrapNeg(T a) {
  return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
}

template <class T>
constexpr T divide(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return wrapNeg(a);
  }
  return a / b;
}

template <class T>
constexpr T modulo(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return a % b;
}

template <class T>
constexpr T power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  T result = 1;
  for (auto n = static_cast<Unsigned<T>>(exponent); n != 0; n >>= 1) {
    if ((n & 1) != 0) result = wrapMul(result, base);
    base = wrapMul(base, base);
  }
  return result;
}

template <class T>
constexpr T shiftLeft(T a, T b) {
  return b < std::numeric_limits<T>::digits ? static_cast<T>(a << b) : T{0};
}
template <class T>
constexpr T shiftRight(T a, T b) {
  return b < std::numeric_limits<T>::digits ? static_cast<T>(a >> b) : T{0};
}

/// As C converts, but float to integer saturates and NaN gives 0. Written without branches around the
/// conversion, so that loops over it vectorise.
template <class To, class From>
constexpr To convert(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    constexpr From kLow = static_cast<From>(Limits::min());
    // 2^digits: the first value above the range; exact in any float type.
    constexpr From kEnd = static_cast<From>(To{1} << (Limits::digits - 1)) * From{2};
    const From number = isNan(value) ? From{0} : value;
    const From above = number > kLow ? number : kLow;
    const From inside = above < kEnd ? above : From{0};
    const To converted = static_cast<To>(inside);
    return number < kEnd ? converted : Limits::max();
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace popxl::kernels::scalar
