#include <algorithm>
#include <optional>

#include "kernels/copy.h"
#include "ops/define.h"

// Ops that only name the elements of their operand anew: they run as other strides over the same memory.
namespace popxl::ops {

namespace {

OpDef viewOp(const Names& names, ir::InferFn infer, ir::ViewFn view, ir::ViewFn unview = nullptr) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t", ir::kAny}};
  def.infer = infer;
  def.view = view;
  def.unview = unview;
  return def;
}

OpDef inplaceView(OpDef def) {
  def.inplaceOperand = 0;
  def.inplaceModifies = false;
  return def;
}

bool sameView(const Op&, const Layout& input, ir::View& out) {
  out.layout = input;
  return true;
}

// --- reshape

void inferReshape(const Op& op, Types& out) {
  const auto& wanted = ints(op, "shape");
  const int64_t elements = typeOf(op, 0).numElements();
  Shape shape = wanted;
  int64_t open = -1, known = 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && elements != 0) {
      fail(ErrorKind::kValue,
           "Invalid shape value in reshape: {}; a dimension is positive, or -1 for the one to find",
           toString(wanted));
    }
    if (wanted[i] < -1) {
      fail(ErrorKind::kValue,
           "Invalid shape value in reshape: {}; a dimension is positive, or -1 for the one to find",
           toString(wanted));
    }
    if (wanted[i] == -1 && open >= 0) {
      fail(ErrorKind::kValue, "Reshape shape can contain at most one '-1' value: {}", toString(wanted));
    }
    if (wanted[i] == -1) open = static_cast<int64_t>(i);
    if (wanted[i] != -1) known *= wanted[i];
  }
  if (open >= 0 && known > 0 && elements % known == 0) shape[static_cast<size_t>(open)] = elements / known;
  if ((open >= 0 && known == 0) || numElements(shape) != elements) {
    fail(ErrorKind::kGraph, "{} has {} elements, which can't be seen as shape {}", describe(op, 0), elements,
         toString(wanted));
  }
  out.push_back({typeOf(op, 0).dtype, std::move(shape), {}});
}

/// Strides of the same elements in row-major order under another shape; false where that needs a copy.
bool reshapeStrides(const Layout& from, const Shape& to, Strides& strides) {
  strides.assign(to.size(), 1);
  size_t i = 0, j = 0;
  const size_t n = from.shape.size(), m = to.size();
  while (i < n || j < m) {
    // The smallest next blocks of dimensions with equal numbers of elements.
    size_t iEnd = i, jEnd = j;
    int64_t a = 1, b = 1;
    if (iEnd < n) a = from.shape[iEnd++];
    if (jEnd < m) b = to[jEnd++];
    while (a != b) {
      if (a < b) {
        if (iEnd == n) return false;
        a *= from.shape[iEnd++];
      } else {
        if (jEnd == m) return false;
        b *= to[jEnd++];
      }
    }
    int64_t step = 1;
    std::optional<int64_t> span;  // the stride that the next outer dimension must have
    for (size_t k = iEnd; k-- > i;) {
      if (from.shape[k] == 1) continue;
      if (span && from.strides[k] != *span) return false;
      if (!span) step = from.strides[k];
      span = from.strides[k] * from.shape[k];
    }
    for (size_t k = jEnd; k-- > j;) {
      strides[k] = step;
      step *= to[k];
    }
    i = iEnd;
    j = jEnd;
  }
  return true;
}

bool reshaped(const Layout& input, const Shape& shape, ir::View& out) {
  if (input.isContiguous()) {
    out.layout = Layout(input.dtype, shape);
    return true;
  }
  out.layout = Layout(input.dtype, shape);
  if (numElements(shape) == 0) return true;
  return reshapeStrides(input, shape, out.layout.strides);
}

bool viewReshape(const Op& op, const Layout& input, ir::View& out) {
  return reshaped(input, op.output()->shape(), out);
}
bool unviewReshape(const Op& op, const Layout& result, ir::View& out) {
  return reshaped(result, op.input(0)->shape(), out);
}

void reshapeOps(Defs& defs) {
  OpDef def =
      inplaceView(viewOp({"reshape", "Reshape", "The elements in row-major order with another shape."},
                         inferReshape, viewReshape, unviewReshape));
  def.attrs = {{"shape", AttrType::kInts,
                "The new shape; one dimension may be -1 and is then found from the others."}};
  def.visibility = Visibility::kManual;
  def.grad = [](GradContext& c) { c.set(0, reshapeTo(c, c.outGrad(), c.op.input(0)->shape())); };
  defs.push_back(def);
}

// --- transpose

/// The permutation as given, or the reversal for an empty one.
std::vector<int64_t> permutation(const Op& op) {
  std::vector<int64_t> order = ints(op, "permutation");
  const int64_t rank = op.input(0)->rank();
  if (order.empty()) {
    for (int64_t i = rank; i-- > 0;) order.push_back(i);
  }
  return order;
}

