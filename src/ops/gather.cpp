#include "kernels/gather.h"

#include "ops/define.h"

// Slices picked by index tensors.
namespace popxl::ops {

namespace {

void inferGather(const Op& op, Types& out) {
  const Shape &t = typeOf(op, 0).shape, &indices = typeOf(op, 1).shape;
  const auto axis = axisOf(op, op.input(0)->rank());
  Shape shape(t.begin(), t.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), t.begin() + axis + 1, t.end());
  out.push_back({typeOf(op, 0).dtype, std::move(shape), {}});
}

std::vector<ir::AttrDef> gatherAttrs() {
  return {
      {"axis", AttrType::kInt, "The axis; negative counts from the last.", Attr(int64_t{0})},
      {"available_memory_proportion", AttrType::kFloat, "Kept for compatibility; has no effect.", {}, true},
      {"zero_OOR", AttrType::kBool,
       "Whether an index out of range gives zeros; otherwise it is moved to the nearest valid one.",
       Attr(false)}};
}

OpDef gatherOp(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t", ir::kAny}, {"indices", ir::kInts, "Indices into the axis, of any shape."}};
  def.attrs = gatherAttrs();
  def.infer = inferGather;
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("gather_grad", {c.outGrad(), c.input(1)}, attrs));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeGather(c.inputs[0], c.inputs[1], c.outputs[0], axisOf(c.op, c.inputs[0].rank()),
                               c.op.attr<bool>("zero_OOR"));
  };
  return def;
}

void gathers(Defs& defs) {
  defs.push_back(gatherOp({"gather", "Gather", "Slices of an axis picked by indices, as numpy.take."}));
  OpDef tied = gatherOp({"tied_gather", "PopartTiedGather",
                         "Slices of an axis picked by indices, for a table that a matrix product uses too."});
  tied.className = "TiedGatherOp";
  defs.push_back(tied);

  OpDef grad;
  grad.name = "gather_grad";
  grad.type = "GatherGrad";
  grad.doc = "Zeros to which the gradient of each picked slice is added at its index.";
  grad.operands = {{"grad", ir::kFloats}, {"indices", ir::kInts}};
  grad.attrs = gatherAttrs();
  grad.attrs.push_back({"shape", AttrType::kInts, "Shape of what was gathered from."});
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeGatherGrad(c.inputs[0], c.inputs[1], c.outputs[0], axisOf(c.op, c.outputs[0].rank()),
                                   c.op.attr<bool>("zero_OOR"));
  };
  defs.push_back(grad);
}

}  // namespace

void gather(Defs& defs) { gathers(defs); }

}  // namespace popxl::ops
