#include "kernels/expr_cost.h"

namespace popxl::kernels {

double flopsOf(Prim p) {
  switch (p) {
    case Prim::kInput:
    case Prim::kConst:
    case Prim::kBitcast:
      return 0;
    case Prim::kSqrt:
    case Prim::kDiv:
    case Prim::kMod:
      return 4;
    case Prim::kExp:
    case Prim::kLog:
    case Prim::kTanh:
      return 16;
    case Prim::kErf:
    case Prim::kSin:
    case Prim::kCos:
    case Prim::kPhilox:
      return 24;
    case Prim::kPow:
      return 32;
    default:
      return 1;
  }
}

double flopsOf(const Expr& expr) {
  const std::vector<Node>& nodes = expr.nodes();
  std::vector<bool> needed(nodes.size(), false);
  for (const int32_t id : expr.outputs()) needed[static_cast<size_t>(id)] = true;
  double flops = 0;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    flops += flopsOf(nodes[i].prim);
    for (const int32_t operand : {nodes[i].a, nodes[i].b, nodes[i].c}) {
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
    }
  }
  return flops;
}

}  // namespace popxl::kernels
