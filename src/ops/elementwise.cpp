#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/define.h"

// Elementwise ops of one operand.
namespace popxl::ops {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Val prim(Prim p, Val x) { return kernels::unary(p, x); }
Val sigmoid(Val x) { return 1.0 / (1.0 + exp(-x)); }
/// Argument of the tanh in gelu's approximation: sqrt(2/pi) * (x + 0.044715 x^3).
const double kGeluScale = std::sqrt(2.0 / std::numbers::pi);
constexpr double kGeluCubic = 0.044715;
Val geluArgument(Val x) { return kGeluScale * (x + kGeluCubic * (x * x * x)); }

OpDef inplace(OpDef more = {}) {
  more.inplaceOperand = 0;
  return more;
}

OpDef noGradient(OpDef def) {
  def.stopsGradient = true;
  return def;
}

void rounding(Defs& defs) {
  const auto zero = [](ExprContext&, Val dy) { return dy.constant(0); };
  addUnary(
      defs, {"ceil", "Ceil", "Smallest integer that is not less than the element."},
      [](ExprContext&, Val x) { return isFloatValue(x) ? prim(Prim::kCeil, x) : x; }, OfNothing{}, zero);
  addUnary(
      defs, {"floor", "Floor", "Largest integer that is not greater than the element."},
      [](ExprContext&, Val x) { return isFloatValue(x) ? prim(Prim::kFloor, x) : x; }, OfNothing{}, zero);
  addUnary(
      defs, {"sign", "Sign", "-1, 0 or 1 by the sign of the element."},
      [](ExprContext&, Val x) { return prim(Prim::kSign, x); }, OfNothing{}, zero);
  addUnary(
      defs, {"abs", "Abs", "Absolute value of every element."}, [](ExprContext&, Val x) { return abs(x); },
      OfInput{}, [](ExprContext&, Val dy, Val x) { return dy * prim(Prim::kSign, x); });
  addUnary(
      defs, {"negate", "Neg", "Every element with the opposite sign."},
      [](ExprContext&, Val x) { return -x; }, OfNothing{}, [](ExprContext&, Val dy) { return -dy; },
      {.className = "NegateOp"});
}

void transcendental(Defs& defs) {
  addUnary(
      defs, {"sqrt", "Sqrt", "Square root of every element."},
      [](ExprContext&, Val x) { return sqrt(real(x)); }, OfResult{},
      [](ExprContext&, Val dy, Val y) { return dy / (2.0 * y); });
  addUnary(
      defs, {"sin", "Sin", "Sine of every element, in radians."},
      [](ExprContext&, Val x) { return prim(Prim::kSin, real(x)); }, OfInput{},
      [](ExprContext&, Val dy, Val x) { return dy * prim(Prim::kCos, x); });
  addUnary(
      defs, {"cos", "Cos", "Cosine of every element, in radians."},
      [](ExprContext&, Val x) { return prim(Prim::kCos, real(x)); }, OfInput{},
      [](ExprContext&, Val dy, Val x) { return -(dy * prim(Prim::kSin, x)); });
  addUnary(
      defs, {"exp", "Exp", "e to the power of every element."},
      [](ExprContext&, Val x) { return exp(real(x)); }, OfResult{},
      [](ExprContext&, Val dy, Val y) { return dy * y; }, inplace());
  addUnary(
      defs, {"log", "Log", "Natural logarithm of every element."},
      [](ExprContext&, Val x) { return log(real(x)); }, OfInput{},
      [](ExprContext&, Val dy, Val x) { return dy / x; });
  addUnary(
      defs, {"tanh", "Tanh", "Hyperbolic tangent of every element."},
      [](ExprContext&, Val x) { return tanh(real(x)); }, OfResult{},
      [](ExprContext&, Val dy, Val y) { return dy * (1.0 - y * y); });
}

void activations(Defs& defs) {
  addUnary(
      defs, {"relu", "Relu", "The element where it is positive, else 0."},
      [](ExprContext&, Val x) { return max(x, x.constant(0)); }, OfResult{},
      [](ExprContext&, Val dy, Val y) { return select(y > 0.0, dy, dy.constant(0)); }, inplace());
  addUnary(
      defs,
      {"gelu", "Gelu",
       "Gaussian error linear unit in its tanh form, x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3)))."},
      [](ExprContext&, Val x) { return 0.5 * real(x) * (1.0 + tanh(geluArgument(real(x)))); }, OfInput{},
      [](ExprContext&, Val dy, Val x) {
        const Val t = tanh(geluArgument(x));
        const Val inner = kGeluScale * (1.0 + 3.0 * kGeluCubic * (x * x));
        return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner);
      },
      inplace());
  addUnary(
      defs,
      {"geluerf", "GeluErf", "Gaussian error linear unit in its exact form, x/2 (1 + erf(x / sqrt(2)))."},
      [](ExprContext&, Val x) { return 0.5 * real(x) * (1.0 + erf(real(x) * std::numbers::sqrt2 * 0.5)); },
      OfInput{},
      [](ExprContext&, Val dy, Val x) {
        const Val cdf = 0.5 * (1.0 + erf(x * (std::numbers::sqrt2 * 0.5)));
        const Val pdf = exp(-0.5 * (x * x)) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
        return dy * (cdf + x * pdf);
      },
      inplace());
  addUnary(
      defs, {"swish", "Swish", "x times the logistic function of x."},
      [](ExprContext&, Val x) { return real(x) * sigmoid(real(x)); }, OfInput{},
      [](ExprContext&, Val dy, Val x) {
        const Val s = sigmoid(x);
        return dy * (s + x * s * (1.0 - s));
      },
      inplace());
}

