#include "ir/loop.h"

#include <algorithm>

namespace popxl::ir {

Loop::Loop(const Op& op)
    : body(op.calledGraph()),
      first(firstInput(op)),
      count(op.attr<int64_t>("repeat_count")),
      trips(first == 0 ? nullptr : op.input(0)),
      reverse(op.attr<bool>("reverse")),
      whileTrue(op.attr<bool>("while_true")) {
  stacked = std::min(static_cast<size_t>(op.attr<int64_t>("stacked")), body->outputs().size());
  carried = body->outputs().size() - stacked;
  scanned = static_cast<size_t>(op.attr<int64_t>("scanned"));
}

size_t firstInput(const Op& op, size_t graph) {
  // Operands before the variadic ones are the op's own: a condition, a trip count.
  const size_t own = op.def().operands.size();
  size_t operand = own == 0 ? 0 : own - 1;
  const std::vector<Graph*> graphs = op.calledGraphs();
  for (size_t i = 0; i < graph; ++i) operand += graphs[i]->inputs().size();
  return operand;
}

Shape stackedShape(int64_t count, const Shape& shape) {
  Shape stacked = {count};
  stacked.insert(stacked.end(), shape.begin(), shape.end());
  return stacked;
}

}  // namespace popxl::ir
