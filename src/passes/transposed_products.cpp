#include "passes/transposed_products.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "passes/attention_match.h"

namespace popxl::passes {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Op;
using ir::Tensor;

/// Swaps the last two of `rank` dimensions.
Attr swapOfLast(int64_t rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return Attr(std::move(order));
}

bool isProductOfMatrices(const Op* op) {
  return op != nullptr && op->def().name == "matmul" && op->input(2) == nullptr &&
         op->input(0)->rank() >= 2 && op->input(1)->rank() >= 2;
}

/// The product that `op` transposes, if nothing else reads it; null otherwise.
Op* transposedProduct(const Op& op, const analysis::ValueUses& uses, const analysis::Written& written) {
  if (!swapsLastTwo(op)) return nullptr;
  Op* product = op.input(0)->producer();
  if (!isProductOfMatrices(product) || !uses.isSingle(*op.input(0))) return nullptr;
  const bool changes = written(product->input(0)) || written(product->input(1)) || written(op.output());
  return changes ? nullptr : product;
}

void replace(Graph& graph, Op& transpose, const Op& product) {
  const auto make = [&](const char* name, std::vector<Tensor*> inputs, std::vector<Attr> attrs,
                        const std::string& as) {
    Op* op =
        graph.addOp(*graph.ir().table().find(name),
                    {std::move(inputs), std::move(attrs), false, {as}, product.settings(), product.loc()});
    for (const Op* old : {&std::as_const(transpose), &product}) {
      for (Op* before : old->after()) op->addAfter(before);
    }
    return op->output();
  };
  const auto swapped = [&](Tensor* t) {
    return make("transpose", {t}, {swapOfLast(t->rank())}, t->name() + "_T");
  };
  Tensor* lhs = swapped(product.input(1));
  Tensor* rhs = swapped(product.input(0));
  graph.replaceAllUses(transpose.output(),
                       make("matmul", {lhs, rhs}, product.attrs(), transpose.output()->name()));
}

}  // namespace

bool transposedProducts(ir::Ir& ir) {
  std::vector<Graph*> graphs = ir.graphs();
  std::erase_if(graphs, [](const Graph* graph) {
    const std::vector<Op*>& ops = graph->ops();
    return std::none_of(ops.begin(), ops.end(), [](const Op* op) {
      return swapsLastTwo(*op) && isProductOfMatrices(op->input(0)->producer());
    });
  });
  if (graphs.empty()) return false;
  const analysis::ValueUses uses(ir);
  bool changed = false;
  for (Graph* graph : graphs) {
    const analysis::Written written(*graph);
    const std::vector<Op*> ops = graph->ops();  // a copy: ops are added on the way
    for (Op* op : ops) {
      if (!uses.liveness().live(*op)) continue;
      if (const Op* product = transposedProduct(*op, uses, written); product != nullptr) {
        replace(*graph, *op, *product);
        changed = true;
      }
    }
  }
  return changed;
}

}  // namespace popxl::passes
