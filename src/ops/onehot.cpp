#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "ops/composite.h"
#include "ops/define.h"

namespace popxl::ops {

namespace {

void inferOnehot(const Op& op, Types& out) {
  if (typeOf(op, 2).numElements() != 2) {
    fail(ErrorKind::kGraph, "{} must have two elements: the value off and the value on", describe(op, 2));
  }
  const std::vector<int64_t> classes = knownInts(op, 1);
  if (classes.size() != 1 || classes[0] < 0) {
    fail(ErrorKind::kGraph, "{} must be one non-negative number", describe(op, 1));
  }
  Shape shape = typeOf(op, 0).shape;
  const int64_t axis = axisOf(op, static_cast<int64_t>(shape.size()) + 1);
  shape.insert(shape.begin() + axis, classes[0]);
  out.push_back({typeOf(op, 2).dtype, std::move(shape), {}});
}

/// Sum over all elements of a * b, or of a * (1 - b).
kernels::KernelPtr weightedSum(const Layout& a, const Layout& b, bool complement) {
  kernels::ReduceSpec spec;
  spec.kind = kernels::Reduction::kSum;
  const VType type = kernels::computeType(a.dtype);
  const Val x = kernels::input(spec.expr, 0, type), weight = kernels::input(spec.expr, 1, type);
  spec.expr.outputs() = {(complement ? x * (1.0 - weight) : x * weight).id};
  spec.space = a.shape;
  spec.inputs = {a, b};
  for (int64_t i = 0; i < a.rank(); ++i) spec.axes.push_back(i);
  spec.out = Layout(a.dtype, Shape(a.shape.size(), 1));
  return kernels::makeReduce(std::move(spec));
}

/// The gradient is split by a mask of the indices: what lies at them is summed for the second value, the rest
/// for the first.
kernels::KernelPtr onehotGradKernel(const ir::KernelContext& c) {
  const Layout &grad = c.inputs[0], &indices = c.inputs[1], &out = c.outputs[0];
  const Layout one(grad.dtype, {1}), two(grad.dtype, {2}), mask(grad.dtype, grad.shape);
  constexpr int32_t kGrad = 0, kIndices = 1, kOut = 2;
  Composite all(3);
  const int32_t values = all.scratch(two.bytes()), number = all.scratch(one.bytes()),
                at = all.scratch(mask.bytes());
  all.step(kernels::makeFill(two, 0), {values});
  all.step(kernels::makeFill(one, 1), {number});
  all.step(kernels::makeWindowCopy(one, 0, one, 1), {number, values});
  all.step(kernels::makeOnehot(indices, two, mask, axisOf(c.op, grad.rank())), {kIndices, values, at});
  for (const bool complement : {true, false}) {
    all.step(weightedSum(grad, mask, complement), {kGrad, at, number});
    all.step(kernels::makeWindowCopy(one, 0, Layout(out.dtype, {1}), complement ? 0 : out.strides.back()),
             {number, kOut});
  }
  return std::move(all).make();
}

/// Whether the index at a position of the result names its class.
bool isHot(const Op& op, const Array& indices, const Shape& at, const Shape& shape) {
  const auto axis = axisOf(op, static_cast<int64_t>(shape.size()));
  Shape position = at;
  position.erase(position.begin() + axis);
  const int64_t index = indices.at(position).integer(), classes = shape[static_cast<size_t>(axis)];
  return at[static_cast<size_t>(axis)] == (index < 0 ? index + classes : index);
}

void onehotReference(ReferenceContext& c) {
  Array& out = c.out[0];
  ir::forEachIndex(out.shape(), [&](const Shape& at) {
    out.at(at) = c.in[2][isHot(c.op, c.in[0], at, out.shape()) ? 1 : 0];
  });
}

void onehotGradReference(ReferenceContext& c) {
  const Array& grad = c.in[0];
  ir::forEachIndex(grad.shape(), [&](const Shape& at) {
    Number& sum = c.out[0][isHot(c.op, c.in[1], at, grad.shape()) ? 1 : 0];
    sum = sum + grad.at(at);
  });
}

}  // namespace

void onehot(Defs& defs) {
  OpDef def;
  def.name = "onehot";
  def.type = "OneHot";
  def.className = "OnehotOp";
  def.doc = "A new axis of classes with one value at the index and another one elsewhere.";
  def.operands = {{"t", ir::kInts, "The class of each position."},
                  {"num_classes", ir::kInts, "Number of classes, a constant."},
                  {"values", ir::kAny, "Two elements: the value elsewhere and the value at the index."}};
  def.attrs = {
      {"axis", AttrType::kInt, "Where the new axis is in the result; negative counts from the last."}};
  def.results = {{"out", "The shape of `t` with the new axis; the dtype of `values`."}};
  def.infer = inferOnehot;
  def.kernel = [](const ir::KernelContext& c) {
    const int64_t axis = axisOf(c.op, c.outputs[0].rank());
    return onOperands(kernels::makeOnehot(c.inputs[0], c.inputs[2], c.outputs[0], axis), 4, {0, 2, 3});
  };
  def.reference = onehotReference;
  // What `values` receives: the sum of the gradient at the indices, and of the rest.
  def.grad = [](GradContext& c) {
    c.set(2, c.make("onehot_grad", {c.outGrad(), c.input(0)},
                    {c.op.attrValue("axis"), intsAttr(c.op.input(2)->shape())}));
  };
  defs.push_back(def);

  OpDef grad;
  grad.name = "onehot_grad";
  grad.type = "OneHotGrad";
  grad.doc = "Gradient of onehot with respect to `values`.";
  grad.operands = {{"grad", ir::kFloats}, {"t", ir::kInts}};
  grad.attrs = {{"axis", AttrType::kInt, "The axis of the classes."},
                {"shape", AttrType::kInts, "Shape of `values`."}};
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {
    const Shape& shape = c.op.input(0)->shape();
    const int64_t classes = shape[static_cast<size_t>(axisOf(c.op, c.op.input(0)->rank()))];
    Tensor* number = c.constant(DType::kInt32, {}, static_cast<double>(classes));
    c.set(0, c.make("onehot", {c.input(1), number, c.outGrad()}, {c.op.attrValue("axis")}));
  };
  grad.kernel = onehotGradKernel;
  grad.reference = onehotGradReference;
  defs.push_back(grad);
}

}  // namespace popxl::ops
