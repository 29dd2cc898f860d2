#include "ir/reference.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace popxl::ir {

namespace {

/// The integer next to `x` towards 0; the nearest that T has; 0 for NaN.
template <typename T>
uint64_t truncated(double x) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(x)) return 0;
  if (x >= std::ldexp(1.0, Limits::digits)) return static_cast<uint64_t>(Limits::max());
  if (x <= static_cast<double>(Limits::min()))
    return static_cast<uint64_t>(static_cast<int64_t>(Limits::min()));
  return static_cast<uint64_t>(static_cast<T>(x));
}

uint64_t truncatedTo(DType dtype, double x) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
      return truncated<int32_t>(x);
    case DType::kInt64:
      return truncated<int64_t>(x);
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
      return truncated<uint32_t>(x);
    default:
      return truncated<uint64_t>(x);
  }
}

}  // namespace

Number::Kind Number::kindOf(DType dtype) {
  if (popxl::isFloat(dtype)) return Kind::kFloat;
  return isSigned(dtype) ? Kind::kSigned : Kind::kUnsigned;
}

Number::Number(DType dtype, const Element& element) : kind_(kindOf(dtype)), element_(element) {}

double Number::real() const {
  if (kind_ == Kind::kFloat) return element_.number;
  return kind_ == Kind::kUnsigned ? static_cast<double>(element_.integer)
                                  : static_cast<double>(static_cast<int64_t>(element_.integer));
}

int64_t Number::integer() const {
  return static_cast<int64_t>(isFloat() ? truncated<int64_t>(element_.number) : element_.integer);
}

Number Number::to(DType dtype) const {
  Element element{real(), element_.integer};
  if (isFloat()) {
    element.integer =
        dtype == DType::kBool ? uint64_t{element.number != 0} : truncatedTo(dtype, element.number);
  }
  std::byte memory[sizeof(uint64_t)];
  storeElement(dtype, element, memory);
  return {dtype, loadElement(dtype, memory)};
}

Number operator+(const Number& a, const Number& b) {
  if (a.isFloat() || b.isFloat()) return a.real() + b.real();
  Number sum = a;
  sum.element_.integer += b.element_.integer;
  return sum;
}

Number operator*(const Number& a, const Number& b) {
  if (a.isFloat() || b.isFloat()) return a.real() * b.real();
  Number product = a;
  product.element_.integer *= b.element_.integer;
  return product;
}

bool operator<(const Number& a, const Number& b) {
  if (a.isFloat() || b.isFloat()) return a.real() < b.real();
  if (a.kind_ == Number::Kind::kUnsigned) return a.element_.integer < b.element_.integer;
  return static_cast<int64_t>(a.element_.integer) < static_cast<int64_t>(b.element_.integer);
}

bool operator==(const Number& a, const Number& b) {
  if (a.isFloat() || b.isFloat()) return a.real() == b.real();
  return a.element_.integer == b.element_.integer;
}

Array::Array(DType dtype, Shape shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      numbers_(static_cast<size_t>(numElements(shape_)), Number(dtype, Element{})) {}

int64_t Array::position(std::span<const int64_t> index) const {
  int64_t position = 0;
  const size_t missing = index.size() - shape_.size();
  for (size_t i = 0; i < shape_.size(); ++i) {
    position = position * shape_[i] + (shape_[i] == 1 ? 0 : index[missing + i]);
  }
  return position;
}

std::vector<Line> linesOf(const Shape& shape, int64_t axis) {
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > static_cast<size_t>(axis) + 1;) stride *= shape[i];
  const int64_t size = shape[static_cast<size_t>(axis)];
  Shape others = shape;
  others[static_cast<size_t>(axis)] = 1;
  std::vector<Line> lines;
  for (int64_t i = 0; i < numElements(others); ++i) {
    lines.push_back({i / stride * stride * size + i % stride, stride, size});
  }
  return lines;
}

bool nextIndex(Shape& index, const Shape& shape) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return true;
    index[d] = 0;
  }
  return false;
}

}  // namespace popxl::ir
