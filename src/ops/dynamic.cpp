#include <algorithm>

#include "kernels/gather.h"
#include "ops/composite.h"
#include "ops/define.h"

// Windows of a tensor at places that are read at run time.
namespace popxl::ops {

namespace {

std::vector<ir::AttrDef> windowAttrs() {
  return {{"axes", AttrType::kInts, "The axes on which the window is placed."},
          {"sizes", AttrType::kInts, "Its size on each of them."},
          {"no_overlap", AttrType::kBool, "Kept for compatibility; has no effect."}};
}

std::vector<int64_t> windowAxes(const Op& op, int64_t rank) {
  std::vector<int64_t> axes = ints(op, "axes");
  for (int64_t& axis : axes) axis = normalizeAxis(axis, rank, "axes");
  return axes;
}

/// The shape of the window in a tensor of this shape; checks attributes and the index operand.
Shape windowShape(const Op& op, Shape shape, size_t indexOperand) {
  const auto axes = windowAxes(op, static_cast<int64_t>(shape.size()));
  const auto& sizes = ints(op, "sizes");
  if (axes.size() != sizes.size()) {
    fail(ErrorKind::kValue, "`axes` {} and `sizes` {} must have the same number of entries", toString(axes),
         toString(sizes));
  }
  if (typeOf(op, indexOperand).numElements() != static_cast<int64_t>(axes.size())) {
    fail(ErrorKind::kGraph, "{} must have {} element(s), one for each of the axes {}",
         describe(op, indexOperand), axes.size(), toString(axes));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t& size = shape[static_cast<size_t>(axes[i])];
    if (sizes[i] < 0 || sizes[i] > size) {
      fail(ErrorKind::kValue, "a window of size {} does not fit into axis {} of size {}", sizes[i], axes[i],
           size);
    }
    size = sizes[i];
  }
  return shape;
}

/// f(index in the window, index in the whole) for every element of a window of shape `window`.
template <typename F>
void forWindow(const Op& op, const Array& place, const Shape& window, const Shape& whole, const F& f) {
  const auto axes = windowAxes(op, static_cast<int64_t>(whole.size()));
  Shape first(whole.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const int64_t last = whole[axis] - window[axis];
    first[axis] = std::clamp<int64_t>(place[static_cast<int64_t>(i)].integer(), 0, last);
  }
  ir::forEachIndex(window, [&](const Shape& index) {
    Shape at = index;
    for (size_t d = 0; d < at.size(); ++d) at[d] += first[d];
    f(index, at);
  });
}

void dynamicSlice(Defs& defs) {
  OpDef def;
  def.name = "dynamic_slice";
  def.results = {{"out", "The window: the shape of `t` with `sizes` on the axes; the dtype of `t`."}};
  def.type = "DynamicSlice";
  def.doc = "A window of a tensor at a place that is read at run time.";
  def.operands = {{"t", ir::kAny}, {"index", ir::kInts, "First element of the window on each of the axes."}};
  def.attrs = windowAttrs();
  def.infer = [](const Op& op, Types& out) {
    out.push_back({typeOf(op, 0).dtype, windowShape(op, typeOf(op, 0).shape, 1), {}});
  };
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("dynamic_slice_grad", {c.outGrad(), c.input(1)}, attrs));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeDynamicSlice(c.inputs[0], c.inputs[1], windowAxes(c.op, c.inputs[0].rank()),
                                     c.outputs[0]);
  };
  def.reference = [](ReferenceContext& c) {
    forWindow(c.op, c.in[1], c.out[0].shape(), c.in[0].shape(),
              [&](const Shape& index, const Shape& at) { c.out[0].at(index) = c.in[0].at(at); });
  };
  defs.push_back(def);

