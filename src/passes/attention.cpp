#include <algorithm>

#include "passes/attention_match.h"

// Attention that a program writes as products, masks and a softmax becomes one op, its gradient another: the
// scores then need not leave the cache.
namespace popxl::passes {
namespace {

using ir::Attr;
using ir::Graph;
using ir::Op;
using ir::Tensor;

/// Makes ops beside those that they replace.
class Rewriter {
 public:
  Rewriter(Graph& graph, const GraphFacts& facts) : graph_(graph), facts_(facts) {}

  void replace(const Attention& found) {
    std::vector<std::string> names = {found.mix->output()->name()};
    if (found.keepsProbabilities) names.push_back(found.softmax->output()->name());
    Op* op = make("attention", *found.mix,
                  {found.q, swapped(found.kT, *found.mix), found.v, found.bias, keep(found, *found.mix)},
                  {Attr(found.scale), Attr(found.fill), Attr(found.keepsProbabilities)}, names);
    takePlace(*found.mix, *op);
    follow(*op, *found.softmax);
    graph_.replaceAllUses(found.mix->output(), op->output(0));
    if (found.keepsProbabilities) graph_.replaceAllUses(found.softmax->output(), op->output(1));
    unused_.push_back(found.mix);
    unused_.push_back(found.softmax);
  }

  void replace(const AttentionGrad& found) {
    const Op& like = *found.softmaxGrad;
    Op* op = make("attention_grad", like,
                  {swapped(found.qT, like), found.k, swapped(found.vT, like), found.probabilities, found.grad,
                   keep(found, like)},
                  {Attr(found.scale)}, {found.dq->name(), found.dkT->name(), found.dv->name()});
    follow(*op, like);
    for (const Tensor* result : {found.dq, found.dkT, found.dv}) follow(*op, *result->producer());
    Tensor* const dkT = swapped(op->output(1), like);
    const std::pair<Tensor*, Tensor*> results[] = {
        {found.dq, op->output(0)}, {found.dkT, dkT}, {found.dv, op->output(2)}};
    for (const auto& [before, after] : results) {
      graph_.replaceAllUses(before, after);
      unused_.push_back(before->producer());
    }
  }

  /// Removes what was replaced, and what only that used.
  void finish() {
    while (!unused_.empty()) {
      Op* op = unused_.back();
      unused_.pop_back();
      if (op->erased() || !isPure(*op) || !isUnused(*op)) continue;
      for (const Tensor* t : op->inputs()) {
        if (t != nullptr && t->producer() != nullptr) unused_.push_back(t->producer());
      }
      graph_.eraseOp(op);
    }
  }

 private:
  Op* make(std::string_view name, const Op& like, std::vector<Tensor*> inputs, std::vector<Attr> attrs,
           std::vector<std::string> names) {
    return graph_.addOp(*graph_.ir().table().find(name), {std::move(inputs), std::move(attrs), false,
                                                          std::move(names), like.settings(), like.loc()});
  }

  /// `t` with the last two dimensions swapped: what it was made from, or a new view of it.
  Tensor* swapped(Tensor* t, const Op& like) {
    if (const Op* op = t->producer(); op != nullptr && swapsLastTwo(*op) && !facts_.written(op->input(0))) {
      return op->input(0);
    }
    std::vector<int64_t> order;
    for (int64_t i = 0; i < t->rank(); ++i) order.push_back(i);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return make("transpose", like, {t}, {Attr(order)}, {t->name() + "_T"})->output();
  }

  /// Where scores are not masked; null without a mask.
  template <typename Found>
  Tensor* keep(const Found& found, const Op& like) {
    if (found.condition == nullptr || !found.fillsWhereTrue) return found.condition;
    return make("logical_not", like, {found.condition}, {}, {found.condition->name() + "_not"})->output();
  }

  /// What is ordered before `old` is so before `op` too.
  static void follow(Op& op, const Op& old) {
    for (Op* before : old.after()) op.addAfter(before);
  }

  /// What is ordered before or after `old` is so before or after `op` too.
  void takePlace(const Op& old, Op& op) {
    follow(op, old);
    for (Op* other : graph_.ops()) {
      const auto& after = other->after();
      if (std::find(after.begin(), after.end(), &old) != after.end()) other->addAfter(&op);
    }
  }

  static bool isPure(const Op& op) {
    return op.def().structure == ir::Structure::kNone && !op.def().sideEffect && !op.modifiesAny();
  }

  bool isUnused(const Op& op) const {
    const auto& outputs = graph_.outputs();
    return std::all_of(op.outputs().begin(), op.outputs().end(), [&](const Tensor* t) {
      return t->uses().empty() && std::find(outputs.begin(), outputs.end(), t) == outputs.end();
    });
  }

  Graph& graph_;
  const GraphFacts& facts_;
  std::vector<Op*> unused_;
};

template <typename Match>
bool replaceAll(ir::Ir& ir, std::string_view anchor, const Match& match) {
  const auto isAnchor = [&](const Op* op) { return op->def().name == anchor; };
  const auto has = [&](const Graph* graph) {
    return std::any_of(graph->ops().begin(), graph->ops().end(), isAnchor);
  };
  std::vector<Graph*> graphs = ir.graphs();
  std::erase_if(graphs, [&](const Graph* graph) { return !has(graph); });
  if (graphs.empty()) return false;
  const analysis::ValueUses uses(ir);
  bool changed = false;
  for (Graph* graph : graphs) {
    const GraphFacts facts{uses, analysis::Written(*graph)};
    std::vector<std::remove_cvref_t<decltype(*match(*graph->ops().front(), facts))>> found;
    for (Op* op : graph->ops()) {
      if (!isAnchor(op) || !uses.liveness().live(*op)) continue;
      if (const auto one = match(*op, facts)) found.push_back(*one);
    }
    Rewriter rewriter(*graph, facts);
    for (const auto& one : found) rewriter.replace(one);
    rewriter.finish();
    changed = changed || !found.empty();
  }
  return changed;
}

}  // namespace

bool attention(ir::Ir& ir) {
  const bool forward = replaceAll(ir, "softmax", matchAttention);
  return replaceAll(ir, "softmax_grad", matchAttentionGrad) || forward;
}

}  // namespace popxl::passes
