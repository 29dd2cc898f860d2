#include <algorithm>
#include <numeric>

#include "kernels/copy.h"
#include "ops/composite.h"
#include "ops/define.h"

namespace popxl::ops {

namespace {

void inferConcat(const Op& op, Types& out) {
  if (op.inputs().empty()) fail(ErrorKind::kValue, "there must be at least one tensor to concatenate");
  TensorType type = typeOf(op, 0);
  type.metaShape.clear();
  std::string dtypes;
  bool mixed = false;
  for (const Tensor* t : op.inputs()) {
    dtypes += fmt::format(" {}", nameOf(t->dtype()));
    mixed = mixed || t->dtype() != type.dtype;
  }
  if (mixed) fail(ErrorKind::kType, "All inputs to a concat operation must have the same type:{}", dtypes);
  if (type.shape.empty())
    fail(ErrorKind::kGraph, "{} has no dimension to concatenate on: reshape it", describe(op, 0));
  const auto axis = static_cast<size_t>(axisOf(op, static_cast<int64_t>(type.shape.size())));
  int64_t total = 0;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    Shape shape = typeOf(op, i).shape;
    if (shape.size() != type.shape.size()) {
      fail(ErrorKind::kGraph, "{} has rank {} and the first tensor has rank {}; they must be equal",
           describe(op, i), shape.size(), type.shape.size());
    }
    total += shape[axis];
    shape[axis] = type.shape[axis];
    if (shape != type.shape) {
      fail(ErrorKind::kGraph, "{} differs from the shape {} of the first tensor in more than axis {}",
           describe(op, i), toString(type.shape), axis);
    }
  }
  type.shape[axis] = total;
  out.push_back(std::move(type));
}

Tensor* sliceOf(GradContext& c, Tensor* t, int64_t axis, int64_t begin, int64_t size) {
  return c.make("slice", {t}, {intsAttr({begin}), intsAttr({begin + size}), intsAttr({1}), intsAttr({axis})});
}

void concatRule(GradContext& c) {
  const int64_t axis = axisOf(c.op, c.op.output()->rank());
  int64_t begin = 0;
  for (size_t i = 0; i < c.op.inputs().size(); ++i) {
    const int64_t size = c.op.input(i)->shape()[static_cast<size_t>(axis)];
    if (c.wants(i)) c.set(i, sliceOf(c, c.outGrad(), axis, begin, size));
    begin += size;
  }
}

void inferSplit(const Op& op, Types& out) {
  const TensorType& type = typeOf(op, 0);
  const auto axis = static_cast<size_t>(axisOf(op, op.input(0)->rank()));
  const auto& splits = ints(op, "splits");
  if (std::accumulate(splits.begin(), splits.end(), int64_t{0}) != type.shape[axis] ||
      std::any_of(splits.begin(), splits.end(), [](int64_t s) { return s < 0; })) {
    fail(ErrorKind::kGraph, "the sizes {} must add up to {}, the size of axis {} of {}", toString(splits),
         type.shape[axis], axis, describe(op, 0));
  }
  for (int64_t size : splits) {
    Shape shape = type.shape;
    shape[axis] = size;
    out.push_back({type.dtype, std::move(shape), {}});
  }
}

void splitRule(GradContext& c) {
  std::vector<Tensor*> grads;
  for (size_t i = 0; i < c.op.outputs().size(); ++i) grads.push_back(c.outGradOrZero(i));
  c.set(0, c.make("concat", grads, {Attr(axisOf(c.op, c.op.input(0)->rank()))}));
}

kernels::KernelPtr splitKernel(const ir::KernelContext& c) {
  const Layout& t = c.inputs[0];
  const auto axis = static_cast<size_t>(axisOf(c.op, t.rank()));
  Composite all(1 + static_cast<int32_t>(c.outputs.size()));
  int64_t begin = 0;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    Layout piece(t.dtype, c.outputs[i].shape, t.strides);
    all.step(kernels::makeWindowCopy(piece, begin * t.strides[axis], c.outputs[i], 0),
             {0, static_cast<int32_t>(i) + 1});
    begin += piece.shape[axis];
  }
  return std::move(all).make();
}

void concatReference(ReferenceContext& c) {
  const auto axis = static_cast<size_t>(axisOf(c.op, c.out[0].rank()));
  int64_t begin = 0;
  for (const Array& piece : c.in) {
    ir::forEachIndex(piece.shape(), [&](const Shape& index) {
      Shape to = index;
      to[axis] += begin;
      c.out[0].at(to) = piece.at(index);
    });
    begin += piece.shape()[axis];
  }
}

void splitReference(ReferenceContext& c) {
  const auto axis = static_cast<size_t>(axisOf(c.op, c.in[0].rank()));
  int64_t begin = 0;
  for (Array& piece : c.out) {
    ir::forEachIndex(piece.shape(), [&](const Shape& index) {
      Shape from = index;
      from[axis] += begin;
      piece.at(index) = c.in[0].at(from);
    });
    begin += piece.shape()[axis];
  }
}

}  // namespace

void concatSplit(Defs& defs) {
  OpDef concat;
  concat.name = "concat";
  concat.type = "Concat";
  concat.doc = "Tensors one after another on an axis.";
  concat.operands = {
      {"ts", ir::kAny, "One or more tensors that differ at most on the axis.", Arity::kVariadic}};
  concat.attrs = {{"axis", AttrType::kInt, "The axis; negative counts from the last.", Attr(int64_t{0})}};
  concat.infer = inferConcat;
  concat.grad = concatRule;
  concat.visibility = Visibility::kManual;
  concat.inplaceOperand = 0;
  concat.inplaceModifies = false;
  concat.inplaceCopies = true;
  concat.stridedInputs = true;
  concat.joins = true;
  concat.kernel = [](const ir::KernelContext& c) {
    return kernels::makeConcat(c.inputs, axisOf(c.op, c.outputs[0].rank()), c.outputs[0]);
  };
  concat.reference = concatReference;
  defs.push_back(concat);

  OpDef split;
  split.name = "split";
  split.type = "Split";
  split.doc = "Consecutive pieces of a tensor on an axis.";
  split.operands = {{"t", ir::kAny}};
  split.attrs = {{"splits", AttrType::kInts, "Sizes of the pieces."},
                 {"axis", AttrType::kInt, "The axis; negative counts from the last.", Attr(int64_t{0})}};
  split.results = {{"pieces", "", true}};
  split.infer = inferSplit;
  split.grad = splitRule;
  split.visibility = Visibility::kManual;
  split.stridedInputs = true;
  split.kernel = splitKernel;
  split.reference = splitReference;
  defs.push_back(split);
}

}  // namespace popxl::ops
