#pragma once

#include <span>
#include <vector>

#include "base/element.h"
#include "base/shape.h"

namespace popxl::ir {

class Op;

/// One element outside memory: a float in float64, an integer or bool exactly, wrapping in 64 bits. What is
/// computed of an integer and a float is a float.
class Number {
 public:
  Number(double real = 0) : kind_(Kind::kFloat), element_{real, 0} {}
  Number(DType dtype, const Element& element);
  static Number integer(int64_t value) { return {DType::kInt64, {0, static_cast<uint64_t>(value)}}; }

  bool isFloat() const { return kind_ == Kind::kFloat; }
  double real() const;
  int64_t integer() const;  ///< of a float towards 0, the nearest that there is
  /// Converted and rounded as a store to memory of this dtype does; floats to integers as `integer`.
  Number to(DType dtype) const;
  Element stored(DType dtype) const { return to(dtype).element_; }

  friend Number operator+(const Number& a, const Number& b);
  friend Number operator*(const Number& a, const Number& b);
  friend bool operator<(const Number& a, const Number& b);
  friend bool operator==(const Number& a, const Number& b);

 private:
  enum class Kind : uint8_t { kFloat, kSigned, kUnsigned };
  static Kind kindOf(DType dtype);

  Kind kind_;
  Element element_;
};

/// A tensor of numbers, dense in row-major order.
class Array {
 public:
  Array() = default;
  Array(DType dtype, Shape shape);  ///< zeros

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }
  int64_t dim(int64_t axis) const { return shape_[static_cast<size_t>(axis)]; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  Number& operator[](int64_t i) { return numbers_[static_cast<size_t>(i)]; }
  const Number& operator[](int64_t i) const { return numbers_[static_cast<size_t>(i)]; }
  /// The position of an index; dimensions of size 1 broadcast, missing leading dimensions too.
  int64_t position(std::span<const int64_t> index) const;
  Number& at(std::span<const int64_t> index) { return (*this)[position(index)]; }
  const Number& at(std::span<const int64_t> index) const { return (*this)[position(index)]; }

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  std::vector<Number> numbers_;
};

/// The elements of an array along one axis: positions first, first + stride, ...
struct Line {
  int64_t first, stride, size;
  int64_t operator[](int64_t i) const { return first + i * stride; }
};
/// All lines along an axis, in row-major order of the other dimensions.
std::vector<Line> linesOf(const Shape& shape, int64_t axis);

/// Makes the next index of `shape` in row-major order; false after the last one.
bool nextIndex(Shape& index, const Shape& shape);

/// f(index) for every index of `shape`, in row-major order.
template <typename F>
void forEachIndex(const Shape& shape, const F& f) {
  if (numElements(shape) == 0) return;
  Shape index(shape.size(), 0);
  do {
    f(static_cast<const Shape&>(index));
  } while (nextIndex(index, shape));
}

/// An op with the values of its operands (an absent one has none) and its results, zeros to begin with.
struct ReferenceContext {
  const Op& op;
  std::vector<Array> in, out;
};

/// What an op means, as plain loops in float64: results are rounded to their dtypes by the caller.
using ReferenceFn = void (*)(ReferenceContext& c);

}  // namespace popxl::ir
