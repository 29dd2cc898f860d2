#include "popxl/tensor.h"

#include <cmath>
#include <limits>

#include "api/make_op.h"
#include "base/error.h"
#include "ops/ops.h"
#include "popxl/ops.h"

namespace popxl {
namespace {

const ir::Tensor& checked(const ir::Tensor* t) {
  if (t == nullptr) fail(ErrorKind::kValue, "this Tensor is empty: it was made by the default constructor");
  return *t;
}

/// A scalar of the dtype of `like`, made in the graph that is entered.
Tensor number(double value, const Tensor& like, std::source_location where) {
  const auto as = [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>) {
      // 2^digits is a double, the largest T need not be.
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      const bool fits = value >= static_cast<double>(std::numeric_limits<T>::min()) && value < end;
      if (!fits || value != std::trunc(value)) {
        fail(ErrorKind::kValue, "{} is no {}, the dtype of tensor `{}`: cast the tensor first\n  at {}",
             value, nameOf(like.dtype()), like.id(), ir::Loc::from(where).str());
      }
    }
    return constant(static_cast<T>(value), where);
  };
  switch (like.dtype()) {
    case DType::kFloat32:
      return as(float());
    case DType::kFloat64:
      return as(double());
    case DType::kInt8:
      return as(int8_t());
    case DType::kInt16:
      return as(int16_t());
    case DType::kInt32:
      return as(int32_t());
    case DType::kInt64:
      return as(int64_t());
    case DType::kUInt8:
      return as(uint8_t());
    case DType::kUInt16:
      return as(uint16_t());
    case DType::kUInt32:
      return as(uint32_t());
    case DType::kUInt64:
      return as(uint64_t());
    default:
      return ops::cast(as(float()), like.dtype(), where);
  }
}

Tensor binary(const char* name, Located lhs, Located rhs) {
  // Looked up once per op and thread: chains of millions of ops are built through here.
  thread_local const char* lastName = nullptr;
  thread_local const ir::OpDef* def = nullptr;
  if (name != lastName) {
    def = ops::table().find(name);
    lastName = name;
  }
  checked(lhs.tensor.get());
  checked(rhs.tensor.get());
  return api::wrap(api::addOp(*def, {lhs.tensor.get(), rhs.tensor.get()}, {}, false, lhs.where)->output());
}

Tensor binary(const char* name, Located lhs, double rhs) {
  return binary(name, lhs, {number(rhs, lhs.tensor, lhs.where), lhs.where});
}
Tensor binary(const char* name, double lhs, Located rhs) {
  return binary(name, {number(lhs, rhs.tensor, rhs.where), rhs.where}, rhs);
}

constexpr const char *kAdd = "add", *kSub = "sub", *kMul = "mul", *kDiv = "div", *kMod = "fmod";

}  // namespace

const std::string& Tensor::name() const { return checked(tensor_).name(); }
std::string Tensor::id() const { return checked(tensor_).id(); }
const Shape& Tensor::shape() const { return checked(tensor_).shape(); }
DType Tensor::dtype() const { return checked(tensor_).dtype(); }
int64_t Tensor::numElements() const { return checked(tensor_).type().numElements(); }
Graph Tensor::graph() const { return {ir_, &checked(tensor_).graph()}; }

Tensor Tensor::transpose(std::vector<int64_t> permutation, std::source_location where) const {
  if (permutation.empty()) {
    for (int64_t axis = rank(); axis-- > 0;) permutation.push_back(axis);
  }
  return ops::transpose(*this, permutation, where);
}

Tensor Tensor::reshape(Shape shape, std::source_location where) const {
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) {
      known *= shape[i];
    } else if (unknown < 0) {
      unknown = static_cast<int64_t>(i);
    }
  }
  if (unknown >= 0 && known > 0) shape[static_cast<size_t>(unknown)] = numElements() / known;
  return ops::reshape(*this, shape, where);
}

Tensor operator+(Located lhs, Located rhs) { return binary(kAdd, lhs, rhs); }
Tensor operator-(Located lhs, Located rhs) { return binary(kSub, lhs, rhs); }
Tensor operator*(Located lhs, Located rhs) { return binary(kMul, lhs, rhs); }
Tensor operator/(Located lhs, Located rhs) { return binary(kDiv, lhs, rhs); }
Tensor operator%(Located lhs, Located rhs) { return binary(kMod, lhs, rhs); }
Tensor operator-(Located t) { return ops::negate(t.tensor, t.where); }
Tensor operator+(Located lhs, double rhs) { return binary(kAdd, lhs, rhs); }
Tensor operator-(Located lhs, double rhs) { return binary(kSub, lhs, rhs); }
Tensor operator*(Located lhs, double rhs) { return binary(kMul, lhs, rhs); }
Tensor operator/(Located lhs, double rhs) { return binary(kDiv, lhs, rhs); }
Tensor operator+(double lhs, Located rhs) { return binary(kAdd, lhs, rhs); }
Tensor operator-(double lhs, Located rhs) { return binary(kSub, lhs, rhs); }
Tensor operator*(double lhs, Located rhs) { return binary(kMul, lhs, rhs); }
Tensor operator/(double lhs, Located rhs) { return binary(kDiv, lhs, rhs); }

}  // namespace popxl
