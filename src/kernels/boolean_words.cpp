#include "kernels/boolean_words.h"

#include <vector>

namespace popxl::kernels {
namespace {

constexpr double kOnes = 0x01010101;

/// 1 in every byte that is not 0.
Val isNotZero(Val word) {
  const Val low = word.constant(0x7f7f7f7f);
  const Val any = binary(Prim::kOr, binary(Prim::kAnd, word, low) + low, word);
  return binary(Prim::kAnd, binary(Prim::kShr, any, word.constant(7)), word.constant(kOnes));
}

/// A node's value on words, its operands' being in `words`; without one where it is no logic.
Val onWords(Expr& to, const Node& n, const std::vector<Val>& words) {
  const auto operand = [&](int32_t id) { return words[static_cast<size_t>(id)]; };
  switch (n.prim) {
    case Prim::kInput:
      return n.element < 0 ? isNotZero(input(to, n.index, VType::kU32)) : Val{};
    case Prim::kConst:
      return n.type == VType::kU32 && n.integer <= 1 ? constant(to, VType::kU32, n.integer == 0 ? 0 : kOnes)
                                                     : Val{};
    case Prim::kAnd:
    case Prim::kOr:
    case Prim::kXor:
    case Prim::kEq:
    case Prim::kNe:
      break;
    default:
      return {};
  }
  const Val a = operand(n.a), b = operand(n.b);
  if (a.expr == nullptr || b.expr == nullptr) return {};
  if (n.prim == Prim::kNe) return binary(Prim::kXor, a, b);
  if (n.prim != Prim::kEq) return binary(n.prim, a, b);
  return binary(Prim::kXor, binary(Prim::kXor, a, b), a.constant(kOnes));
}

}  // namespace

std::optional<Expr> onBooleanWords(const Expr& expr) {
  Expr to;
  std::vector<Val> words;
  for (const Node& n : expr.nodes()) words.push_back(onWords(to, n, words));
  for (const int32_t output : expr.outputs()) {
    const Val word = words[static_cast<size_t>(output)];
    if (word.expr == nullptr) return std::nullopt;
    to.outputs().push_back(word.id);
  }
  return to;
}

}  // namespace popxl::kernels
