#include "kernels/gather.h"

#include "kernels/copy.h"
#include "ops/composite.h"
#include "ops/define.h"

// Slices picked by index tensors.
namespace popxl::ops {

namespace {

/// The shape of the slices of operand 0 that operand `indices` picks.
Shape gatheredShape(const Op& op, size_t indexOperand) {
  const Shape &t = typeOf(op, 0).shape, &indices = typeOf(op, indexOperand).shape;
  const auto axis = axisOf(op, op.input(0)->rank());
  Shape shape(t.begin(), t.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), t.begin() + axis + 1, t.end());
  return shape;
}

void inferGather(const Op& op, Types& out) { out.push_back({typeOf(op, 0).dtype, gatheredShape(op, 1), {}}); }

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

enum SparseOperand : size_t { kVariable, kValues, kIndices, kFactor };

/// factor * values in the dtype of the variable. Operands: values, [factor], out.
kernels::KernelPtr termsKernel(const ir::KernelContext& c, const Layout& values, const Layout& out) {
  kernels::ElementwiseSpec spec;
  const VType type = kernels::computeType(out.dtype);
  const Val x = real(kernels::input(spec.expr, 0, kernels::computeType(values.dtype)));
  spec.space = values.shape;
  spec.inputs = {values};
  spec.outputs = {out};
  if (const Tensor* factor = c.op.input(kFactor); factor != nullptr) {
    const Val f = kernels::input(spec.expr, 1, kernels::computeType(factor->dtype()));
    spec.inputs.emplace_back(factor->dtype(), Shape());
    spec.expr.outputs() = {(real(f).convert(x.type()) * x).convert(type).id};
  } else {
    spec.expr.outputs() = {(x * c.op.attr<double>("factor")).convert(type).id};
  }
  return kernels::makeElementwise(std::move(spec));
}

kernels::KernelPtr sparseAccumulateKernel(const ir::KernelContext& c) {
  // Checked here and not by inference: programs may be built with values of another shape.
  const Shape wanted = gatheredShape(c.op, kIndices);
  if (typeOf(c.op, kValues).shape != wanted) {
    fail(ErrorKind::kGraph, "{} must have the shape {} of the slices that {} picks of {}",
         describe(c.op, kValues), toString(wanted), describe(c.op, kIndices), describe(c.op, kVariable));
  }
  const bool scaled = c.op.input(kFactor) != nullptr;
  const auto out = static_cast<int32_t>(c.inputs.size());
  const Layout &t = c.inputs[0], terms(t.dtype, wanted);
  const auto axis = axisOf(c.op, t.rank());
  const bool direct = !scaled && c.inputs[kValues].dtype == t.dtype;
  Composite all(out + 1);
  int32_t from = kValues;
  if (!direct) {
    from = all.scratch(terms.bytes());
    std::vector<int32_t> given = {kValues};
    if (scaled) given.push_back(kFactor);
    given.push_back(from);
    all.step(termsKernel(c, c.inputs[kValues], terms), given);
  }
  const double factor = direct ? c.op.attr<double>("factor") : 1.0;
  all.step(kernels::makeScatterAdd(t, c.inputs[kIndices], terms, axis, factor), {kVariable, kIndices, from});
  // A variable with strides comes as a dense copy, which goes back.
  if (!c.outputs[0].isContiguous()) all.step(kernels::makeCopy(t, c.outputs[0]), {kVariable, out});
  return std::move(all).make();
}

void sparseAccumulate(Defs& defs) {
  OpDef def;
  def.name = "sparse_accumulate_";
  def.type = "PopartSparseAccumulate";
  def.className = "SparseAccumulateOp";
  def.doc = "Adds slices to those of a variable that indices pick: the gradient of gather, accumulated.";
  def.operands = {{"t", ir::kNumeric, "The variable."},
                  {"X", ir::kNumeric, "What is added, of the shape of gather(t, indices, axis)."},
                  {"indices", ir::kInts, "Indices into the axis; moved to the nearest valid one."},
                  {"f", ir::kNumeric, "The factor as a tensor.", Arity::kOptional},
                  {"W", ir::kAny, "Kept for compatibility; has no effect.", Arity::kOptional}};
  def.attrs = {{"axis", AttrType::kInt, "The axis; negative counts from the last.", Attr(int64_t{0})},
               {"factor", AttrType::kFloat, "The factor when there is no tensor for it.", Attr(1.0)}};
  def.infer = [](const Op& op, Types& out) {
    axisOf(op, op.input(kVariable)->rank());
    if (op.input(kFactor) != nullptr) requireScalar(op, kFactor);
    sameType(op, out);
  };
  def.visibility = Visibility::kManual;
  def.inplaceOperand = 0;
  def.alwaysInplace = true;
  def.kernel = sparseAccumulateKernel;
  defs.push_back(def);
}

}  // namespace

void gather(Defs& defs) {
  gathers(defs);
  sparseAccumulate(defs);
}

}  // namespace popxl::ops