  OpDef grad;
  grad.name = "dynamic_slice_grad";
  grad.type = "DynamicSliceGrad";
  grad.doc = "Zeros with the gradient of a window at its place.";
  grad.operands = {{"grad", ir::kAny}, {"index", ir::kInts}};
  grad.attrs = windowAttrs();
  grad.attrs.push_back({"shape", AttrType::kInts, "Shape of what the window was taken of."});
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.pop_back();
    c.set(0, c.make("dynamic_slice", {c.outGrad(), c.input(1)}, attrs));
  };
  grad.kernel = [](const ir::KernelContext& c) {
    auto kernel = kernels::makeDynamicPad(c.inputs[1], windowAxes(c.op, c.outputs[0].rank()), c.inputs[0],
                                          c.outputs[0]);
    return onOperands(std::move(kernel), 3, {1, 0, 2});
  };
  grad.reference = [](ReferenceContext& c) {
    forWindow(c.op, c.in[1], c.in[0].shape(), c.out[0].shape(),
              [&](const Shape& index, const Shape& at) { c.out[0].at(at) = c.in[0].at(index); });
  };
  defs.push_back(grad);
}

void inferUpdate(const Op& op, Types& out) {
  requireSameDType(op, 0, 2);
  windowShape(op, typeOf(op, 0).shape, 1);
  sameType(op, out);
}

/// Checked when the program is compiled: programs may be built with an update of another shape.
void requireUpdateFits(const Op& op) {
  const Shape window = windowShape(op, typeOf(op, 0).shape, 1);
  if (typeOf(op, 2).shape == window) return;
  fail(ErrorKind::kGraph, "{} must have the shape {} of the window", describe(op, 2), toString(window));
}

void dynamicUpdate(Defs& defs) {
  OpDef def;
  def.name = "dynamic_update";
  def.type = "DynamicUpdate";
  def.doc = "A tensor with a window replaced at a place that is read at run time.";
  def.operands = {{"t", ir::kAny},
                  {"index", ir::kInts, "First element of the window on each of the axes."},
                  {"t_update", ir::kAny, "The new content of the window."}};
  def.attrs = windowAttrs();
  def.infer = inferUpdate;
  def.inplaceOperand = 0;
  def.grad = [](GradContext& c) {
    if (c.wants(0)) c.set(0, c.make("dynamic_zero", {c.outGrad(), c.input(1)}, c.op.attrs()));
    if (c.wants(2)) c.set(2, c.make("dynamic_slice", {c.outGrad(), c.input(1)}, c.op.attrs()));
  };
  def.kernel = [](const ir::KernelContext& c) {
    requireUpdateFits(c.op);
    return kernels::makeDynamicUpdate(c.inputs[0], c.inputs[1], windowAxes(c.op, c.inputs[0].rank()),
                                      c.inputs[2], c.outputs[0]);
  };
  def.reference = [](ReferenceContext& c) {
    requireUpdateFits(c.op);
    c.out[0] = c.in[0];
    forWindow(c.op, c.in[1], c.in[2].shape(), c.out[0].shape(),
              [&](const Shape& index, const Shape& at) { c.out[0].at(at) = c.in[2].at(index); });
  };
  defs.push_back(def);

  OpDef zero;
  zero.name = "dynamic_zero";
  zero.type = "DynamicZero";
  zero.doc = "A tensor with a window set to 0 at a place that is read at run time.";
  zero.operands = {{"t", ir::kAny}, {"index", ir::kInts, "First element of the window on each of the axes."}};
  zero.attrs = windowAttrs();
  zero.infer = [](const Op& op, Types& out) {
    windowShape(op, typeOf(op, 0).shape, 1);
    sameType(op, out);
  };
  zero.visibility = Visibility::kInternal;
  zero.grad = [](GradContext& c) {
    c.set(0, c.make("dynamic_zero", {c.outGrad(), c.input(1)}, c.op.attrs()));
  };
  zero.kernel = [](const ir::KernelContext& c) {
    const Shape window = windowShape(c.op, c.inputs[0].shape, 1);
    return kernels::makeDynamicZero(c.inputs[0], c.inputs[1], windowAxes(c.op, c.inputs[0].rank()), window,
                                    c.outputs[0]);
  };
  zero.reference = [](ReferenceContext& c) {
    c.out[0] = c.in[0];
    forWindow(c.op, c.in[1], windowShape(c.op, c.in[0].shape(), 1), c.out[0].shape(),
              [&](const Shape&, const Shape& at) { c.out[0].at(at) = Number(0).to(c.out[0].dtype()); });
  };
  defs.push_back(zero);
}

}  // namespace

void dynamic(Defs& defs) {
  dynamicSlice(defs);
  dynamicUpdate(defs);
}

}  // namespace popxl::ops
