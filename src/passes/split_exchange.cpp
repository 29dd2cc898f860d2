#include "ops/exchange.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

ir::Attr attributeOf(const ops::Exchange& e) {
  if (e.isRemote()) return static_cast<int64_t>(std::stoll(e.target));
  return e.target;
}

void split(ir::Graph& graph, ir::Op* op) {
  size_t operand = 0, result = 0;
  std::vector<ir::Op*> parts;
  for (const ops::Exchange& e : ops::exchangesOf(*op)) {
    ir::OpRequest request;
    for (size_t i = 0; i < e.operands(); ++i) request.inputs.push_back(op->input(operand++));
    request.attrs = {attributeOf(e)};
    request.settings = op->settings();
    request.loc = op->loc();
    ir::Op* part = graph.addOp(*graph.ir().table().find(e.name), std::move(request));
    for (ir::Op* before : op->after()) part->addAfter(before);
    if (!parts.empty()) part->addAfter(parts.back());  // entries of a stream come in this order
    if (e.loads()) ir::Graph::swapResults(*part, 0, *op, result++);
    parts.push_back(part);
  }
  if (!parts.empty()) op->addAfter(parts.back());  // what follows it follows all of them
  graph.eraseOp(op);
}

}  // namespace

bool splitExchange(ir::Ir& ir) {
  return changeGraphs(ir, [](ir::Graph& graph) {
    std::vector<ir::Op*> merged;
    for (ir::Op* op : graph.ops()) {
      if (op->def().name == "multi_exchange") merged.push_back(op);
    }
    for (ir::Op* op : merged) split(graph, op);
    return !merged.empty();
  });
}

}  // namespace popxl::passes
