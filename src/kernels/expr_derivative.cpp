#include "kernels/expr_derivative.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"

namespace popxl::kernels {
namespace {

/// Reverse mode: from y towards x every node hands its adjoint on to its operands.
class Reverse {
 public:
  Reverse(Val y, Val x)
      : expr_(*y.expr), adjoints_(static_cast<size_t>(y.id) + 1), depends_(adjoints_.size()) {
    for (size_t i = 0; i < depends_.size(); ++i) {
      const Node& n = expr_.nodes()[i];
      depends_[i] = static_cast<int32_t>(i) == x.id;
      for (const int32_t operand : {n.a, n.b, n.c}) {
        if (operand >= 0 && depends_[static_cast<size_t>(operand)]) depends_[i] = true;
      }
    }
  }

  Val run(Val y, Val x, Val dy) {
    add(y.id, dy);
    for (int32_t i = y.id; i > x.id; --i) {
      if (adjoints_[static_cast<size_t>(i)].id >= 0) propagate(i, adjoints_[static_cast<size_t>(i)]);
    }
    return x.id <= y.id ? adjoints_[static_cast<size_t>(x.id)] : Val{};
  }

 private:
  Val value(int32_t id) { return {&expr_, id}; }

  void add(int32_t id, Val adjoint) {
    if (!depends_[static_cast<size_t>(id)]) return;
    Val& sum = adjoints_[static_cast<size_t>(id)];
    sum = sum.id < 0 ? adjoint : sum + adjoint;
  }

  void propagate(int32_t id, Val g) {
    const Node n = expr_.nodes()[static_cast<size_t>(id)];  // a copy: the list grows
    switch (arity(n.prim)) {
      case 1:
        return unaryNode(n, value(id), g);
      case 2:
        return binaryNode(n, value(id), g);
      case 3:
        add(n.b, select(value(n.a), g, g.constant(0)));
        add(n.c, select(value(n.a), g.constant(0), g));
        return;
      default:
        return;
    }
  }

  void unaryNode(const Node& n, Val y, Val g) {
    const Val a = value(n.a);
    switch (n.prim) {
      case Prim::kNeg:
        return add(n.a, -g);
      case Prim::kAbs:
        return add(n.a, g * unary(Prim::kSign, a));
      case Prim::kSqrt:
        return add(n.a, g / (2.0 * y));
      case Prim::kExp:
        return add(n.a, g * y);
      case Prim::kLog:
        return add(n.a, g / a);
      case Prim::kTanh:
        return add(n.a, g * (1.0 - y * y));
      case Prim::kErf:
        return add(n.a, g * (exp(-(a * a)) * (2.0 * std::numbers::inv_sqrtpi)));
      case Prim::kSin:
        return add(n.a, g * unary(Prim::kCos, a));
      case Prim::kCos:
        return add(n.a, -(g * unary(Prim::kSin, a)));
      case Prim::kConvert:
        if (isFloatType(a.type()) && isFloatType(n.type)) add(n.a, g.convert(a.type()));
        return;
      case Prim::kRoundTo:
        return add(n.a, g);
      default:  // piecewise constant
        return;
    }
  }

  void binaryNode(const Node& n, Val y, Val g) {
    const Val a = value(n.a), b = value(n.b), none = g.constant(0);
    switch (n.prim) {
      case Prim::kAdd:
        add(n.a, g);
        return add(n.b, g);
      case Prim::kSub:
        add(n.a, g);
        return add(n.b, -g);
      case Prim::kMul:
        add(n.a, g * b);
        return add(n.b, g * a);
      case Prim::kDiv:
        add(n.a, g / b);
        return add(n.b, -(g * y / b));
      case Prim::kMod:
        add(n.a, g);
        return add(n.b, -(g * unary(Prim::kTrunc, a / b)));
      case Prim::kMin:
      case Prim::kMax: {
        const Val first = n.prim == Prim::kMin ? a <= b : a >= b;
        add(n.a, select(first, g, none));
        return add(n.b, select(first, none, g));
      }
      case Prim::kPow:
        add(n.a, g * b * binary(Prim::kPow, a, b - 1.0));
        return add(n.b, select(a > none, g * y * log(a), none));
      default:  // comparisons, bits
        return;
    }
  }

  Expr& expr_;
  std::vector<Val> adjoints_;
  std::vector<bool> depends_;
};

}  // namespace

Val derivative(Val y, Val x, Val dy) {
  POPXL_ASSERT(y.expr == x.expr && y.expr == dy.expr, "values of two expressions");
  POPXL_ASSERT(isFloatType(y.type()) && isFloatType(x.type()) && dy.type() == y.type(), "types {} {} {}",
               static_cast<int>(y.type()), static_cast<int>(x.type()), static_cast<int>(dy.type()));
  return Reverse(y, x).run(y, x, dy);
}

}  // namespace popxl::kernels
