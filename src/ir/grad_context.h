#pragma once

#include <string_view>
#include <vector>

#include "ir/op.h"

namespace popxl::ir {

/// What an op's gradient rule sees and does. Forward tensors that it asks for become inputs of the gradient
/// graph.
class GradContext {
 public:
  virtual ~GradContext() = default;
  explicit GradContext(const Op& op) : op(op) {}
  const Op& op;  ///< of the forward graph

  /// Gradient of output i in the gradient graph; null when nothing depends on it.
  virtual Tensor* outGrad(size_t i = 0) = 0;
  /// Gradient of output i, zeros when nothing depends on it.
  virtual Tensor* outGradOrZero(size_t i = 0) = 0;
  /// A constant of the gradient graph, the same number everywhere.
  virtual Tensor* constant(DType dtype, const Shape& shape, double value) = 0;
  Tensor* zeros(const TensorType& type) { return constant(type.dtype, type.shape, 0); }
  /// The forward operand or result, made available in the gradient graph.
  virtual Tensor* input(size_t i) = 0;
  virtual Tensor* output(size_t i = 0) = 0;
  /// Whether the gradient of operand i is asked for.
  virtual bool wants(size_t i) const = 0;
  virtual void set(size_t i, Tensor* grad) = 0;
  /// Makes an op of the table in the gradient graph and returns its first result, or all of them.
  virtual Tensor* make(std::string_view name, std::vector<Tensor*> inputs, std::vector<Attr> attrs = {}) = 0;
  virtual std::vector<Tensor*> makeAll(std::string_view name, std::vector<Tensor*> inputs,
                                       std::vector<Attr> attrs = {}) = 0;
};

/// What an op's arithmetic is written against.
class ExprContext {
 public:
  virtual ~ExprContext() = default;
  explicit ExprContext(const Op& op) : op(op) {}
  const Op& op;

  virtual kernels::Val in(size_t i) = 0;                        ///< operand i at this position
  virtual kernels::Val element(size_t i, int64_t element) = 0;  ///< one element of operand i
  virtual bool has(size_t i) const = 0;                         ///< optional operand present
  virtual kernels::Val constant(kernels::VType type, double number) = 0;
  virtual void out(kernels::Val value, size_t i = 0) = 0;  ///< result i
};

}  // namespace popxl::ir
