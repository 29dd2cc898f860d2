#include "kernels/softmax.h"

#include "ops/define.h"

namespace popxl::ops {

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
  defs.push_back(def);

  OpDef grad;
  grad.name = "softmax_grad";
  grad.type = "SoftmaxGrad";
  grad.doc = "Gradient of softmax.";
  grad.operands = {{"out", ir::kFloats}, {"grad", ir::kFloats}};
  grad.attrs = def.attrs;
  grad.infer = sameType;
  grad.visibility = Visibility::kInternal;
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeSoftmaxGrad(c.inputs[0], c.inputs[1], c.outputs[0], axisOf(c.op, c.inputs[0].rank()));
  };
  defs.push_back(grad);
}

}  // namespace popxl::ops
