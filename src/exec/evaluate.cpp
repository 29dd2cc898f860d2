#include "exec/evaluate.h"

#include <cmath>

#include "analysis/operand_uses.h"
#include "base/element.h"
#include "base/error.h"
#include "compile/fuse.h"
#include "ir/reference.h"
#include "kernels/elementwise.h"

namespace popxl::exec {
namespace {

using ir::Array;
using ir::Number;
using kernels::Reduction;

/// How an operand is read over the space: broadcast, or by single elements where it does not broadcast.
Layout operandLayout(const ir::Tensor* t, const Shape& space) {
  if (t == nullptr) return {};
  Shape joint;
  const bool fits = broadcastShapes(t->shape(), space, joint) && joint == space;
  return {t->dtype(), fits ? t->shape() : Shape()};
}

/// The op's expression at every position of `space`; outputs in the dtypes given.
std::vector<Bytes> evaluateExpr(const ir::Op& op, const std::vector<Bytes>& operands, const Shape& space,
                                const std::vector<DType>& dtypes) {
  kernels::ElementwiseSpec spec;
  spec.expr = analysis::operandExpr(op);
  spec.space = space;
  std::vector<std::byte*> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    spec.inputs.push_back(operandLayout(op.input(i), space));
    pointers.push_back(const_cast<std::byte*>(operands[i].data()));
  }
  std::vector<Bytes> results;
  for (const DType dtype : dtypes) {
    spec.outputs.emplace_back(dtype, space);
    results.emplace_back(static_cast<size_t>(spec.outputs.back().bytes()));
  }
  for (Bytes& result : results) pointers.push_back(result.data());
  kernels::runElementwiseReference(spec, pointers, true);
  return results;
}

/// What a reduction starts from.
Number neutral(Reduction kind, DType dtype) {
  if (kind == Reduction::kProd) return Number(1).to(dtype);
  return Number(0).to(dtype);
}

Number term(Reduction kind, const Number& x) {
  if (kind == Reduction::kSumSquare || kind == Reduction::kL2) return x * x;
  if (kind == Reduction::kL1 && x < Number(0).to(DType::kInt64)) return x * Number::integer(-1);
  return x;
}

Number folded(Reduction kind, const Number& sum, const Number& x) {
  switch (kind) {
    case Reduction::kProd:
      return sum * x;
    case Reduction::kMax:
    case Reduction::kMin: {
      if (std::isnan(sum.real())) return sum;
      if (std::isnan(x.real())) return x;
      return (kind == Reduction::kMax ? sum < x : x < sum) ? x : sum;
    }
    default:
      return sum + x;
  }
}

Number finished(Reduction kind, const Number& sum, int64_t count) {
  switch (kind) {
    case Reduction::kMean:
      if (sum.isFloat()) return sum.real() / static_cast<double>(count);
      return count == 0 ? sum : Number::integer(sum.integer() / count);
    case Reduction::kL2:
      return std::sqrt(sum.real());
    case Reduction::kLogSum:
      return std::log(sum.real());
    default:
      return sum;
  }
}

/// log(sum(exp(x))), shifted by the largest x so that nothing overflows.
double logSumExp(const std::vector<Number>& xs) {
  double largest = -INFINITY, sum = 0;
  for (const Number& x : xs) largest = std::isnan(x.real()) ? NAN : std::max(x.real(), largest);
  const double shift = std::isfinite(largest) ? largest : 0;
  for (const Number& x : xs) sum += std::exp(x.real() - shift);
  return std::log(sum) + shift;
}

Number reduced(Reduction kind, const std::vector<Number>& xs, DType dtype) {
  if (kind == Reduction::kLogSumExp) return logSumExp(xs);
  const bool extreme = kind == Reduction::kMax || kind == Reduction::kMin;
  Number sum = neutral(kind, dtype);
  for (size_t i = 0; i < xs.size(); ++i) {
    sum = i == 0 && extreme ? xs[0] : folded(kind, sum, term(kind, xs[i]));
  }
  return finished(kind, sum, static_cast<int64_t>(xs.size()));
}

/// The dtype that holds every value of an expression: floats in float64, integers in 64 bits.
DType widest(DType dtype) {
  if (isFloat(dtype)) return DType::kFloat64;
  return isSigned(dtype) ? DType::kInt64 : DType::kUInt64;
}

/// Shape of the result with the reduced axes kept as 1, of the rank of the space.
Shape keptShape(const ir::Op& op, const Shape& space) {
  Shape kept = space;
  if (!op.def().reducesAxes) {
    const Shape& own = op.output()->shape();
    kept.assign(space.size() - own.size(), 1);
    kept.insert(kept.end(), own.begin(), own.end());
    return kept;
  }
  const auto& axes = op.attr<std::vector<int64_t>>("axes");
  if (axes.empty()) kept.assign(space.size(), 1);
  for (const int64_t axis : axes) {
    kept[static_cast<size_t>(normalizeAxis(axis, static_cast<int64_t>(space.size()), "reduction axis"))] = 1;
  }
  return kept;
}

Bytes evaluateReduction(const ir::Op& op, const std::vector<Bytes>& operands) {
  const Shape space = compile::spaceOf(op), kept = keptShape(op, space);
  const DType dtype = op.output()->dtype(), wide = widest(dtype);
  const Bytes terms = evaluateExpr(op, operands, space, {wide}).front();
  const Array values = arrayOf({wide, space, {}}, terms);
  Array out(wide, kept);
  std::vector<std::vector<Number>> groups(static_cast<size_t>(out.size()));
  ir::forEachIndex(space, [&](const Shape& index) {
    groups[static_cast<size_t>(out.position(index))].push_back(values.at(index));
  });
  for (int64_t i = 0; i < out.size(); ++i) {
    out[i] = reduced(op.def().reduction, groups[static_cast<size_t>(i)], wide);
  }
  return bytesOf(out, dtype);
}

}  // namespace

