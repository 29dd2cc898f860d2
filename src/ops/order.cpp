#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/argreduce.h"
#include "kernels/copy.h"
#include "kernels/gather.h"
#include "kernels/scan.h"
#include "ops/composite.h"
#include "ops/define.h"

// Positions of extreme elements, sorting, running sums and counts.
namespace popxl::ops {

namespace {

/// Error(kValue) for axes without elements: there is nothing to pick from.
void requireElements(const Op& op, const std::vector<int64_t>& axes) {
  for (const int64_t axis : axes) {
    if (typeOf(op, 0).shape[static_cast<size_t>(axis)] > 0) continue;
    fail(ErrorKind::kValue, "{} has no elements on axis {}, so there is none to pick", describe(op, 0), axis);
  }
}

/// Whether a comes before b in ascending order; NaN is last.
bool ascends(const Number& a, const Number& b) {
  if (std::isnan(a.real()) || std::isnan(b.real())) return !std::isnan(a.real()) && std::isnan(b.real());
  return a < b;
}

/// Positions 0, 1, ... of a line, sorted by what lies there; equal elements keep their order.
std::vector<int64_t> sorted(const Array& x, const Line& line, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(line.size));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? ascends(x[line[b]], x[line[a]]) : ascends(x[line[a]], x[line[b]]);
  });
  return order;
}

/// The first NaN of a line, or -1.
int64_t firstNan(const Array& x, const Line& line) {
  for (int64_t i = 0; i < line.size; ++i) {
    if (std::isnan(x[line[i]].real())) return i;
  }
  return -1;
}

// --- argmax, argmin

using ArgKernel = kernels::KernelPtr (*)(const Layout&, const Layout&, int64_t);

template <bool kLargest>
void argReference(ReferenceContext& c) {
  const Array& x = c.in[0];
  const auto lines = ir::linesOf(x.shape(), axisOf(c.op, x.rank(), "dim"));
  for (size_t i = 0; i < lines.size(); ++i) {
    const int64_t nan = firstNan(x, lines[i]);
    c.out[0][static_cast<int64_t>(i)] = Number::integer(nan >= 0 ? nan : sorted(x, lines[i], kLargest)[0]);
  }
}

template <ArgKernel Make, bool kLargest>
OpDef argReduce(const Names& names) {
  OpDef def;
  def.name = names.name;
  def.type = names.type;
  def.doc = names.doc;
  def.operands = {{"t", ir::kNumeric}};
  def.attrs = {{"dim", AttrType::kInt, "The axis; negative counts from the last.", Attr(int64_t{0})},
               {"keepdim", AttrType::kBool, "Whether the axis stays with size 1.", Attr(false)}};
  def.results = {{"out", "int32 indices, without the axis or with size 1 on it."}};
  def.infer = [](const Op& op, Types& out) {
    const int64_t axis = axisOf(op, op.input(0)->rank(), "dim");
    requireElements(op, {axis});
    out.push_back({DType::kInt32, reducedShape(typeOf(op, 0).shape, {axis}, op.attr<bool>("keepdim")), {}});
  };
  def.stopsGradient = true;
  def.kernel = [](const ir::KernelContext& c) {
    const int64_t rank = c.inputs[0].rank(), axis = axisOf(c.op, rank, "dim");
    return Make(c.inputs[0], keptLayout(c.outputs[0], {axis}, rank), axis);
  };
  def.reference = argReference<kLargest>;
  return def;
}

// --- topk

void inferTopK(const Op& op, Types& out) {
  Shape shape = typeOf(op, 0).shape;
  int64_t& size = shape[static_cast<size_t>(axisOf(op, op.input(0)->rank()))];
  const int64_t k = integer(op, "k");
  if (k < 0 || k > size) fail(ErrorKind::kValue, "`k` is {}; the axis has {} elements", k, size);
  size = k;
  out.push_back({typeOf(op, 0).dtype, shape, {}});
  out.push_back({DType::kInt32, shape, {}});
}

