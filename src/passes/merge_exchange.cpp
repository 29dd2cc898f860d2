#include "passes/merge_exchange.h"

#include <algorithm>
#include <unordered_set>

#include "analysis/dependences.h"
#include "ops/exchange.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Op;

bool isTransfer(const Op& op) {
  switch (op.def().structure) {
    case ir::Structure::kHostLoad:
    case ir::Structure::kHostStore:
    case ir::Structure::kRemoteLoad:
    case ir::Structure::kRemoteStore:
      return !op.inplace();  // then its result is memory of another op
    default:
      return false;
  }
}

/// Whether one of the ops must run before `op`.
bool dependsOnOne(const Op& op, const std::vector<Op*>& others) {
  const std::vector<const Op*> before = analysis::mustRunBefore({&op});
  const std::unordered_set<const Op*> wanted(others.begin(), others.end());
  return std::any_of(before.begin(), before.end(), [&](const Op* b) { return wanted.contains(b); });
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

void mergeExchanges(ir::Graph& graph, const std::vector<Op*>& ops) {
  std::vector<Op*> group;
  const auto finish = [&] {
    if (group.size() > 1) merge(graph, group);
    group.clear();
  };
  for (Op* op : ops) {
    if (!isTransfer(*op)) continue;
    const bool elsewhere = !group.empty() && op->settings().context != group.front()->settings().context;
    if (elsewhere || dependsOnOne(*op, group)) finish();
    group.push_back(op);
  }
  finish();
}

bool mergeExchange(ir::Ir& ir) {
  return changeGraphs(ir, [](ir::Graph& graph) {
    const size_t before = graph.ops().size();
    mergeExchanges(graph, std::vector<Op*>(graph.ops()));
    return graph.ops().size() != before;
  });
}

}  // namespace popxl::passes