Array arrayOf(const ir::TensorType& type, const Bytes& bytes) {
  Array array(type.dtype, type.shape);
  const int64_t size = sizeOf(type.dtype);
  for (int64_t i = 0; i < array.size(); ++i)
    array[i] = Number(type.dtype, loadElement(type.dtype, bytes.data() + i * size));
  return array;
}

Bytes bytesOf(const Array& array, DType dtype) {
  Bytes bytes(static_cast<size_t>(array.size() * sizeOf(dtype)));
  for (int64_t i = 0; i < array.size(); ++i) {
    storeElement(dtype, array[i].stored(dtype), bytes.data() + i * sizeOf(dtype));
  }
  return bytes;
}

std::vector<Bytes> evaluate(const ir::Op& op, const std::vector<Bytes>& operands) {
  const ir::OpDef& def = op.def();
  if (def.expr != nullptr) {
    if (def.reducesAxes || def.reducesToOutput) return {evaluateReduction(op, operands)};
    std::vector<DType> dtypes;
    for (const ir::Tensor* t : op.outputs()) dtypes.push_back(t->dtype());
    return evaluateExpr(op, operands, compile::spaceOf(op), dtypes);
  }
  POPXL_ASSERT(def.reference != nullptr, "op {} has no reference", op.name());
  ir::ReferenceContext context{op, {}, {}};
  for (size_t i = 0; i < operands.size(); ++i) {
    context.in.push_back(op.input(i) == nullptr ? Array() : arrayOf(op.input(i)->type(), operands[i]));
  }
  for (const ir::Tensor* t : op.outputs()) context.out.emplace_back(t->dtype(), t->shape());
  ir::withPlace(op, [&] { def.reference(context); });
  std::vector<Bytes> results;
  for (size_t i = 0; i < context.out.size(); ++i) {
    results.push_back(bytesOf(context.out[i], op.output(i)->dtype()));
  }
  return results;
}

Bytes evaluateUpdate(const ir::Op& op, size_t operand, const Bytes& old) {
  const ir::TensorType& type = op.input(operand)->type();
  kernels::ElementwiseSpec spec;
  const kernels::Val value = kernels::input(spec.expr, 0, kernels::computeType(type.dtype));
  spec.expr.outputs() = {op.def().update(value).id};
  spec.space = type.shape;
  spec.inputs = {Layout(type.dtype, type.shape)};
  spec.outputs = spec.inputs;
  Bytes updated = old;
  std::byte* const pointers[] = {const_cast<std::byte*>(old.data()), updated.data()};
  kernels::runElementwiseReference(spec, pointers, true);
  return updated;
}

}  // namespace popxl::exec
