#include "passes/expand_batch_norm.h"

#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Op;
using ir::Tensor;

/// Makes the ops that replace one batch norm; each stands where and when it did.
class Expansion {
 public:
  Expansion(Graph& graph, const Op& norm) : graph_(graph), norm_(norm) {}

  Tensor* run() {
    Tensor *x = norm_.input(0), *scale = norm_.input(1), *bias = norm_.input(2), *mean = norm_.input(3),
           *var = norm_.input(4);
    Tensor* deviation = make("sqrt", {make("add", {var, epsilon(var->dtype())})});
    Tensor* factor = perChannel(make("div", {scale, deviation}));
    Tensor* scaled = make("mul", {make("sub", {x, perChannel(mean)}), factor});
    return make("add", {scaled, perChannel(bias)});
  }
  const std::vector<Op*>& made() const { return made_; }

 private:
  Tensor* make(std::string_view name, std::vector<Tensor*> inputs, std::vector<Attr> attrs = {}) {
    ir::OpRequest request{
        std::move(inputs), std::move(attrs), false, {norm_.output()->name() + "_" + std::string(name)},
        norm_.settings(),  norm_.loc()};
    made_.push_back(graph_.addOp(*graph_.ir().table().find(name), std::move(request)));
    for (Op* before : norm_.after()) made_.back()->addAfter(before);
    return made_.back()->output();
  }

  /// A tensor [C] so that it broadcasts against [N, C, ...].
  Tensor* perChannel(Tensor* t) {
    Shape shape(norm_.input(0)->shape().size() - 1, 1);
    shape[0] = t->shape()[0];
    const ir::OpDef& reshape = *graph_.ir().table().find("reshape");
    std::vector<Attr> attrs(reshape.attrs.size());
    attrs[static_cast<size_t>(reshape.attrIndex("shape"))] = shape;
    return make("reshape", {t}, std::move(attrs));
  }

  Tensor* epsilon(DType dtype) {
    auto data = ir::HostData::allocate(sizeOf(dtype));
    const auto value = norm_.attr<double>("epsilon");
    const auto single = static_cast<float>(value);
    if (dtype == DType::kFloat64) {
      std::memcpy(data->bytes, &value, sizeof(value));
    } else {
      std::memcpy(data->bytes, &single, sizeof(single));
    }
    return graph_.addConstant("epsilon", {dtype, {}, {}}, std::move(data));
  }

  Graph& graph_;
  const Op& norm_;
  std::vector<Op*> made_;
};

/// Other dtypes keep the kernel, which rounds once.
bool isExpanded(const Op& op) {
  const DType dtype = op.input(0)->dtype();
  return (dtype == DType::kFloat32 || dtype == DType::kFloat64) && op.input(1)->dtype() == dtype;
}

bool expand(Graph& graph) {
  std::vector<Op*> norms;
  for (Op* op : graph.ops()) {
    if (op->def().name == "batch_norm_inference" && isExpanded(*op)) norms.push_back(op);
  }
  if (norms.empty()) return false;
  std::unordered_map<const Op*, std::vector<Op*>> followers;
  for (Op* op : graph.ops()) {
    for (const Op* before : op->after()) followers[before].push_back(op);
  }
  for (Op* norm : norms) {
    Expansion expansion(graph, *norm);
    Tensor* result = expansion.run();
    for (Op* follower : followers[norm]) {
      for (Op* made : expansion.made()) follower->addAfter(made);
    }
    graph.replaceAllUses(norm->output(), result);
  }
  graph.eraseOps(norms);
  return true;
}

}  // namespace

bool expandBatchNorm(ir::Ir& ir) {
  return changeGraphs(ir, [&](Graph& graph) { return expand(graph); });
}

}  // namespace popxl::passes