/// A bound as a number of the element's type: integers are clamped between the integers inside [min, max].
Val bound(Val x, double number, bool lower) {
  if (isFloatValue(x)) return x.constant(number);
  double low = -0x1p31, high = 0x1p31 - 1;
  if (x.type() == VType::kU32) low = 0, high = 0x1p32 - 1;
  if (x.type() == VType::kI64) low = -0x1p63, high = 0x1p63 - 1024;
  if (x.type() == VType::kU64) low = 0, high = 0x1p64 - 2048;
  return x.constant(std::clamp(lower ? std::ceil(number) : std::floor(number), low, high));
}

/// NaN is no bound of integers: it has no integer next to it.
void inferClip(const Op& op, Types& out) {
  sameType(op, out);
  if (isFloat(out.back().dtype)) return;
  for (const char* name : {"min", "max"}) {
    if (!std::isnan(op.attr<double>(name))) continue;
    fail(ErrorKind::kValue, "`{}` is NaN, but {} has integers", name, describe(op, 0));
  }
}

void clip(Defs& defs) {
  OpDef more;
  more.infer = inferClip;
  more.attrs = {{"min", AttrType::kFloat, "Lower end of the range.", Attr(-kInfinity)},
                {"max", AttrType::kFloat, "Upper end of the range.", Attr(kInfinity)}};
  addUnary(
      defs, {"clip", "Clip", "Every element moved to the nearest one of the range [min, max]."},
      [](ExprContext& c, Val x) {
        const double low = c.op.attr<double>("min"), high = c.op.attr<double>("max");
        if (low != -kInfinity) x = max(x, bound(x, low, true));
        if (high != kInfinity) x = min(x, bound(x, high, false));
        return x;
      },
      OfInput{},
      [](ExprContext& c, Val dy, Val x) {
        const Val above = x >= c.op.attr<double>("min"), below = x <= c.op.attr<double>("max");
        return select(kernels::binary(Prim::kAnd, above, below), dy, dy.constant(0));
      },
      more);
}

void classification(Defs& defs) {
  OpDef more;
  more.infer = sameShapeBool;
  more.className = "IsNaN";
  defs.push_back(noGradient(unary(
      {"isnan", "IsNaN", "Whether an element is not a number."},
      [](ExprContext&, Val x) { return prim(Prim::kIsNan, real(x)); }, more)));
  more.className = "IsInf";
  defs.push_back(noGradient(unary(
      {"isinf", "IsInf", "Whether an element is infinite."},
      [](ExprContext&, Val x) { return prim(Prim::kIsInf, real(x)); }, more)));
}

void inferIncrementMod(const Op& op, Types& out) {
  sameType(op, out);
  if (isFloat(out.back().dtype)) return;
  for (const char* name : {"increment", "modulus"}) {
    const double number = op.attr<double>(name);
    if (std::trunc(number) == number && std::fabs(number) < 0x1p63) continue;
    fail(ErrorKind::kValue, "`{}` is {}, but {} has integers: give an integer", name, number,
         describe(op, 0));
  }
}

void incrementMod(Defs& defs) {
  OpDef more = inplace();
  more.infer = inferIncrementMod;
  more.attrs = {{"increment", AttrType::kFloat, "What is added."},
                {"modulus", AttrType::kFloat, "The divisor."}};
  addUnary(
      defs, {"increment_mod", "IncrementMod", "Remainder of (element + increment) divided by the modulus."},
      [](ExprContext& c, Val x) {
        const Val sum = x + c.op.attr<double>("increment");
        return binary(Prim::kMod, sum, x.constant(c.op.attr<double>("modulus")));
      },
      OfNothing{}, [](ExprContext&, Val dy) { return dy; }, more);
}

}  // namespace

void elementwise(Defs& defs) {
  rounding(defs);
  transcendental(defs);
  activations(defs);
  clip(defs);
  classification(defs);
  incrementMod(defs);
}

}  // namespace popxl::ops
