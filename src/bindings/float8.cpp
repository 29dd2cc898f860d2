#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <bit>
#include <cfloat>
#include <cmath>

#include "base/half.h"
#include "bindings/convert.h"
#include "bindings/module.h"

namespace popxl::bindings {
namespace {

/// A float whose rounding to any shorter format is that of the double: rounds to odd, and keeps finite values
/// finite.
float shorten(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(value) || static_cast<double>(nearest) == value) return nearest;
  if (std::isinf(nearest)) return std::copysign(FLT_MAX, nearest);
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest) - (away ? 1 : 0);
  return std::bit_cast<float>(bits | 1);
}

nb::object toFloat8(const nb::ndarray<const double, nb::c_contig, nb::ndim<1>, nb::device::cpu>& source,
                    nb::handle format, int log2Scale, bool nanOnOverflow) {
  const DType type = toDType(format);
  auto out = ir::HostData::allocate(static_cast<int64_t>(source.size()));
  for (size_t i = 0; i < source.size(); ++i) {
    const float value = shorten(std::ldexp(source.data()[i], log2Scale));
    out->bytes[i] = std::byte{floatToFloat8(value, type, nanOnOverflow)};
  }
  return viewBytes(std::move(out));
}

nb::list float8Values(nb::handle format) {
  const DType type = toDType(format);
  nb::list values;
  for (int bits = 0; bits < 256; ++bits) values.append(float8ToFloat(static_cast<uint8_t>(bits), type));
  return values;
}

}  // namespace

void bindFloat8(nb::module_& m) {
  m.def("to_float8", &toFloat8, nb::arg("source"), nb::arg("format"), nb::arg("log2_scale"),
        nb::arg("nan_on_overflow"),
        "Bytes of source * 2**log2_scale in a float8 format, rounded once, to nearest even.");
  m.def("float8_values", &float8Values, nb::arg("format"),
        "The 256 values of a float8 format, by their bits.");
}

}  // namespace popxl::bindings