void topkReference(ReferenceContext& c) {
  const Array& x = c.in[0];
  const int64_t axis = axisOf(c.op, x.rank());
  const auto from = ir::linesOf(x.shape(), axis), to = ir::linesOf(c.out[0].shape(), axis);
  for (size_t i = 0; i < to.size(); ++i) {
    const auto order = sorted(x, from[i], c.op.attr<bool>("largest"));
    for (int64_t k = 0; k < to[i].size; ++k) {
      const int64_t picked = order[static_cast<size_t>(k)];
      c.out[0][to[i][k]] = x[from[i][picked]];
      c.out[1][to[i][k]] = Number::integer(picked);
    }
  }
}

void pickedGradReference(ReferenceContext& c) {
  Array& out = c.out[0];
  const auto axis = static_cast<size_t>(axisOf(c.op, out.rank()));
  ir::forEachIndex(c.in[0].shape(), [&](const Shape& index) {
    Shape to = index;
    to[axis] = c.in[1].at(index).integer();
    if (to[axis] < 0) to[axis] += out.shape()[axis];
    if (to[axis] >= 0 && to[axis] < out.shape()[axis]) out.at(to) = out.at(to) + c.in[0].at(index);
  });
}

/// Adds up the gradient of picked elements at the places they came from.
kernels::KernelPtr pickedGradKernel(const ir::KernelContext& c) {
  return kernels::makeScatterReduce(c.inputs[0], c.inputs[1], std::nullopt, c.outputs[0],
                                    axisOf(c.op, c.outputs[0].rank()), kernels::ScatterReduction::kSum);
}

void topk(Defs& defs) {
  OpDef def;
  def.name = "topk";
  def.type = "TopK";
  def.doc = "The largest or smallest elements of an axis, best first, and where they are.";
  def.operands = {{"t", ir::kNumeric}};
  def.attrs = {
      {"k", AttrType::kInt, "How many."},
      {"axis", AttrType::kInt, "The axis; negative counts from the last."},
      {"largest", AttrType::kBool, "Whether the largest are taken, or the smallest."},
      {"sorted", AttrType::kBool, "Kept for compatibility; the result is sorted in any case."},
      {"available_memory_proportion", AttrType::kFloat, "Kept for compatibility; has no effect.", {}, true}};
  def.results = {{"values", "The elements, `k` on the axis, of the dtype of `t`."},
                 {"indices", "int32 positions on the axis."}};
  def.infer = inferTopK;
  def.grad = [](GradContext& c) {
    if (c.outGrad() == nullptr) return;
    c.set(0, c.make("topk_grad", {c.outGrad(), c.output(1)},
                    {c.op.attrValue("axis"), intsAttr(c.op.input(0)->shape())}));
  };
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeTopK(c.inputs[0], c.outputs[0], c.outputs[1], axisOf(c.op, c.inputs[0].rank()),
                             c.op.attr<bool>("largest"));
  };
  def.reference = topkReference;
  defs.push_back(def);

  OpDef grad;
  grad.name = "topk_grad";
  grad.type = "TopKGrad";
  grad.doc = "Zeros with the gradient of elements picked on an axis at the places they came from.";
  grad.operands = {{"grad", ir::kFloats}, {"indices", ir::kInts}};
  grad.attrs = {{"axis", AttrType::kInt, "The axis."},
                {"shape", AttrType::kInts, "Shape of what was picked from."}};
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = [](GradContext& c) {
    c.set(0, c.make("scatter_pick", {c.outGrad(), c.input(1)},
                    {intsAttr(c.op.input(0)->shape()), c.op.attrValue("axis")}));
  };
  grad.kernel = pickedGradKernel;
  grad.reference = pickedGradReference;
  defs.push_back(grad);
}

// --- median

/// A tensor with the reduced axes made one, the last: as a view of a permutation, and contiguous.
struct Folded {
  Layout permuted;  ///< of the tensor itself
  Layout dense;     ///< the same order of dimensions, contiguous
  Layout flat;      ///< `dense` with the reduced axes as one
};

