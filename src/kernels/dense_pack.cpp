#include "kernels/dense_pack.h"

#include <array>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/half.h"
#include "kernels/dense_simd.h"

namespace popxl::kernels::dense {
namespace {

const std::array<float, 256>& float8Table(DType t) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 2> all;
    for (int i = 0; i < 256; ++i) {
      all[0][static_cast<size_t>(i)] = float8ToFloat(static_cast<uint8_t>(i), DType::kFloat8_143);
      all[1][static_cast<size_t>(i)] = float8ToFloat(static_cast<uint8_t>(i), DType::kFloat8_152);
    }
    return all;
  }();
  return tables[t == DType::kFloat8_143 ? 0 : 1];
}

template <typename S, typename T, typename Convert>
void loadRows(const Matrix& from, T* to, const Convert& convert) {
  const S* base = reinterpret_cast<const S*>(from.data);
  for (int64_t i = 0; i < from.rows; ++i) {
    const S* row = base + i * from.rowStride;
    T* out = to + i * from.cols;
    if (from.colStride == 1) {
      for (int64_t j = 0; j < from.cols; ++j) out[j] = convert(row[j]);
    } else {
      for (int64_t j = 0; j < from.cols; ++j) out[j] = convert(row[j * from.colStride]);
    }
  }
}

template <typename T, typename D, typename Convert>
void storeRows(const T* from, int64_t stride, const Matrix& to, const Convert& convert) {
  D* base = reinterpret_cast<D*>(to.data);
  for (int64_t i = 0; i < to.rows; ++i) {
    D* row = base + i * to.rowStride;
    const T* in = from + i * stride;
    if (to.colStride == 1) {
      for (int64_t j = 0; j < to.cols; ++j) row[j] = convert(in[j]);
    } else {
      for (int64_t j = 0; j < to.cols; ++j) row[j * to.colStride] = convert(in[j]);
    }
  }
}

void loadHalf(const Matrix& from, float* to) {
  if (from.colStride != 1) return loadRows<uint16_t>(from, to, [](uint16_t v) { return halfToFloat(v); });
  for (int64_t i = 0; i < from.rows; ++i) {
    simd::halfToFloat(reinterpret_cast<const uint16_t*>(from.data) + i * from.rowStride, to + i * from.cols,
                      from.cols);
  }
}

void storeHalf(const float* from, int64_t stride, float scale, const Matrix& to) {
  if (to.colStride != 1) {
    return storeRows<float, uint16_t>(from, stride, to, [scale](float v) { return floatToHalf(v * scale); });
  }
  for (int64_t i = 0; i < to.rows; ++i) {
    simd::floatToHalf(from + i * stride, scale, reinterpret_cast<uint16_t*>(to.data) + i * to.rowStride,
                      to.cols);
  }
}

/// Calls fn(S{}) with the memory type of an integer dtype.
template <typename Fn>
void withInteger(DType t, const Fn& fn) {
  switch (t) {
    case DType::kInt8:
      return fn(int8_t{});
    case DType::kInt16:
      return fn(int16_t{});
    case DType::kInt32:
      return fn(int32_t{});
    case DType::kInt64:
      return fn(int64_t{});
    case DType::kUInt8:
      return fn(uint8_t{});
    case DType::kUInt16:
      return fn(uint16_t{});
    case DType::kUInt32:
      return fn(uint32_t{});
    case DType::kUInt64:
      return fn(uint64_t{});
    default:
      POPXL_ASSERT(false, "dtype {}", nameOf(t));
  }
}

/// Calls fn(matrix, dense offset) for every matrix of the last two dimensions.
template <typename Fn>
void forMatrices(const Layout& layout, std::byte* data, const Fn& fn) {
  const int64_t rank = layout.rank();
  const auto dim = [&](int64_t fromEnd) {
    return rank >= fromEnd ? layout.shape[static_cast<size_t>(rank - fromEnd)] : 1;
  };
  const auto step = [&](int64_t fromEnd) {
    return rank >= fromEnd ? layout.strides[static_cast<size_t>(rank - fromEnd)] : 1;
  };
  const int64_t matrix = dim(2) * dim(1);
  if (layout.numElements() == 0) return;
  const int64_t count = layout.numElements() / matrix;
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, offset = 0;
    for (int64_t d = rank - 3; d >= 0; --d) {
      const auto at = static_cast<size_t>(d);
      offset += rest % layout.shape[at] * layout.strides[at];
      rest /= layout.shape[at];
    }
    fn(Matrix{data + offset * sizeOf(layout.dtype), layout.dtype, dim(2), dim(1), step(2), step(1)},
       index * matrix);
  }
}

}  // namespace

Compute computeOf(DType t, const char* what) {
  if (t == DType::kFloat64) return Compute::kF64;
  if (isFloat(t)) return Compute::kF32;
  if (isInt(t)) return sizeOf(t) == 8 ? Compute::kU64 : Compute::kU32;
  fail(ErrorKind::kType, "{}: dtype {} is not supported; expected a float or integer type; cast the operands",
       what, nameOf(t));
}

bool isComputeType(DType t) {
  return t == DType::kFloat32 || t == DType::kFloat64 || (isInt(t) && sizeOf(t) >= 4);
}

template <typename T>
void load(const Matrix& from, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.dtype == DType::kFloat16) return loadHalf(from, to);
    if (from.dtype == DType::kFloat32) return loadRows<float>(from, to, [](float v) { return v; });
    const auto& table = float8Table(from.dtype);
    loadRows<uint8_t>(from, to, [&](uint8_t v) { return table[v]; });
  } else if constexpr (std::is_same_v<T, double>) {
    loadRows<double>(from, to, [](double v) { return v; });
  } else {
    withInteger(from.dtype, [&](auto s) {
      using S = decltype(s);
      loadRows<S>(from, to, [](S v) { return static_cast<T>(v); });
    });
  }
}

template <typename T>
void store(const T* from, int64_t stride, T scale, const Matrix& to) {
  if constexpr (std::is_same_v<T, float>) {
    if (to.dtype == DType::kFloat16) return storeHalf(from, stride, scale, to);
    storeRows<T, float>(from, stride, to, [scale](float v) { return v * scale; });
  } else if constexpr (std::is_same_v<T, double>) {
    storeRows<T, double>(from, stride, to, [scale](double v) { return v * scale; });
  } else {
    withInteger(to.dtype, [&](auto s) {
      using S = decltype(s);
      storeRows<T, S>(from, stride, to, [](T v) { return static_cast<S>(v); });
    });
  }
}

template <typename T>
void loadTensor(const Layout& layout, const std::byte* data, T* to) {
  forMatrices(layout, const_cast<std::byte*>(data), [&](const Matrix& m, int64_t at) { load(m, to + at); });
}

template <typename T>
void storeTensor(const T* from, T scale, const Layout& layout, std::byte* data) {
  forMatrices(layout, data, [&](const Matrix& m, int64_t at) { store(from + at, m.cols, scale, m); });
}

#define POPXL_INSTANTIATE(T)                                        \
  template void load<T>(const Matrix&, T*);                         \
  template void store<T>(const T*, int64_t, T, const Matrix&);      \
  template void loadTensor<T>(const Layout&, const std::byte*, T*); \
  template void storeTensor<T>(const T*, T, const Layout&, std::byte*);
POPXL_INSTANTIATE(float)
POPXL_INSTANTIATE(double)
POPXL_INSTANTIATE(uint32_t)
POPXL_INSTANTIATE(uint64_t)
#undef POPXL_INSTANTIATE

}  // namespace popxl::kernels::dense
