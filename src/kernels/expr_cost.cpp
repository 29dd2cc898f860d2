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
  const std::vector<bool> used = usedNodes(expr);
  double flops = 0;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) flops += flopsOf(expr.nodes()[i].prim);
  }
  return flops;
}

}  // namespace popxl::kernels
