#include "analysis/calls.h"

#include "base/error.h"

namespace popxl::analysis {
namespace {

bool matches(const ir::Op& op) {
  std::vector<ir::TensorType> types;
  try {
    op.def().infer(op, types);
  } catch (const Error&) {
    return false;
  }
  if (types.size() != op.outputs().size()) return false;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].shape != op.output(i)->shape() || types[i].dtype != op.output(i)->dtype()) return false;
  }
  return true;
}

}  // namespace

void checkCalls(const ir::Ir& ir) {
  for (const ir::Graph* graph : ir.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (op->calledGraph() == nullptr || matches(*op)) continue;
      fail(ErrorKind::kGraph,
           "`{}` at {} runs graph `{}`, whose inputs or outputs were changed afterwards, so that operands "
           "and results no "
           "longer match; complete a graph before calling it",
           op->name(), op->loc().str(), op->calledGraph()->displayName());
    }
  }
}

}  // namespace popxl::analysis