Folded fold(const Layout& t, const std::vector<int64_t>& axes) {
  Folded f;
  f.permuted = Layout(t.dtype, {}, {});
  const auto take = [&](bool reduced) {
    for (int64_t i = 0; i < t.rank(); ++i) {
      if (std::binary_search(axes.begin(), axes.end(), i) != reduced) continue;
      f.permuted.shape.push_back(t.shape[static_cast<size_t>(i)]);
      f.permuted.strides.push_back(t.strides[static_cast<size_t>(i)]);
    }
  };
  take(false);
  Shape flat = f.permuted.shape;
  take(true);
  flat.push_back(1);
  for (int64_t axis : axes) flat.back() *= t.shape[static_cast<size_t>(axis)];
  f.dense = Layout(t.dtype, f.permuted.shape);
  f.flat = Layout(t.dtype, std::move(flat));
  return f;
}

/// A reduced tensor, contiguous, with one axis of size 1 at the end in place of the reduced ones.
Layout foldedResult(const Layout& reduced, const Folded& f) {
  Shape shape = f.flat.shape;
  shape.back() = 1;
  return {reduced.dtype, std::move(shape)};
}

kernels::KernelPtr medianKernel(const ir::KernelContext& c) {
  const Folded f = fold(c.inputs[0], reductionAxes(c.op, c.inputs[0].rank()));
  Composite all(3);
  const int32_t dense = all.scratch(f.dense.bytes());
  all.step(kernels::makeCopy(f.permuted, f.dense), {0, dense});
  all.step(kernels::makeMedian(f.flat, foldedResult(c.outputs[0], f), foldedResult(c.outputs[1], f),
                               f.flat.rank() - 1),
           {dense, 1, 2});
  return std::move(all).make();
}

kernels::KernelPtr medianGradKernel(const ir::KernelContext& c) {
  const Folded f = fold(c.outputs[0], reductionAxes(c.op, c.outputs[0].rank()));
  Composite all(3);
  const int32_t dense = all.scratch(f.dense.bytes());
  all.step(
      kernels::makeScatterReduce(foldedResult(c.inputs[0], f), foldedResult(c.inputs[1], f), std::nullopt,
                                 f.flat, f.flat.rank() - 1, kernels::ScatterReduction::kSum),
      {0, 1, dense});
  all.step(kernels::makeCopy(f.dense, f.permuted), {dense, 2});
  return std::move(all).make();
}

/// For each result of a reduction over the op's axes, the elements that it is made of, in row-major order.
std::vector<std::vector<int64_t>> reducedElements(const Op& op, const Array& whole) {
  const auto axes = reductionAxes(op, whole.rank());
  const Array kept(whole.dtype(), reducedShape(whole.shape(), axes, true));
  std::vector<std::vector<int64_t>> elements(static_cast<size_t>(kept.size()));
  ir::forEachIndex(whole.shape(), [&](const Shape& index) {
    elements[static_cast<size_t>(kept.position(index))].push_back(whole.position(index));
  });
  return elements;
}

void medianReference(ReferenceContext& c) {
  const auto elements = reducedElements(c.op, c.in[0]);
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto n = static_cast<int64_t>(elements[i].size());
    Array line(c.in[0].dtype(), {n});
    for (int64_t k = 0; k < n; ++k) line[k] = c.in[0][elements[i][static_cast<size_t>(k)]];
    const int64_t middle = sorted(line, {0, 1, n}, false)[static_cast<size_t>((n - 1) / 2)];
    c.out[0][static_cast<int64_t>(i)] = line[middle];
    c.out[1][static_cast<int64_t>(i)] = Number::integer(middle);
  }
}

void medianGradReference(ReferenceContext& c) {
  const auto elements = reducedElements(c.op, c.out[0]);
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto result = static_cast<int64_t>(i);
    c.out[0][elements[i].at(static_cast<size_t>(c.in[1][result].integer()))] = c.in[0][result];
  }
}

