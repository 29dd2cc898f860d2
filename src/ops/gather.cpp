#include "kernels/gather.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "ops/composite.h"
#include "ops/define.h"

// Slices picked by index tensors.
namespace popxl::ops {

namespace {

/// The shape of the slices of operand 0 that an operand picks; `shared`: how many dimensions both begin with.
Shape gatheredShape(const Op& op, size_t indexOperand, int64_t shared = 0) {
  const Shape &t = typeOf(op, 0).shape, &indices = typeOf(op, indexOperand).shape;
  const auto axis = axisOf(op, op.input(0)->rank());
  Shape shape(t.begin(), t.begin() + axis);
  shape.insert(shape.end(), indices.begin() + shared, indices.end());
  shape.insert(shape.end(), t.begin() + axis + 1, t.end());
  return shape;
}

void inferGather(const Op& op, Types& out) { out.push_back({typeOf(op, 0).dtype, gatheredShape(op, 1), {}}); }

/// f(index in the slices, index in the table) for every picked element; the second is null where nothing is
/// picked. An index out of range is moved to the nearest valid one, or picks nothing. Groups share their
/// first dimension.
template <typename F>
void forPicked(const Shape& slices, const Array& indices, const Shape& table, int64_t axis,
               bool dropsOutOfRange, const F& f, bool grouped = false) {
  const size_t n = static_cast<size_t>(indices.rank()) - (grouped ? 1 : 0);
  const int64_t size = table[static_cast<size_t>(axis)];
  ir::forEachIndex(slices, [&](const Shape& index) {
    const auto own = index.begin() + axis;
    Shape place(own, own + static_cast<std::ptrdiff_t>(n));
    if (grouped) place.insert(place.begin(), index.front());
    const int64_t picked = indices.at(place).integer();
    const bool inside = picked >= 0 && picked < size;
    if (size == 0 || (!inside && dropsOutOfRange)) return f(index, nullptr);
    Shape from(index.begin(), own);
    from.push_back(std::clamp<int64_t>(picked, 0, size - 1));
    from.insert(from.end(), own + static_cast<std::ptrdiff_t>(n), index.end());
    f(index, &from);
  });
}

bool hasGroups(const Op& op) {
  return op.def().attrIndex("group_size") >= 0 && integer(op, "group_size") > 1;
}

void gatherReference(ReferenceContext& c) {
  Array& out = c.out[0];
  const auto read = [&](const Shape& index, const Shape* from) {
    if (from != nullptr) out.at(index) = c.in[0].at(*from);
  };
  forPicked(out.shape(), c.in[1], c.in[0].shape(), axisOf(c.op, c.in[0].rank()), c.op.attr<bool>("zero_OOR"),
            read, hasGroups(c.op));
}

void gatherGradReference(ReferenceContext& c) {
  Array& out = c.out[0];
  const auto add = [&](const Shape& index, const Shape* to) {
    if (to != nullptr) out.at(*to) = out.at(*to) + c.in[0].at(index);
  };
  forPicked(c.in[0].shape(), c.in[1], out.shape(), axisOf(c.op, out.rank()), c.op.attr<bool>("zero_OOR"), add,
            hasGroups(c.op));
}

std::vector<ir::AttrDef> gatherAttrs() {
  return {
      {"axis", AttrType::kInt, "The axis; negative counts from the last.", Attr(int64_t{0})},
      {"available_memory_proportion", AttrType::kFloat, "Kept for compatibility; has no effect.", {}, true},
      {"zero_OOR", AttrType::kBool,
       "Whether an index out of range gives zeros; otherwise it is moved to the nearest valid one.",
       Attr(false)}};
}

/// Adds `group_size`, and says that 1 means no groups.
void addGroups(std::vector<ir::AttrDef>& attrs) {
  attrs.insert(attrs.begin() + 1, {"group_size", AttrType::kInt,
                                   "Size of the first dimension of both operands, each entry of which is "
                                   "gathered on its own; 1: they have no such dimension.",
                                   Attr(int64_t{1})});
}

OpDef gatherOp(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t", ir::kAny}, {"indices", ir::kInts, "Indices into the axis, of any shape."}};
  def.results = {{"out", "The shape of `t` with that of `indices` in place of the axis; the dtype of `t`."}};
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
  def.reference = gatherReference;
  return def;
}

OpDef gatherGrad(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"grad", ir::kFloats}, {"indices", ir::kInts}};
  def.attrs = gatherAttrs();
  def.attrs.push_back({"shape", AttrType::kInts, "Shape of what was gathered from."});
  def.infer = shapeOfAttr;
  def.visibility = Visibility::kInternal;
  return def;
}

