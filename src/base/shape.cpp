#include "base/shape.h"

#include <algorithm>

#include "base/error.h"

namespace popxl {

int64_t numElements(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

Strides contiguousStrides(std::span<const int64_t> shape) {
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

Strides channelsLastStrides(std::span<const int64_t> shape) {
  Strides strides(shape.size());
  int64_t step = shape[1];
  strides[1] = 1;
  for (size_t i = shape.size(); i-- > 2;) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  strides[0] = step;
  return strides;
}

std::string toString(std::span<const int64_t> shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  if (shape.size() == 1) out += ",";
  return out + ")";
}

bool broadcastShapes(std::span<const int64_t> a, std::span<const int64_t> b, Shape& out) {
  const size_t rank = std::max(a.size(), b.size());
  out.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t da = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t db = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (da != db && da != 1 && db != 1) return false;
    out[i] = da == 1 ? db : da;
  }
  return true;
}

Strides broadcastStrides(std::span<const int64_t> shape, std::span<const int64_t> strides,
                         std::span<const int64_t> to) {
  POPXL_ASSERT(shape.size() <= to.size(), "shape {} to {}", toString(shape), toString(to));
  Strides out(to.size(), 0);
  const size_t lead = to.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == to[lead + i]) {
      out[lead + i] = shape[i] == 1 ? 0 : strides[i];
    } else {
      POPXL_ASSERT(shape[i] == 1, "shape {} to {}", toString(shape), toString(to));
    }
  }
  return out;
}

int64_t normalizeAxis(int64_t axis, int64_t rank, const char* what) {
  if (axis < -rank || axis >= rank) {
    fail(ErrorKind::kValue, "{} {} is out of range for a tensor of rank {}; use a value in [{}, {})", what,
         axis, rank, -rank, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

bool Layout::isContiguous() const {
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool Layout::isChannelsLast() const {
  if (rank() < 2) return false;
  const Strides wanted = channelsLastStrides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && strides[i] != wanted[i]) return numElements() == 0;
  }
  return true;
}

}  // namespace popxl