/// Picks what lies at the medians: with the reduced axes made one, the last, as topk_grad does.
void medianGradRule(GradContext& c) {
  const Shape& whole = c.op.output()->shape();
  const auto axes = reductionAxes(c.op, c.op.output()->rank());
  std::vector<int64_t> order;
  Shape flat;
  for (int64_t i = 0; i < c.op.output()->rank(); ++i) {
    if (std::binary_search(axes.begin(), axes.end(), i)) continue;
    order.push_back(i);
    flat.push_back(whole[static_cast<size_t>(i)]);
  }
  Shape one = flat;
  one.push_back(1);
  flat.push_back(1);
  for (const int64_t axis : axes) {
    order.push_back(axis);
    flat.back() *= whole[static_cast<size_t>(axis)];
  }
  Tensor* moved = reshapeTo(c, c.make("transpose", {c.outGrad()}, {intsAttr(order)}), flat);
  Tensor* picked =
      c.make("scatter_pick", {moved, reshapeTo(c, c.input(1), one)}, {intsAttr(one), Attr(int64_t{-1})});
  c.set(0, reshapeTo(c, picked, c.op.input(0)->shape()));
}

void median(Defs& defs) {
  OpDef def;
  def.name = "median";
  def.type = "ReduceMedian";
  def.doc = "Lower median over axes, and where it is.";
  def.operands = {{"t", ir::kNumeric}};
  def.attrs = {{"axes", AttrType::kInts, "Axes to reduce; negative counts from the last, empty reduces all.",
                intsAttr({})},
               {"keepdims", AttrType::kBool, "Whether reduced axes stay with size 1.", Attr(false)}};
  def.results = {{"values"}, {"indices", "int32 positions in row-major order of the reduced axes."}};
  def.infer = [](const Op& op, Types& out) {
    const auto axes = reductionAxes(op, op.input(0)->rank());
    const Shape shape = reducedShape(typeOf(op, 0).shape, axes, op.attr<bool>("keepdims"));
    requireElements(op, axes);
    out.push_back({typeOf(op, 0).dtype, shape, {}});
    out.push_back({DType::kInt32, shape, {}});
  };
  def.visibility = Visibility::kManual;
  def.grad = [](GradContext& c) {
    if (c.outGrad() == nullptr) return;
    c.set(0, c.make("median_grad", {c.outGrad(), c.output(1)},
                    {c.op.attrValue("axes"), intsAttr(c.op.input(0)->shape())}));
  };
  def.kernel = medianKernel;
  def.reference = medianReference;
  defs.push_back(def);

  OpDef grad;
  grad.name = "median_grad";
  grad.type = "ReduceMedianGrad";
  grad.doc = "Zeros with the gradient of a median at the place it came from.";
  grad.operands = {{"grad", ir::kFloats}, {"indices", ir::kInts}};
  grad.attrs = {{"axes", AttrType::kInts, "The reduced axes."},
                {"shape", AttrType::kInts, "Shape of what was reduced."}};
  grad.infer = shapeOfAttr;
  grad.visibility = Visibility::kInternal;
  grad.grad = medianGradRule;
  grad.kernel = medianGradKernel;
  grad.reference = medianGradReference;
  defs.push_back(grad);
}

// --- cumsum, histogram

int64_t sumAxis(const Op& op) {
  const std::vector<int64_t> dim = knownInts(op, 1);
  if (dim.size() != 1) fail(ErrorKind::kGraph, "{} must be one number", describe(op, 1));
  return normalizeAxis(dim[0], op.input(0)->rank(), "dim");
}

void cumsumReference(ReferenceContext& c) {
  const Array& x = c.in[0];
  const bool exclusive = c.op.attr<bool>("exclusive"), reverse = c.op.attr<bool>("reverse");
  for (const Line& line : ir::linesOf(x.shape(), sumAxis(c.op))) {
    Number sum = Number(0).to(x.dtype());
    for (int64_t i = 0; i < line.size; ++i) {
      const int64_t at = line[reverse ? line.size - 1 - i : i];
      const Number before = sum;
      sum = sum + x[at];
      c.out[0][at] = exclusive ? before : sum;
    }
  }
}

