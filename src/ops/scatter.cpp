#include <algorithm>
#include <cmath>

#include "kernels/copy.h"
#include "kernels/gather.h"
#include "ops/composite.h"
#include "ops/define.h"

// Elements written, or combined, at places on an axis that index tensors give.
namespace popxl::ops {

namespace {

ir::AttrDef axisAttr() {
  return {"axis", AttrType::kInt, "The axis; negative counts from the last.", Attr(int64_t{0})};
}
ir::AttrDef memoryAttr() {
  return {
      "available_memory_proportion", AttrType::kFloat, "Kept for compatibility; has no effect.", {}, true};
}

/// Error(kGraph) unless positions of this shape fit into the target beside the axis.
void requireInside(const Op& op, size_t operand, const Shape& positions, const Shape& target, int64_t axis) {
  for (size_t d = 0; d < positions.size(); ++d) {
    if (static_cast<int64_t>(d) == axis || positions[d] <= target[d]) continue;
    fail(ErrorKind::kGraph, "{} covers {} elements of dimension {}, of which the result has {}",
         describe(op, operand), positions[d], d, target[d]);
  }
}

int64_t firstAxis(const Op& op) { return axisOf(op, op.input(0)->rank()); }

/// f(position, its place in a tensor of shape `target`) for every position with a place. `at` gives the index
/// of a position.
template <typename At, typename F>
void forPlaces(const Shape& positions, const Shape& target, int64_t axis, bool negativeWraps, const At& at,
               const F& f) {
  const int64_t size = target[static_cast<size_t>(axis)];
  ir::forEachIndex(positions, [&](const Shape& position) {
    int64_t index = at(position);
    if (negativeWraps && index < 0) index += size;
    if (index < 0 || index >= size) return;
    Shape place = position;
    place[static_cast<size_t>(axis)] = index;
    f(position, place);
  });
}

// --- scatter

void scatterReference(ReferenceContext& c) {
  Array& out = c.out[0];
  out = c.in[0];
  forPlaces(
      c.in[1].shape(), out.shape(), firstAxis(c.op), true,
      [&](const Shape& position) { return c.in[1].at(position).integer(); },
      [&](const Shape& position, const Shape& place) { out.at(place) = c.in[2].at(position); });
}

void inferScatter(const Op& op, Types& out) {
  requireRank(op, 1, op.input(0)->rank());
  requireSameDType(op, 0, 2);
  requireSameShape(op, 1, 2);
  requireInside(op, 1, typeOf(op, 1).shape, typeOf(op, 0).shape, firstAxis(op));
  sameType(op, out);
}

void scatterRule(GradContext& c) {
  Tensor* dy = c.outGrad();
  if (c.wants(0)) {
    c.set(0, c.make("scatter", {dy, c.input(1), c.zeros(c.op.input(2)->type())}, c.op.attrs()));
  }
  if (c.wants(2)) {  // `values` need not be as large as t
    c.set(2, c.make("scatter_pick", {dy, c.input(1)},
                    {intsAttr(c.op.input(2)->shape()), c.op.attrValue("axis"), Attr(true), Attr(true),
                     Attr(false)}));
  }
}

void scatterOp(Defs& defs) {
  OpDef def;
  def.name = "scatter";
  def.type = "Scatter";
  def.doc = "A tensor with elements replaced at places on an axis; of several for one place the last counts.";
  def.operands = {{"t", ir::kAny},
                  {"indices", ir::kInts,
                   "For every element of `values` its place on the axis; negative counts from the end."},
                  {"values", ir::kAny, "The elements; their other coordinates are those that they have."}};
  def.attrs = {axisAttr(), memoryAttr()};
  def.infer = inferScatter;
  def.grad = scatterRule;
  def.kernel = [](const ir::KernelContext& c) {
    return kernels::makeScatter(c.inputs[0], c.inputs[1], c.inputs[2], c.outputs[0], firstAxis(c.op));
  };
  def.reference = scatterReference;
  defs.push_back(def);
}

// --- scatter_reduce

/// Where elements of a tensor of shape `data` go: operand 1 of an op with the attributes `axis` and
/// `enable_index_broadcast`.
struct Places {
  Shape positions;  ///< the part of data that has an index
  Layout indices;   ///< of that shape; no index is moved

