#include "passes/expand_batch_norm.h"

#include <cstring>

#include "base/error.h"
#include "passes/pass.h"
#include "passes/replacement.h"

namespace popxl::passes {
namespace {

using ir::Attr;
using ir::Op;
using ir::Tensor;

/// A tensor [C] so that it broadcasts against [N, C, ...].
Tensor* perChannel(Replacement& norm, Tensor* t) {
  Shape shape(norm.op().input(0)->shape().size() - 1, 1);
  shape[0] = t->shape()[0];
  const ir::OpDef& reshape = *norm.graph().ir().table().find("reshape");
  std::vector<Attr> attrs(reshape.attrs.size());
  attrs[static_cast<size_t>(reshape.attrIndex("shape"))] = shape;
  return norm.make("reshape", {t}, std::move(attrs))->output();
}

Tensor* epsilon(Replacement& norm, DType dtype) {
  auto data = ir::HostData::allocate(sizeOf(dtype));
  const auto value = norm.op().attr<double>("epsilon");
  const auto single = static_cast<float>(value);
  if (dtype == DType::kFloat64) {
    std::memcpy(data->bytes, &value, sizeof(value));
  } else {
    std::memcpy(data->bytes, &single, sizeof(single));
  }
  return norm.graph().addConstant("epsilon", {dtype, {}, {}}, std::move(data));
}

std::vector<Tensor*> expand(Replacement& norm) {
  const auto make = [&](std::string_view name, std::vector<Tensor*> inputs) {
    return norm.make(name, std::move(inputs))->output();
  };
  const std::vector<Tensor*> operands = norm.op().inputs();
  Tensor *x = operands[0], *scale = operands[1], *bias = operands[2], *mean = operands[3], *var = operands[4];
  Tensor* deviation = make("sqrt", {make("add", {var, epsilon(norm, var->dtype())})});
  Tensor* factor = perChannel(norm, make("div", {scale, deviation}));
  Tensor* scaled = make("mul", {make("sub", {x, perChannel(norm, mean)}), factor});
  return {make("add", {scaled, perChannel(norm, bias)})};
}

/// Other dtypes keep the kernel, which rounds once.
bool isExpanded(const Op& op) {
  const DType dtype = op.input(0)->dtype();
  return (dtype == DType::kFloat32 || dtype == DType::kFloat64) && op.input(1)->dtype() == dtype;
}

}  // namespace

bool expandBatchNorm(ir::Ir& ir) {
  return changeGraphs(ir, [&](ir::Graph& graph) {
    std::vector<Op*> norms;
    for (Op* op : graph.ops()) {
      if (op->def().name == "batch_norm_inference" && isExpanded(*op)) norms.push_back(op);
    }
    return replaceOps(graph, norms, expand);
  });
}

}  // namespace popxl::passes
