#include "passes/attention_match.h"

#include <algorithm>

#include "kernels/rows.h"

namespace popxl::passes {
namespace {

using ir::Op;
using ir::Tensor;

bool is(const Op* op, std::string_view name) {
  return op != nullptr && op->def().name == name && !op->inplace();
}

/// The number that a constant of one element holds.
std::optional<double> numberOf(const Tensor& t) {
  if (t.kind() != ir::TensorKind::kConstant || t.type().numElements() != 1) return std::nullopt;
  return kernels::readNumber(t.dtype(), t.data()->bytes, 0);
}

/// A product of matrices of one dtype.
bool isPlainProduct(const Op* op) {
  return is(op, "matmul") && op->input(2) == nullptr && op->input(0)->rank() >= 2 &&
         op->input(1)->rank() >= 2 && op->output()->dtype() == op->input(0)->dtype();
}

bool isOverLastAxis(const Op& softmax) {
  const int64_t axis = softmax.attr<int64_t>("axis"), rank = softmax.input(0)->rank();
  return axis == -1 || axis == rank - 1;
}

Shape leading(const Tensor& t) { return {t.shape().begin(), t.shape().end() - 2}; }

/// Follows the scores from the softmax up to the product of q and k: a mask, a bias, factors, in this order.
class ScoreChain {
 public:
  ScoreChain(Attention& found, const GraphFacts& facts, const ir::TensorType& type)
      : found_(found), facts_(facts), type_(type) {}

  bool follow(Tensor* t) {
    const Op* op = t->producer();
    if (op == nullptr || t->type() != type_ || facts_.written(t) || !facts_.uses.isSingle(*t)) return false;
    if (isPlainProduct(op)) {
      found_.q = op->input(0);
      found_.kT = op->input(1);
      return true;
    }
    if (is(op, "where")) return mask(*op);
    if (is(op, "add")) return bias(*op, 0) || bias(*op, 1);
    if (is(op, "mul")) return factor(*op, 0) || factor(*op, 1);
    return is(op, "div") && factor(*op, 0);
  }

 private:
  bool mask(const Op& op) {
    if (stage_ > 0) return false;
    stage_ = 1;
    for (const size_t arm : {1, 2}) {
      const std::optional<double> fill = numberOf(*op.input(3 - arm));
      if (!fill) continue;
      found_.condition = op.input(0);
      found_.fillsWhereTrue = arm == 2;
      found_.fill = *fill;
      return follow(op.input(arm));
    }
    return false;
  }

  bool bias(const Op& op, size_t scores) {
    if (stage_ > 1) return false;
    const int before = std::exchange(stage_, 2);
    found_.bias = op.input(1 - scores);
    if (follow(op.input(scores))) return true;
    found_.bias = nullptr;
    stage_ = before;
    return false;
  }

  bool factor(const Op& op, size_t scores) {
    const std::optional<double> number = numberOf(*op.input(1 - scores));
    if (!number) return false;
    stage_ = 3;
    found_.scale = is(&op, "mul") ? found_.scale * *number : found_.scale / *number;
    return follow(op.input(scores));
  }