  Places(const Op& op, const Shape& data);
  /// The positions in the dense memory of a tensor of shape `data`.
  Layout partOf(const Layout& data) const { return {data.dtype, positions, contiguousStrides(data.shape)}; }
};

Places::Places(const Op& op, const Shape& data) : indices(typeOf(op, 1).dtype, typeOf(op, 1).shape) {
  Shape& shape = indices.shape;
  const std::string given = describe(op, 1);
  if (shape.size() > data.size()) {
    fail(ErrorKind::kGraph, "{} has more dimensions than the elements, which have the shape {}", given,
         toString(data));
  }
  const int64_t axis = axisOf(op, static_cast<int64_t>(data.size()));
  if (shape.size() == 1) shape.insert(shape.begin(), static_cast<size_t>(axis), 1);
  shape.resize(data.size(), 1);
  indices.strides = contiguousStrides(shape);
  const bool broadcasts = op.attr<bool>("enable_index_broadcast");
  for (size_t d = 0; d < data.size(); ++d) {
    if (broadcasts ? shape[d] != data[d] && shape[d] != 1 : shape[d] > data[d]) {
      fail(ErrorKind::kGraph, "{} does not {} the shape {} of the elements", given,
           broadcasts ? "broadcast to" : "fit into", toString(data));
    }
    if (broadcasts && shape[d] != data[d]) indices.strides[d] = 0;
  }
  if (broadcasts) shape = data;
  positions = shape;
}

kernels::ScatterReduction reductionOf(const Op& op) {
  const auto& name = op.attr<std::string>("reduction");
  if (name == "sum") return kernels::ScatterReduction::kSum;
  if (name == "max") return kernels::ScatterReduction::kMax;
  if (name == "min") return kernels::ScatterReduction::kMin;
  if (name == "none") return kernels::ScatterReduction::kNone;
  fail(ErrorKind::kValue, "`reduction` is \"{}\"; it must be \"sum\", \"max\", \"min\" or \"none\"", name);
}

void inferScatterReduce(const Op& op, Types& out) {
  reductionOf(op);
  const int64_t axis = firstAxis(op);
  Shape shape = Places(op, typeOf(op, 0).shape).positions;
  if (op.input(2) != nullptr) {
    requireSameDType(op, 0, 2);
    requireRank(op, 2, op.input(0)->rank());
    requireInside(op, 0, shape, typeOf(op, 2).shape, axis);
    out.push_back(typeOf(op, 2));
    return;
  }
  const auto size = op.attrOr<int64_t>("axis_size", -1);
  if (size < 0) {
    fail(ErrorKind::kValue,
         "`axis_size` must be given, and not be negative, where `initial_values` does not say how large the "
         "result is");
  }
  shape[static_cast<size_t>(axis)] = size;
  out.push_back({typeOf(op, 0).dtype, std::move(shape), {}});
}

kernels::KernelPtr scatterReduceKernel(const ir::KernelContext& c) {
  const Places places(c.op, c.inputs[0].shape);
  std::optional<Layout> initial;
  if (c.inputs.size() == 3) initial = c.inputs[2];
  return kernels::makeScatterReduce(places.partOf(c.inputs[0]), places.indices, initial, c.outputs[0],
                                    firstAxis(c.op), reductionOf(c.op));
}

/// The index of a position, which no broadcast dimension of the indices has a part in.
int64_t indexAt(const Places& places, const Array& indices, const Shape& position) {
  int64_t at = 0;
  for (size_t d = 0; d < position.size(); ++d) at += position[d] * places.indices.strides[d];
  return indices[at].integer();
}

void scatterReduceReference(ReferenceContext& c) {
  const Places places(c.op, c.in[0].shape());
  const kernels::ScatterReduction reduction = reductionOf(c.op);
  Array& out = c.out[0];
  Array reached(DType::kBool, out.shape());
  if (c.op.input(2) != nullptr) {
    out = c.in[2];
    for (int64_t i = 0; i < out.size(); ++i) reached[i] = Number::integer(1);
  }
  forPlaces(
      places.positions, out.shape(), firstAxis(c.op), false,
      [&](const Shape& position) { return indexAt(places, c.in[1], position); },
      [&](const Shape& position, const Shape& place) {
        const Number &value = c.in[0].at(position), &old = out.at(place);
        const bool first = reached.at(place).integer() == 0;
        const bool isNan = value.isFloat() && std::isnan(value.real());
        reached.at(place) = Number::integer(1);
        if (reduction == kernels::ScatterReduction::kSum) {
          out.at(place) = old + value;
        } else if (first || reduction == kernels::ScatterReduction::kNone || isNan ||
                   (reduction == kernels::ScatterReduction::kMax ? old < value : value < old)) {
          out.at(place) = value;
        }
      });
}

/// An extremum passes its gradient to every element that is equal to it, as a reduction over axes does.
void scatterReduceRule(GradContext& c) {
  Tensor* dy = c.outGrad();
  const auto& reduction = c.op.attr<std::string>("reduction");
  const bool extremum = reduction == "max" || reduction == "min", last = reduction == "none";
  if (c.wants(0)) {
    const Attr shape = intsAttr(c.op.input(0)->shape());
    const auto pick = [&](Tensor* from) {
      return c.make(
          "scatter_pick", {from, c.input(1)},
          {shape, c.op.attrValue("axis"), Attr(last), Attr(false), c.op.attrValue("enable_index_broadcast")});
    };
    Tensor* grad = pick(dy);
    if (extremum) grad = c.make("max_grad", {grad, c.input(0), pick(c.output())}, {shape});
    c.set(0, grad);
  }
  if (!c.wants(2)) return;
  Tensor* grad = dy;
  if (extremum) {
    grad = c.make("max_grad", {dy, c.input(2), c.output()}, {intsAttr(c.op.output()->shape())});
  } else if (last) {
    grad = c.make("scatter_reduce", {c.zeros(c.op.input(0)->type()), c.input(1), dy}, c.op.attrs());
  }
  c.set(2, grad);
}

ir::AttrDef indexBroadcast() {
  return {"enable_index_broadcast", AttrType::kBool,
          "Whether indices are broadcast to the shape of the elements; otherwise only those elements that "
          "their shape covers take part.",
          Attr(true)};
}

void scatterReduceOp(Defs& defs) {
  OpDef def;
  def.name = "scatter_reduce";
  def.type = "ScatterReduce";
  def.doc = "Elements combined at places on an axis of a new tensor, or onto initial values.";
  def.operands = {{"data", ir::kNumeric, "The elements; their other coordinates are those that they have."},
                  {"indices", ir::kInts,
                   "Their places on the axis; a vector lies along it. Elements out of range are dropped."},
                  {"initial_values", ir::kNumeric, "What the elements are combined with.", Arity::kOptional}};
  def.attrs = {{"reduction", AttrType::kString,
                "\"sum\", \"max\", \"min\", or \"none\": of several for one place the last counts."},
               axisAttr(),
               {"axis_size",
                AttrType::kInt,
                "Size of the axis in the result, which is 0 where nothing arrives; not needed with "
                "`initial_values`.",
                {},
                true},
               indexBroadcast(),
               memoryAttr()};
  def.infer = inferScatterReduce;
  def.visibility = Visibility::kManual;
  def.grad = scatterReduceRule;
  def.kernel = scatterReduceKernel;
  def.reference = scatterReduceReference;
  defs.push_back(def);
}

// --- scatter_pick

kernels::KernelPtr pickKernel(const ir::KernelContext& c) {
  const Layout& t = c.inputs[0];
  const Places places(c.op, c.outputs[0].shape);
  const kernels::PickRule rule = {c.op.attr<bool>("last_only"), c.op.attr<bool>("negative_wraps")};
  auto pick = kernels::makeScatterPick(t, places.indices, places.partOf(c.outputs[0]), firstAxis(c.op), rule);
  if (places.positions == c.outputs[0].shape) return pick;
  Composite all(3);
  all.step(kernels::makeFill(c.outputs[0], 0.0), {2}).step(std::move(pick), {0, 1, 2});
  return std::move(all).make();
}

void pickReference(ReferenceContext& c) {
  const Places places(c.op, c.out[0].shape());
  const bool lastOnly = c.op.attr<bool>("last_only");
  Array last(DType::kInt64, c.in[0].shape());
  const auto at = [&](const Shape& position) { return indexAt(places, c.in[1], position); };
  const auto each = [&](const auto& f) {
    forPlaces(places.positions, c.in[0].shape(), firstAxis(c.op), c.op.attr<bool>("negative_wraps"), at, f);
  };
  each([&](const Shape& position, const Shape& place) {
    last.at(place) = Number::integer(c.out[0].position(position));
  });
  each([&](const Shape& position, const Shape& place) {
    const bool counts = !lastOnly || last.at(place).integer() == c.out[0].position(position);
    if (counts) c.out[0].at(position) = c.in[0].at(place);
  });
}

/// What was picked goes back to its place.
void pickRule(GradContext& c) {
  Tensor* zeros = c.zeros(c.op.input(0)->type());
  const Attr& axis = c.op.attrValue("axis");
  if (c.op.attr<bool>("negative_wraps")) {
    c.set(0, c.make("scatter", {zeros, c.input(1), c.outGrad()}, {axis}));
  } else {
    c.set(0, c.make("scatter_reduce", {c.outGrad(), c.input(1), zeros},
                    {textAttr(c.op.attr<bool>("last_only") ? "none" : "sum"),
                     axis,
                     {},
                     c.op.attrValue("enable_index_broadcast")}));
  }
}

void scatterPick(Defs& defs) {
  OpDef def;
  def.name = "scatter_pick";
  def.type = "ScatterPick";
  def.doc = "What is at the places to which scatter or scatter_reduce put elements: their gradient.";
  def.operands = {{"t", ir::kAny}, {"indices", ir::kInts, "As for scatter or scatter_reduce."}};
  def.attrs = {
      {"shape", AttrType::kInts, "Shape of the elements."},
      axisAttr(),
      {"last_only", AttrType::kBool, "Whether of several with one place only the last is not 0.",
       Attr(false)},
      {"negative_wraps", AttrType::kBool, "Whether negative indices count from the end.", Attr(false)},
      indexBroadcast()};
  def.infer = [](const Op& op, Types& out) {
    requireRank(op, 0, static_cast<int64_t>(ints(op, "shape").size()));
    requireInside(op, 1, Places(op, ints(op, "shape")).positions, typeOf(op, 0).shape, firstAxis(op));
    shapeOfAttr(op, out);
  };
  def.visibility = Visibility::kInternal;
  def.grad = pickRule;
  def.kernel = pickKernel;
  def.reference = pickReference;
  defs.push_back(def);
}

}  // namespace

void scatter(Defs& defs) {
  scatterOp(defs);
  scatterReduceOp(defs);
  scatterPick(defs);
}

}  // namespace popxl::ops