void gathers(Defs& defs) {
  defs.push_back(gatherOp({"gather", "Gather", "Slices of an axis picked by indices, as numpy.take."}));
  OpDef tied = gatherOp({"tied_gather", "PopartTiedGather",
                         "Slices of an axis picked by indices, for a table that a matrix product uses too."});
  tied.className = "TiedGatherOp";
  defs.push_back(tied);

  OpDef grad = gatherGrad({"gather_grad", "GatherGrad",
                           "Zeros to which the gradient of each picked slice is added at its index."});
  grad.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.pop_back();
    c.set(0, c.make("gather", {c.outGrad(), c.input(1)}, attrs));
  };
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeGatherGrad(c.inputs[0], c.inputs[1], c.outputs[0], axisOf(c.op, c.outputs[0].rank()),
                                   c.op.attr<bool>("zero_OOR"));
  };
  grad.reference = gatherGradReference;
  defs.push_back(grad);
}

// --- groups

void inferGrouped(const Op& op, Types& out) {
  const int64_t groups = integer(op, "group_size");
  if (groups < 1) fail(ErrorKind::kValue, "`group_size` is {}; it must be positive", groups);
  if (!hasGroups(op)) return inferGather(op, out);
  if (axisOf(op, op.input(0)->rank()) == 0)
    fail(ErrorKind::kGraph, "`axis` is that of the groups; gather on one behind it");
  for (size_t i : {0, 1}) {
    const Shape& shape = typeOf(op, i).shape;
    if (!shape.empty() && shape[0] == groups) continue;
    fail(ErrorKind::kGraph, "the first dimension of {} must be the {} groups", describe(op, i), groups);
  }
  out.push_back({typeOf(op, 0).dtype, gatheredShape(op, 1, 1), {}});
}

void groupedGathers(Defs& defs) {
  OpDef def = gatherOp({"groupedgather", "GroupedGather", "Slices of an axis picked by indices, in groups."});
  addGroups(def.attrs);
  def.results = {{"out", "As for `gather`, behind the dimension of groups if there is one."}};
  def.infer = inferGrouped;
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("groupedgather_grad", {c.outGrad(), c.input(1)}, attrs));
  };
  def.kernel = [](const ir::KernelContext& c) {
    const auto make = hasGroups(c.op) ? kernels::makeGroupedGather : kernels::makeGather;
    return make(c.inputs[0], c.inputs[1], c.outputs[0], axisOf(c.op, c.inputs[0].rank()),
                c.op.attr<bool>("zero_OOR"));
  };
  defs.push_back(def);

  OpDef grad = gatherGrad({"groupedgather_grad", "GroupedGatherGrad",
                           "Zeros to which the gradient of each slice picked in a group is added."});
  addGroups(grad.attrs);
  grad.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.pop_back();
    c.set(0, c.make("groupedgather", {c.outGrad(), c.input(1)}, attrs));
  };
  grad.kernel = [](const ir::KernelContext& c) {
    return kernels::makeGatherGrad(c.inputs[0], c.inputs[1], c.outputs[0], axisOf(c.op, c.outputs[0].rank()),
                                   c.op.attr<bool>("zero_OOR"), hasGroups(c.op));
  };
  grad.reference = gatherGradReference;
  defs.push_back(grad);
}

