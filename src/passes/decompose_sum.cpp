#include "passes/decompose_sum.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Op;
using ir::Tensor;

constexpr std::string_view kSum = "add_n";

std::vector<Attr> initAttrs(const ir::OpDef& init, const ir::TensorType& type) {
  std::vector<Attr> attrs(init.attrs.size());
  attrs[static_cast<size_t>(init.attrIndex("shape"))] = type.shape;
  attrs[static_cast<size_t>(init.attrIndex("dtype"))] = type.dtype;
  return attrs;
}

/// Not so for the negative sizes that inference may give: nothing can be made of that shape.
bool canBeFilled(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 0; });
}

/// Makes the adds; the last one's result is the sum.
Op* addChain(Graph& graph, const Op& sum, const std::vector<Tensor*>& order) {
  const auto& table = graph.ir().table();
  const ir::OpDef *init = table.find("init"), *add = table.find("add");
  const Tensor& result = *sum.output();
  const auto request = [&](std::vector<Tensor*> inputs, std::vector<Attr> attrs, const std::string& suffix) {
    return ir::OpRequest{std::move(inputs),        std::move(attrs), false,
                         {result.name() + suffix}, sum.settings(),   sum.loc()};
  };
  Op* last = graph.addOp(*init, request({}, initAttrs(*init, result.type()), "_init"));
  for (size_t i = 0; i < order.size(); ++i) {
    last = graph.addOp(*add, request({last->output(), order[i]}, {}, fmt::format("_{}", i)));
  }
  return last;
}

}  // namespace

bool decomposeSum(Graph& graph) {
  std::vector<Op*> sums;
  for (Op* op : graph.ops()) {
    if (op->def().name == kSum && op->inputs().size() > 2 && canBeFilled(op->output()->shape()))
      sums.push_back(op);
  }
  if (sums.empty()) return false;
  std::unordered_map<const Op*, std::vector<Op*>> followers;
  for (Op* op : graph.ops()) {
    for (const Op* before : op->after()) followers[before].push_back(op);
  }
  std::unordered_map<const Op*, size_t> position;
  for (const Op* op : graph.schedule()) position.emplace(op, position.size() + 1);
  const auto available = [&](const Tensor* t) {
    return t->producer() == nullptr ? 0 : position.at(t->producer());
  };

  for (Op* sum : sums) {
    std::vector<Tensor*> order = sum->inputs();
    std::stable_sort(order.begin(), order.end(),
                     [&](const Tensor* a, const Tensor* b) { return available(a) < available(b); });
    Op* last = addChain(graph, *sum, order);
    position.emplace(last, position.at(sum));  // a sum of this sum sees it where it was
    for (Op* before : sum->after()) {
      last->addAfter(before);
      followers[before].push_back(last);  // `before` may be a sum that is still to be split
    }
    for (Op* follower : followers[sum]) follower->addAfter(last);
    graph.replaceAllUses(sum->output(), last->output());
  }
  graph.eraseOps(sums);
  return true;
}

bool decomposeSum(ir::Ir& ir) {
  return changeGraphs(ir, [&](Graph& graph) { return decomposeSum(graph); });
}

}  // namespace popxl::passes