  Attention& found_;
  const GraphFacts& facts_;
  const ir::TensorType& type_;
  int stage_ = 0;  // 1: past the mask, 2: past the bias, 3: among factors
};

/// The product that reads t as operand `side` and nothing else of it, among the uses of t.
Op* productOf(const Tensor& t, int32_t side, const GraphFacts& facts) {
  for (const ir::Use& use : facts.uses.of(t)) {
    if (use.index == side && isPlainProduct(use.op) && use.op->input(0) != use.op->input(1)) return use.op;
  }
  return nullptr;
}

/// Follows the gradient of the scores from the softmax's gradient down to the tensor that the products read.
Tensor* followGrad(AttentionGrad& found, const GraphFacts& facts) {
  Tensor* t = found.softmaxGrad->output();
  const ir::TensorType type = t->type();
  ir::Use use{};
  for (int stage = 0; facts.uses.isSingle(*t, &use); t = use.op->output()) {
    const Op& op = *use.op;
    if (facts.written(t) || use.index != 0 || op.outputs().size() != 1 || op.output()->type() != type)
      return nullptr;
    if ((is(&op, "where_lhs_grad") || is(&op, "where_rhs_grad")) && stage < 1) {
      stage = 1;
      found.condition = op.input(1);
      found.fillsWhereTrue = is(&op, "where_rhs_grad");
    } else if ((is(&op, "add_arg0_grad") || is(&op, "add_arg1_grad")) && stage < 2) {
      stage = 2;
    } else {
      const bool first = is(&op, "mul_arg0_grad") || is(&op, "div_arg0_grad");
      if (!first && !is(&op, "mul_arg1_grad")) return nullptr;
      const std::optional<double> number = numberOf(*op.input(first ? 2 : 1));
      if (!number) return nullptr;
      stage = 3;
      found.scale = is(&op, "div_arg0_grad") ? found.scale / *number : found.scale * *number;
    }
  }
  return facts.written(t) || facts.uses.liveness().returned(*t) ? nullptr : t;
}

/// P^T grad, the gradient of v.
Tensor* valueGrad(const AttentionGrad& found, const GraphFacts& facts) {
  for (const ir::Use& use : facts.uses.of(*found.probabilities)) {
    ir::Use product{};
    if (!swapsLastTwo(*use.op) || !facts.uses.isSingle(*use.op->output(), &product)) continue;
    if (product.index == 0 && isPlainProduct(product.op) && product.op->input(1) == found.grad)
      return product.op->output();
  }
  return nullptr;
}

bool fits(const AttentionGrad& m, const Tensor& scores, const GraphFacts& facts) {
  const Shape heads = leading(scores);
  for (const Tensor* t : {m.grad, m.vT, m.probabilities, m.qT, m.k, m.dq, m.dkT, m.dv}) {
    if (facts.written(t) || leading(*t) != heads) return false;
  }
  return !facts.written(m.condition);
}

}  // namespace

bool swapsLastTwo(const ir::Op& op) {
  if (!is(&op, "transpose")) return false;
  std::vector<int64_t> order = op.attr<std::vector<int64_t>>("permutation");
  const int64_t rank = op.input(0)->rank();
  if (rank < 2) return false;
  if (order.empty()) return rank == 2;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return std::is_sorted(order.begin(), order.end());
}

std::optional<Attention> matchAttention(ir::Op& softmax, const GraphFacts& facts) {
  Tensor* const p = softmax.output();
  if (!isOverLastAxis(softmax) || softmax.inplace() || facts.written(p) || p->rank() < 2) return std::nullopt;
  Attention found{};
  found.softmax = &softmax;
  found.scale = 1;
  found.mix = productOf(*p, 0, facts);
  if (found.mix == nullptr || leading(*found.mix->output()) != leading(*p)) return std::nullopt;
  found.v = found.mix->input(1);
  if (!ScoreChain(found, facts, p->type()).follow(softmax.input(0))) return std::nullopt;
  // v is read where it was; the others would be read later than before.
  for (const Tensor* t : {found.q, found.kT, found.bias, found.condition}) {
    if (facts.written(t)) return std::nullopt;
  }
  if (softmax.settings().context != found.mix->settings().context) return std::nullopt;
  found.keepsProbabilities = !facts.uses.isSingle(*p);
  return found;
}

std::optional<AttentionGrad> matchAttentionGrad(ir::Op& softmaxGrad, const GraphFacts& facts) {
  Tensor* const dP = softmaxGrad.input(1);
  const Op* product = dP->producer();
  if (!isOverLastAxis(softmaxGrad) || !isPlainProduct(product) || !facts.uses.isSingle(*dP))
    return std::nullopt;
  AttentionGrad found{};
  found.softmaxGrad = &softmaxGrad;
  found.scale = 1;
  found.probabilities = softmaxGrad.input(0);
  found.grad = product->input(0);
  found.vT = product->input(1);
  found.dv = valueGrad(found, facts);
  Tensor* const scores = followGrad(found, facts);
  if (found.dv == nullptr || scores == nullptr || facts.uses.of(*scores).size() != 2) return std::nullopt;
  const Op *queries = productOf(*scores, 0, facts), *keys = productOf(*scores, 1, facts);
  if (queries == nullptr || keys == nullptr) return std::nullopt;
  found.k = queries->input(1);
  found.qT = keys->input(0);
  found.dq = queries->output();
  found.dkT = keys->output();
  return fits(found, *scores, facts) ? std::optional(found) : std::nullopt;
}

}  // namespace popxl::passes