// --- sparse_accumulate_

enum SparseOperand : int32_t { kVariable, kValues, kIndices, kFactor };

/// The factor times the values. Operands: values, factor, out.
kernels::KernelPtr termsKernel(const Layout& values, const Layout& factor, const Layout& out) {
  kernels::ElementwiseSpec spec;
  const Val x = kernels::input(spec.expr, 0, kernels::computeType(values.dtype));
  const Val f = kernels::input(spec.expr, 1, kernels::computeType(factor.dtype), 0);
  const VType type = commonReal(x, f);
  spec.expr.outputs() = {(f.convert(type) * x.convert(type)).convert(kernels::computeType(out.dtype)).id};
  spec.space = values.shape;
  spec.inputs = {values, Layout(factor.dtype, {})};
  spec.outputs = {out};
  return kernels::makeElementwise(std::move(spec));
}

/// Checked here and not by inference: programs may be built with values of another shape.
Shape requireSlices(const Op& op) {
  const Shape wanted = gatheredShape(op, kIndices);
  if (typeOf(op, kValues).shape != wanted) {
    fail(ErrorKind::kGraph, "{} must have the shape {} of the slices that {} picks of {}",
         describe(op, kValues), toString(wanted), describe(op, kIndices), describe(op, kVariable));
  }
  return wanted;
}

void sparseAccumulateReference(ReferenceContext& c) {
  Array& out = c.out[0];
  const bool scaled = c.op.input(kFactor) != nullptr;
  const double factor = scaled ? c.in[kFactor][0].real() : c.op.attr<double>("factor");
  out = c.in[kVariable];
  forPicked(requireSlices(c.op), c.in[kIndices], out.shape(), axisOf(c.op, out.rank()), false,
            [&](const Shape& index, const Shape* to) {
              if (to == nullptr) return;
              const Number term = c.in[kValues].at(index) * Number(factor);
              out.at(*to) = out.at(*to) + (isFloat(out.dtype()) ? term : term.to(out.dtype()));
            });
}

kernels::KernelPtr sparseAccumulateKernel(const ir::KernelContext& c) {
  const Shape wanted = requireSlices(c.op);
  const Layout &t = c.inputs[kVariable], &values = c.inputs[kValues], &indices = c.inputs[kIndices];
  const bool scaled = c.op.input(kFactor) != nullptr;
  const auto axis = axisOf(c.op, t.rank());
  const auto out = static_cast<int32_t>(c.inputs.size());
  const double factor = scaled ? 1.0 : c.op.attr<double>("factor");
  if (!scaled && values.dtype == t.dtype) {
    return onOperands(kernels::makeScatterAdd(t, indices, values, c.outputs[0], axis, factor), out + 1,
                      {kVariable, kIndices, kValues, out});
  }
  // Terms of a float16 variable stay float32: what is rounded is the sum.
  const Layout terms(t.dtype == DType::kFloat16 ? DType::kFloat32 : t.dtype, wanted);
  Composite all(out + 1);
  const int32_t between = all.scratch(terms.bytes());
  if (scaled) {
    all.step(termsKernel(values, c.inputs[kFactor], terms), {kValues, kFactor, between});
  } else {
    all.step(convertKernel(values, terms), {kValues, between});
  }
  all.step(kernels::makeScatterAdd(t, indices, terms, c.outputs[0], axis, factor),
           {kVariable, kIndices, between, out});
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
    if (op.input(kFactor) != nullptr) requireScalar(op, kFactor);
    sameType(op, out);
  };
  def.visibility = Visibility::kManual;
  def.inplaceOperand = 0;
  def.alwaysInplace = true;
  def.kernel = sparseAccumulateKernel;
  def.reference = sparseAccumulateReference;
  defs.push_back(def);
}

}  // namespace

void gather(Defs& defs) {
  gathers(defs);
  groupedGathers(defs);
  sparseAccumulate(defs);
}

}  // namespace popxl::ops
