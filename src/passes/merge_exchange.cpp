#include "passes/merge_exchange.h"

#include <algorithm>
#include <unordered_set>

#include "ops/exchange.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Op;

/// Whether one of the ops must run before `op`, by data or order.
bool dependsOnOne(const Op& op, const std::vector<Op*>& others) {
  std::unordered_set<const Op*> seen;
  std::vector<const Op*> work = {&op};
  while (!work.empty()) {
    const Op* next = work.back();
    work.pop_back();
    const auto visit = [&](const Op* before) {
      if (before != nullptr && seen.insert(before).second) work.push_back(before);
    };
    for (const ir::Tensor* t : next->inputs()) visit(t == nullptr ? nullptr : t->producer());
    for (const Op* before : next->after()) visit(before);
  }
  return std::any_of(others.begin(), others.end(), [&](const Op* other) { return seen.contains(other); });
}

std::string targetOf(const Op& op) {
  if (op.def().attrIndex("stream") >= 0) return op.attr<std::string>("stream");
  return std::to_string(op.attr<int64_t>("remote_buffer"));
}

void merge(ir::Graph& graph, const std::vector<Op*>& members) {
  std::vector<ops::Exchange> exchanges;
  ir::OpRequest request;
  for (const Op* op : members) {
    exchanges.push_back({op->name(), targetOf(*op)});
    request.inputs.insert(request.inputs.end(), op->inputs().begin(), op->inputs().end());
  }
  request.attrs = {ops::textOf(exchanges)};
  request.settings = members.back()->settings();
  request.loc = members.back()->loc();
  Op* merged = graph.addOp(*graph.ir().table().find("multi_exchange"), std::move(request));
  size_t result = 0;
  for (Op* op : members) {
    for (Op* before : op->after()) merged->addAfter(before);
    if (!op->outputs().empty()) ir::Graph::swapResults(*op, 0, *merged, result++);
    op->addAfter(merged);  // what follows a member follows the merged op
  }
  graph.eraseOps(members);
}

}  // namespace

void mergeExchanges(ir::Graph& graph, const std::vector<Op*>& transfers) {
  std::vector<Op*> group;
  const auto finish = [&] {
    if (group.size() > 1) merge(graph, group);
    group.clear();
  };
  for (Op* op : transfers) {
    if (op->inplace()) continue;  // its result is memory of another op
    const bool elsewhere = !group.empty() && op->settings().context != group.front()->settings().context;
    if (elsewhere || dependsOnOne(*op, group)) finish();
    group.push_back(op);
  }
  finish();
}

bool mergeExchange(ir::Ir& ir) {
  return changeGraphs(ir, [](ir::Graph& graph) {
    std::vector<Op*> transfers;
    for (Op* op : graph.ops()) {
      if (ops::isExchange(op->name())) transfers.push_back(op);
    }
    const size_t before = graph.ops().size();
    mergeExchanges(graph, transfers);
    return graph.ops().size() != before;
  });
}

}  // namespace popxl::passes
