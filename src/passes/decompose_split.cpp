#include <algorithm>

#include "analysis/written.h"
#include "ir/ir.h"
#include "passes/pass.h"

namespace popxl::passes {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Op;
using ir::Tensor;

/// Pieces that nothing changes, of a tensor that nothing changes, need no memory of their own.
bool canBeViews(const Op& split, const analysis::Written& written) {
  return !written(split.input(0)) && std::none_of(split.outputs().begin(), split.outputs().end(), written);
}

void replace(Graph& graph, const Op& split) {
  const ir::OpDef& slice = *graph.ir().table().find("slice");
  const int64_t axis = split.attr<int64_t>("axis");
  int64_t begin = 0;
  for (size_t i = 0; i < split.outputs().size(); ++i) {
    const int64_t end = begin + split.attr<std::vector<int64_t>>("splits")[i];
    Tensor* const piece = split.output(i);
    const auto one = [](int64_t value) { return Attr(std::vector<int64_t>{value}); };
    Op* op = graph.addOp(slice, {{split.input(0)},
                                 {one(begin), one(end), one(1), one(axis)},
                                 false,
                                 {piece->name()},
                                 split.settings(),
                                 split.loc()});
    for (Op* before : split.after()) op->addAfter(before);
    graph.replaceAllUses(piece, op->output());
    begin = end;
  }
}

bool decomposeSplit(Graph& graph) {
  std::vector<Op*> splits;
  for (Op* op : graph.ops()) {
    if (op->def().name == "split") splits.push_back(op);
  }
  if (splits.empty()) return false;
  const analysis::Written written(graph);
  std::erase_if(splits, [&](const Op* op) { return !canBeViews(*op, written); });
  for (const Op* split : splits) replace(graph, *split);
  graph.eraseOps(splits);
  return !splits.empty();
}

}  // namespace

bool decomposeSplit(ir::Ir& ir) {
  return changeGraphs(ir, [&](Graph& graph) { return decomposeSplit(graph); });
}

}  // namespace popxl::passes
