#include "ops/window.h"

#include <algorithm>

namespace popxl::ops {

namespace {

/// The attribute with one entry for each of n places; a list of `trivial` alone may have any length.
std::vector<int64_t> list(const Op& op, std::string_view attr, size_t n, int64_t trivial) {
  std::vector<int64_t> values = op.attrOr<std::vector<int64_t>>(attr, {});
  if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == trivial; }))
    values.assign(n, trivial);
  if (values.size() != n) {
    fail(ErrorKind::kValue, "`{}` is {}; it must have {} entries", attr, toString(values), n);
  }
  return values;
}

void requirePositive(std::string_view name, const std::vector<int64_t>& values) {
  if (std::all_of(values.begin(), values.end(), [](int64_t v) { return v > 0; })) return;
  fail(ErrorKind::kValue, "`{}` is {}; every entry must be positive", name, toString(values));
}

/// Padding so that there are ceil(size / stride) positions.
void padToSame(Window& w, const Shape& spatial, bool moreAtEnd) {
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t positions = (spatial[i] + w.strides[i] - 1) / w.strides[i];
    const int64_t span = (positions - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    const int64_t pad = std::max<int64_t>(span - spatial[i], 0);
    w.padsBegin[i] = moreAtEnd ? pad / 2 : pad - pad / 2;
    w.padsEnd[i] = pad - w.padsBegin[i];
  }
}

}  // namespace

Window windowOf(const Op& op, const Shape& spatial, std::vector<int64_t> kernel, std::string_view padType) {
  const size_t n = spatial.size();
  Window w;
  w.kernel = std::move(kernel);
  if (w.kernel.size() != n) {
    fail(ErrorKind::kValue, "the kernel size {} must have {} entries, one for each spatial dimension",
         toString(w.kernel), n);
  }
  w.strides = list(op, "stride", n, 1);
  w.dilations = list(op, "dilation", n, 1);
  const std::vector<int64_t> pads = list(op, "padding", 2 * n, 0);
  requirePositive("kernel size", w.kernel);
  requirePositive("stride", w.strides);
  requirePositive("dilation", w.dilations);
  w.padsBegin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  w.padsEnd.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  const auto& type = op.attr<std::string>(padType);
  if (type == "valid") {
    w.padsBegin.assign(n, 0);
    w.padsEnd.assign(n, 0);
  } else if (type == "same_upper" || type == "same_lower") {
    padToSame(w, spatial, type == "same_upper");
  } else if (type != "not_set") {
    fail(ErrorKind::kValue,
         "`{}` is \"{}\"; it must be \"not_set\", \"same_upper\", \"same_lower\" or \"valid\"", padType,
         type);
  }
  return w;
}

std::vector<int64_t> Window::positions(const Shape& spatial) const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t padded = spatial[i] + padsBegin[i] + padsEnd[i];
    const int64_t span = (kernel[i] - 1) * dilations[i] + 1;
    if (padded < span) {
      fail(ErrorKind::kGraph,
           "the window of {} elements does not fit into the {} elements of spatial dimension {}, "
           "padding included",
           span, padded, i);
    }
    int64_t n = (padded - span) / strides[i] + 1;
    // The last window may hang over the end, but must begin inside the input or the padding before it.
    if (ceil && (padded - span) % strides[i] != 0 && n * strides[i] < spatial[i] + padsBegin[i]) ++n;
    out.push_back(n);
  }
  return out;
}

}  // namespace popxl::ops