void cumsum(Defs& defs) {
  OpDef def;
  def.name = "cumsum";
  def.type = "CumSum";
  def.doc = "Sum of the elements of an axis up to each position.";
  def.operands = {{"t", ir::kNumeric}, {"dim", ir::kInts, "The axis, a constant."}};
  def.attrs = {{"exclusive", AttrType::kBool, "Whether an element is left out of its own sum.", Attr(false)},
               {"reverse", AttrType::kBool, "Whether sums run from the end.", Attr(false)}};
  def.infer = [](const Op& op, Types& out) {
    sumAxis(op);
    sameType(op, out);
  };
  def.visibility = Visibility::kManual;
  def.grad = [](GradContext& c) {
    c.set(0, c.make("cumsum", {c.outGrad(), c.input(1)},
                    {c.op.attrValue("exclusive"), Attr(!c.op.attr<bool>("reverse"))}));
  };
  def.kernel = [](const ir::KernelContext& c) {
    auto kernel = kernels::makeCumSum(c.inputs[0], c.outputs[0], sumAxis(c.op), c.op.attr<bool>("exclusive"),
                                      c.op.attr<bool>("reverse"));
    return onOperands(std::move(kernel), 3, {0, 2});
  };
  def.reference = cumsumReference;
  defs.push_back(def);
}

void histogramReference(ReferenceContext& c) {
  const auto& levels = c.op.attr<std::vector<double>>("levels");
  for (int64_t i = 0; i < c.in[0].size(); ++i) {
    const double x = c.op.attr<bool>("absolute_of_input") ? std::abs(c.in[0][i].real()) : c.in[0][i].real();
    if (!(x >= levels.front() && x <= levels.back())) continue;
    const auto above = std::upper_bound(levels.begin(), levels.end() - 1, x) - levels.begin();
    Number& count = c.out[0][std::min<int64_t>(above, c.out[0].size()) - 1];
    count = count + Number::integer(1);
  }
}

void histogram(Defs& defs) {
  OpDef def;
  def.name = "histogram";
  def.type = "Histogram";
  def.doc = "Number of elements in each of several intervals, of which the last includes its end.";
  def.operands = {{"t", ir::kNumeric}};
  def.attrs = {{"levels", AttrType::kFloats, "Bounds of the intervals, increasing."},
               {"absolute_of_input", AttrType::kBool, "Whether absolute values are counted."}};
  def.results = {{"out", "uint32 counts, one for each interval."}};
  def.infer = [](const Op& op, Types& out) {
    const auto& levels = op.attr<std::vector<double>>("levels");
    if (levels.size() < 2)
      fail(ErrorKind::kValue, "`levels` must have two entries or more, it has {}", levels.size());
    for (size_t i = 1; i < levels.size(); ++i) {
      if (levels[i] > levels[i - 1]) continue;
      fail(ErrorKind::kValue, "`levels` must increase: entry {} is {} after {}", i, levels[i], levels[i - 1]);
    }
    out.push_back({DType::kUInt32, {static_cast<int64_t>(levels.size()) - 1}, {}});
  };
  def.stopsGradient = true;
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeHistogram(c.inputs[0], c.outputs[0], c.op.attr<std::vector<double>>("levels"),
                                  c.op.attr<bool>("absolute_of_input"));
  };
  def.reference = histogramReference;
  defs.push_back(def);
}

}  // namespace

void order(Defs& defs) {
  defs.push_back(argReduce<kernels::makeArgMax, true>(
      {"argmax", "ArgMax", "Index of the first largest element of an axis."}));
  defs.push_back(argReduce<kernels::makeArgMin, false>(
      {"argmin", "ArgMin", "Index of the first smallest element of an axis."}));
  topk(defs);
  median(defs);
  cumsum(defs);
  histogram(defs);
}

}  // namespace popxl::ops
