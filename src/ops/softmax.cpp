#include "ops/softmax.h"

#include <cmath>

#include "kernels/softmax.h"
#include "ops/define.h"

namespace popxl::ops {

namespace {

/// dx = y (dy - sum y dy), with the sum over the axis. In dy the map is symmetric, so it is its own adjoint;
/// in y it gives g (dy - sum y dy) - dy sum g y for the gradient g of dx.
void softmaxGradRule(GradContext& c) {
  Tensor *g = c.outGrad(), *y = c.input(0), *dy = c.input(1);
  if (c.wants(1)) c.set(1, c.make("softmax_grad", {y, g}, c.op.attrs()));
  if (!c.wants(0)) return;
  const std::vector<Attr> along = {intsAttr({integer(c.op, "axis")}), Attr(true)};
  const auto mul = [&](Tensor* a, Tensor* b) { return c.make("mul", {a, b}); };
  Tensor* centred = c.make("sub", {dy, c.make("sum", {mul(y, dy)}, along)});
  c.set(0, c.make("sub", {mul(g, centred), mul(dy, c.make("sum", {mul(g, y)}, along))}));
}

void softmaxReference(ReferenceContext& c) {
  for (const Line& line : ir::linesOf(c.in[0].shape(), axisOf(c.op, c.in[0].rank())))
    softmaxOfLine(c.in[0], line, c.out[0]);
}

/// dx = y (dy - sum(y dy))
void softmaxGradReference(ReferenceContext& c) {
  const Array &y = c.in[0], &dy = c.in[1];
  for (const Line& line : ir::linesOf(y.shape(), axisOf(c.op, y.rank()))) {
    double sum = 0;
    for (int64_t i = 0; i < line.size; ++i) sum += y[line[i]].real() * dy[line[i]].real();
    for (int64_t i = 0; i < line.size; ++i)
      c.out[0][line[i]] = y[line[i]].real() * (dy[line[i]].real() - sum);
  }
}

}  // namespace

void softmaxOfLine(const Array& x, const Line& line, Array& out) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < line.size; ++i) largest = std::fmax(largest, x[line[i]].real());
  for (int64_t i = 0; i < line.size; ++i) sum += std::exp(x[line[i]].real() - largest);
  for (int64_t i = 0; i < line.size; ++i) out[line[i]] = std::exp(x[line[i]].real() - largest) / sum;
}

void softmax(Defs& defs) {
  OpDef def;
  def.name = "softmax";
  def.type = "Softmax";
  def.doc = "Exponentials of an axis divided by their sum.";
  def.operands = {{"t", ir::kFloats}};
  def.attrs = {{"axis", AttrType::kInt, "The axis; negative counts from the last."}};
  def.infer = [](const Op& op, Types& out) {
    axisOf(op, op.input(0)->rank());
    sameType(op, out);
  };
  def.grad = [](GradContext& c) {
    c.set(0, c.make("softmax_grad", {c.output(), c.outGrad()}, c.op.attrs()));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeSoftmax(c.inputs[0], c.outputs[0], axisOf(c.op, c.inputs[0].rank()));
  };
  def.reference = softmaxReference;
  defs.push_back(def);

  OpDef grad;
  grad.name = "softmax_grad";
  grad.type = "SoftmaxGrad";
  grad.doc = "Gradient of softmax.";
  grad.operands = {{"out", ir::kFloats}, {"grad", ir::kFloats}};
  grad.attrs = def.attrs;
  grad.infer = sameType;
  grad.visibility = Visibility::kInternal;
  grad.grad = softmaxGradRule;
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeSoftmaxGrad(c.inputs[0], c.inputs[1], c.outputs[0], axisOf(c.op, c.inputs[0].rank()));
  };
  grad.reference = softmaxGradReference;
  defs.push_back(grad);
}

}  // namespace popxl::ops
