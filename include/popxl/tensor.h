#pragma once

#include <popxl/dtype.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

namespace popxl {

namespace ir {
class Ir;
class Tensor;
}  // namespace ir
class Graph;

using Shape = std::vector<int64_t>;

/// What a graph input, stream or variable looks like.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool operator==(const TensorSpec&) const = default;
};

/// A tensor of a graph: a handle that is cheap to copy and keeps its Ir alive. Equal handles name the same
/// tensor.
///
/// Every function that makes an op adds it to the graph that is entered (GraphScope) and notes the caller's
/// file and line. All throw Error(kRuntime) when no graph is entered, Error(kValue) for a tensor of another
/// graph, and Error(kGraph) when shapes or dtypes do not fit.
class Tensor {
 public:
  Tensor() = default;

  const std::string& name() const;  ///< without the graph's name
  std::string id() const;           ///< graph name, '/', name; unique in the Ir
  const Shape& shape() const;
  DType dtype() const;
  TensorSpec spec() const { return {shape(), dtype()}; }
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  int64_t numElements() const;
  Graph graph() const;

  /// With axes in another order; by default reversed.
  Tensor transpose(std::vector<int64_t> permutation = {},
                   std::source_location where = std::source_location::current()) const;
  /// With another shape of as many elements; one dimension may be -1.
  Tensor reshape(Shape shape, std::source_location where = std::source_location::current()) const;

  bool operator==(const Tensor& other) const { return tensor_ == other.tensor_; }
  explicit operator bool() const { return tensor_ != nullptr; }

  /// For the library itself.
  Tensor(std::shared_ptr<ir::Ir> ir, ir::Tensor* tensor) : ir_(std::move(ir)), tensor_(tensor) {}
  ir::Tensor* get() const { return tensor_; }
  const std::shared_ptr<ir::Ir>& ir() const { return ir_; }

 private:
  std::shared_ptr<ir::Ir> ir_;
  ir::Tensor* tensor_ = nullptr;
};

/// An operand of an operator with the place where it was written: operators have no room for a default
/// argument.
struct Located {
  const Tensor& tensor;
  std::source_location where;
  // NOLINTNEXTLINE(google-explicit-constructor): the conversion is the point
  Located(const Tensor& t, std::source_location at = std::source_location::current())
      : tensor(t), where(at) {}
};

/// Elementwise with NumPy broadcasting. A number becomes a constant of the other operand's dtype;
/// Error(kValue) when an integer dtype does not hold it.
Tensor operator+(Located lhs, Located rhs);
Tensor operator-(Located lhs, Located rhs);
Tensor operator*(Located lhs, Located rhs);
Tensor operator/(Located lhs, Located rhs);
Tensor operator%(Located lhs, Located rhs);
Tensor operator-(Located t);
Tensor operator+(Located lhs, double rhs);
Tensor operator-(Located lhs, double rhs);
Tensor operator*(Located lhs, double rhs);
Tensor operator/(Located lhs, double rhs);
Tensor operator+(double lhs, Located rhs);
Tensor operator-(double lhs, Located rhs);
Tensor operator*(double lhs, Located rhs);
Tensor operator/(double lhs, Located rhs);

/// The dtype of a C++ type: float, double, bool and the fixed-width integers.
template <typename T>
constexpr DType dtypeOf() {
  static_assert(std::is_arithmetic_v<T>, "tensors hold numbers and bools");
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
  constexpr DType kSigned[] = {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
  constexpr DType kUnsigned[] = {DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};
  constexpr int kIndex = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::is_signed_v<T> ? kSigned[kIndex] : kUnsigned[kIndex];
}

/// The elements of host memory that is given as Ts. std::byte: memory of any dtype, which has no name here;
/// the way to hand over float16 and float8.
template <typename T>
constexpr std::optional<DType> hostDType() {
  if constexpr (std::is_same_v<T, std::byte>) {
    return std::nullopt;
  } else {
    return dtypeOf<T>();
  }
}

}  // namespace popxl