void inferTranspose(const Op& op, Types& out) {
  std::vector<int64_t> order = permutation(op);
  const Shape& shape = typeOf(op, 0).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto given = ints(op, "permutation");
  std::vector<bool> seen(shape.size(), false);
  Shape permuted;
  for (int64_t axis : order) {
    if (axis >= rank || axis < 0) {
      fail(ErrorKind::kValue,
           "Values in permutation must be less than the number of dimensions: the tensor has rank {}, the "
           "permutation is "
           "{}",
           rank, toString(given));
    }
    if (seen[static_cast<size_t>(axis)]) {
      fail(ErrorKind::kValue, "axis {} is given twice in the permutation {}", axis, toString(given));
    }
    seen[static_cast<size_t>(axis)] = true;
    permuted.push_back(shape[static_cast<size_t>(axis)]);
  }
  if (order.size() != shape.size()) {
    fail(ErrorKind::kValue, "the permutation {} must have one entry for each of the {} dimensions of {}",
         toString(given), rank, describe(op, 0));
  }
  out.push_back({typeOf(op, 0).dtype, std::move(permuted), {}});
}

bool viewTranspose(const Op& op, const Layout& input, ir::View& out) {
  out.layout = Layout(input.dtype, {}, {});
  for (int64_t axis : permutation(op)) {
    out.layout.shape.push_back(input.shape[static_cast<size_t>(axis)]);
    out.layout.strides.push_back(input.strides[static_cast<size_t>(axis)]);
  }
  return true;
}

bool unviewTranspose(const Op& op, const Layout& result, ir::View& out) {
  out.layout = result;
  const std::vector<int64_t> order = permutation(op);
  for (size_t i = 0; i < order.size(); ++i) {
    out.layout.shape[static_cast<size_t>(order[i])] = result.shape[i];
    out.layout.strides[static_cast<size_t>(order[i])] = result.strides[i];
  }
  return true;
}

void transposeRule(GradContext& c) {
  const std::vector<int64_t> order = permutation(c.op);
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  c.set(0, c.make("transpose", {c.outGrad()}, {intsAttr(inverse)}));
}

void transposeOps(Defs& defs) {
  OpDef def = inplaceView(viewOp({"transpose", "Transpose", "The dimensions in another order."},
                                 inferTranspose, viewTranspose, unviewTranspose));
  def.attrs = {{"permutation", AttrType::kInts,
                "For each dimension of the result, the one it was; empty reverses them.", intsAttr({})}};
  def.visibility = Visibility::kManual;
  def.grad = transposeRule;
  defs.push_back(def);
}

// --- slice

struct Slice {
  int64_t start = 0, step = 1, size = 0;
};

/// What Python's slice(start, stop, step) takes of `size` elements.
Slice resolve(int64_t start, int64_t stop, int64_t step, int64_t size) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](int64_t x) { return std::clamp(x < 0 ? x + size : x, low, high); };
  const int64_t first = place(start), last = place(stop);
  const int64_t distance = step > 0 ? last - first : first - last;
  const int64_t stride = step > 0 ? step : -step;
  return {first, step, distance > 0 ? (distance + stride - 1) / stride : 0};
}

/// The slice of every dimension of `shape` under attributes start, stop, step and axis.
std::vector<Slice> slicesOf(const Op& op, const Shape& shape) {
  std::vector<Slice> out;
  for (int64_t size : shape) out.push_back({0, 1, size});
  const auto &start = ints(op, "start"), &stop = ints(op, "stop");
  const auto &step = ints(op, "step"), &axis = ints(op, "axis");
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t by = step.empty() ? 1 : step[i];
    const int64_t at = axis.empty() ? static_cast<int64_t>(i) : axis[i];
    const auto dim = static_cast<size_t>(normalizeAxis(at, static_cast<int64_t>(shape.size()), "axis"));
    out[dim] = resolve(start[i], stop[i], by, shape[dim]);
  }
  return out;
}

void inferSlice(const Op& op, Types& out) {
  const size_t n = ints(op, "start").size();
  for (const char* name : {"stop", "step", "axis"}) {
    const size_t length = ints(op, name).size();
    if (length == n || (length == 0 && std::string_view(name) != "stop")) continue;
    fail(ErrorKind::kValue, "`{}` has {} entries and `start` has {}; there must be one for each sliced axis",
         name, length, n);
  }
  for (int64_t step : ints(op, "step")) {
    if (step == 0) fail(ErrorKind::kValue, "a slice can't have step 0: {}", toString(ints(op, "step")));
  }
  if (static_cast<int64_t>(n) > op.input(0)->rank()) {
    fail(ErrorKind::kValue, "{} slices are given for {}", n, describe(op, 0));
  }
  Shape shape;
  for (const Slice& s : slicesOf(op, typeOf(op, 0).shape)) shape.push_back(s.size);
  out.push_back({typeOf(op, 0).dtype, std::move(shape), {}});
}

bool viewSlice(const Op& op, const Layout& input, ir::View& out) {
  out.layout = input;
  const auto slices = slicesOf(op, input.shape);
  for (size_t i = 0; i < slices.size(); ++i) {
    out.elementOffset += slices[i].start * input.strides[i];
    out.layout.shape[i] = slices[i].size;
    out.layout.strides[i] *= slices[i].step;
  }
  if (out.layout.numElements() == 0) out.elementOffset = 0;
  return true;
}

