#include "passes/transposed_convolutions.h"

#include <algorithm>

#include "passes/pass.h"
#include "passes/replacement.h"

namespace popxl::passes {
namespace {

using ir::Attr;
using ir::Op;
using Ints = std::vector<int64_t>;

bool isAll(const Ints& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

/// The padding of the convolution: what the transposed one does not cut off.
Ints paddingOf(const Op& op) {
  const Shape& weights = op.input(1)->shape();
  const size_t dims = weights.size() - 2;
  Ints padding = op.attr<Ints>("padding"), dilation = op.attr<Ints>("dilation");
  padding.resize(2 * dims, 0);
  dilation.resize(dims, 1);
  for (size_t i = 0; i < 2 * dims; ++i)
    padding[i] = (weights[2 + i % dims] - 1) * dilation[i % dims] - padding[i];
  return padding;
}

bool isConvolution(const Op* op) {
  if (op->def().name != "conv_transpose" || op->input(2) != nullptr || isFloat8(op->input(0)->dtype()))
    return false;
  const bool plain = isAll(op->attr<Ints>("stride"), 1) && isAll(op->attr<Ints>("output_padding"), 0) &&
                     op->attr<Ints>("output_shape").empty() && op->attr<int64_t>("groups") == 1 &&
                     op->attr<std::string>("pad_type") == "not_set";
  if (!plain) return false;
  const Ints padding = paddingOf(*op);
  return std::all_of(padding.begin(), padding.end(), [](int64_t n) { return n >= 0; });
}

std::vector<ir::Tensor*> convolution(Replacement& at) {
  const Op& op = at.op();
  ir::Tensor* flipped = at.make("conv_flip_weights", {op.input(1)})->output();
  const ir::OpDef& conv = *at.graph().ir().table().find("conv");
  std::vector<Attr> attrs(op.attrs().begin(),
                          op.attrs().begin() + static_cast<std::ptrdiff_t>(conv.attrs.size()));
  attrs[static_cast<size_t>(conv.attrIndex("padding"))] = paddingOf(op);
  return {at.make("conv", {op.input(0), flipped}, std::move(attrs))->output()};
}

}  // namespace

bool transposedConvolutions(ir::Ir& ir) {
  return changeGraphs(ir, [&](ir::Graph& graph) {
    std::vector<Op*> ops = graph.ops();
    std::erase_if(ops, [](const Op* op) { return !isConvolution(op); });
    return replaceOps(graph, ops, convolution);
  });
}

}  // namespace popxl::passes