kernels::KernelPtr sliceGradKernel(const ir::KernelContext& c) {
  const Layout& dx = c.outputs[0];
  Strides strides = dx.strides;
  int64_t offset = 0;
  const auto slices = slicesOf(c.op, dx.shape);
  for (size_t i = 0; i < slices.size(); ++i) {
    offset += slices[i].start * dx.strides[i];
    strides[i] *= slices[i].step;
  }
  return kernels::makeSliceGrad(c.inputs[0], dx, c.inputs[0].numElements() == 0 ? 0 : offset, strides);
}

void sliceGradReference(ReferenceContext& c) {
  const auto slices = slicesOf(c.op, c.out[0].shape());
  ir::forEachIndex(c.in[0].shape(), [&](const Shape& index) {
    Shape to = index;
    for (size_t i = 0; i < to.size(); ++i) to[i] = slices[i].start + index[i] * slices[i].step;
    c.out[0].at(to) = c.in[0].at(index);
  });
}

void sliceOps(Defs& defs) {
  OpDef def = inplaceView(
      viewOp({"slice", "Slice", "A range of elements on one or more axes."}, inferSlice, viewSlice));
  def.attrs = {
      {"start", AttrType::kInts, "First element on each sliced axis; negative counts from the end."},
      {"stop", AttrType::kInts, "End of the range on each sliced axis, not part of it."},
      {"step", AttrType::kInts, "Distance of elements; negative runs backwards. Empty: 1.", intsAttr({})},
      {"axis", AttrType::kInts, "The sliced axes. Empty: the first ones.", intsAttr({})}};
  def.visibility = Visibility::kManual;
  def.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.push_back(intsAttr(c.op.input(0)->shape()));
    c.set(0, c.make("slice_grad", {c.outGrad()}, attrs));
  };
  defs.push_back(def);

  OpDef grad;
  grad.name = "slice_grad";
  grad.type = "SliceGrad";
  grad.doc = "Zeros with the gradient of a slice at the place that was sliced.";
  grad.operands = {{"grad", ir::kAny}};
  grad.attrs = def.attrs;
  grad.attrs.push_back({"shape", AttrType::kInts, "Shape of what was sliced."});
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {
    auto attrs = c.op.attrs();
    attrs.pop_back();
    c.set(0, c.make("slice", {c.outGrad()}, attrs));
  };
  grad.kernel = sliceGradKernel;
  grad.reference = sliceGradReference;
  grad.stridedInputs = true;
  defs.push_back(grad);
}

// --- subsample

void inferSubsample(const Op& op, Types& out) {
  const auto& strides = ints(op, "strides");
  const Shape& shape = typeOf(op, 0).shape;
  if (strides.size() != shape.size()) {
    fail(ErrorKind::kGraph, "`strides` {} must have one entry for each dimension of {}", toString(strides),
         describe(op, 0));
  }
  Shape taken;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 1) fail(ErrorKind::kGraph, "`strides` {} must be positive", toString(strides));
    taken.push_back((shape[i] + strides[i] - 1) / strides[i]);
  }
  out.push_back({typeOf(op, 0).dtype, std::move(taken), {}});
}

bool viewSubsample(const Op& op, const Layout& input, ir::View& out) {
  out.layout = Layout(input.dtype, op.output()->shape(), input.strides);
  for (size_t i = 0; i < input.strides.size(); ++i) out.layout.strides[i] *= ints(op, "strides")[i];
  return true;
}

void subsampleRule(GradContext& c) {
  const Shape& shape = c.op.input(0)->shape();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  c.set(0, c.make("slice_grad", {c.outGrad()},
                  {intsAttr(Shape(shape.size(), 0)), intsAttr(shape), c.op.attrValue("strides"),
                   intsAttr(axes), intsAttr(shape)}));
}

void subsampleOps(Defs& defs) {
  OpDef def = viewOp({"subsample", "Subsample", "Every n-th element of each dimension."}, inferSubsample,
                     viewSubsample);
  def.attrs = {{"strides", AttrType::kInts, "Distance of the elements taken, one for each dimension."}};
  def.visibility = Visibility::kManual;
  def.grad = subsampleRule;
  defs.push_back(def);
}

}  // namespace

void view(Defs& defs) {
  reshapeOps(defs);
  transposeOps(defs);
  sliceOps(defs);
  subsampleOps(defs);

  OpDef identity = viewOp({"identity", "Identity", "The same values."}, sameType, sameView, sameView);
  identity.visibility = Visibility::kManual;
  identity.grad = [](GradContext& c) { c.set(0, c.make("identity", {c.outGrad()})); };
  defs.push_back(identity);

  OpDef detach =
      inplaceView(viewOp({"detach", "Detach", "The same values, through which no gradient passes."}, sameType,
                         sameView, sameView));
  detach.stopsGradient = true;
  defs.push_back(detach);
}

}  // namespace popxl::ops
