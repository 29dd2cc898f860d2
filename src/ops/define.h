#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/grad_context.h"
#include "ir/op_def.h"
#include "kernels/expr.h"
#include "ops/infer.h"

/// What the families share: the vocabulary of entries, and helpers that derive the entries of gradients.
namespace popxl::ops {

/// An operand and a result [N, C, ...] of a kernel that works on them in the order N, ..., C too.
inline ir::OperandDef image(std::string_view name, ir::DTypes dtypes, std::string_view doc = "") {
  return {name, dtypes, doc, ir::Arity::kOne, true};
}
inline ir::ResultDef imageResult(std::string_view name) { return {name, "", false, true}; }

using ir::Arity;
using ir::Array;
using ir::AttrType;
using ir::ExprContext;
using ir::GradContext;
using ir::Line;
using ir::Number;
using ir::OpDef;
using ir::ReferenceContext;
using ir::Structure;
using ir::Tensor;
using ir::Visibility;
using kernels::Prim;
using kernels::Val;
using kernels::VType;
using Defs = std::vector<OpDef>;

inline Attr intsAttr(std::vector<int64_t> values) { return Attr(std::move(values)); }
inline Attr textAttr(std::string_view text) { return Attr(std::string(text)); }

/// Text that lives as long as the table, for names made from other names.
std::string_view kept(const std::string& text);

inline bool isFloatValue(Val v) { return v.type() == VType::kF32 || v.type() == VType::kF64; }
/// The value in a floating-point type: integers become kF32, 64-bit ones kF64.
Val real(Val v);
/// In float64 if either is, else float32: for arithmetic of tensors of different dtypes.
VType commonReal(Val a, Val b);
/// Gives result i, converted to what its dtype computes in. For a bool result any number but 0 is true.
void store(ExprContext& c, Val v, size_t i = 0);

/// The sum of `dy` over what was broadcast, so that it has the shape of `like`; `dy` itself where nothing
/// was.
Tensor* reduceTo(GradContext& c, Tensor* dy, const ir::Tensor& like);
/// `t` with another shape; `t` itself where that is its shape.
Tensor* reshapeTo(GradContext& c, Tensor* t, const Shape& shape);

struct Names {
  std::string_view name, type, doc;
};

/// Which forward value the derivative of a unary op is written in.
struct OfNothing {};
struct OfInput {};
struct OfResult {};

/// dy * f'(x) as an entry `<name>_grad`; `derivative` takes dy, and x or y where `Of` says so.
template <typename Of, typename Derivative>
OpDef unaryGrad(const OpDef& base, Of, Derivative) {
  OpDef def;
  def.name = kept(std::string(base.name) + "_grad");
  def.type = kept(std::string(base.type) + "Grad");
  def.doc = kept("Gradient of " + std::string(base.name) + " with respect to its operand.");
  def.operands = {{"grad", ir::kFloats}};
  if constexpr (std::is_same_v<Of, OfInput>) def.operands.push_back({"t", ir::kFloats});
  if constexpr (std::is_same_v<Of, OfResult>) def.operands.push_back({"out", ir::kFloats});
  def.attrs = base.attrs;
  def.infer = likeOperandOfOneDType<0>;
  def.visibility = Visibility::kInternal;
  def.expr = [](ExprContext& c) {
    if constexpr (std::is_same_v<Of, OfNothing>) {
      store(c, Derivative{}(c, c.in(0)));
    } else {
      store(c, Derivative{}(c, c.in(0), c.in(1)));
    }
  };
  return def;
}

template <typename Of>
void unaryRule(GradContext& c) {
  std::vector<Tensor*> operands = {c.outGrad()};
  if constexpr (std::is_same_v<Of, OfInput>) operands.push_back(c.input(0));
  if constexpr (std::is_same_v<Of, OfResult>) operands.push_back(c.output(0));
  c.set(0, c.make(std::string(c.op.def().name) + "_grad", operands, c.op.attrs()));
}

/// An elementwise op of one operand with result of its type. `more` gives what else the entry says.
template <typename F>
OpDef unary(const Names& names, F, OpDef more = {}) {
  more.name = names.name;
  more.type = names.type;
  more.doc = names.doc;
  if (more.operands.empty()) more.operands = {{"t", ir::kNumeric}};
  if (more.infer == nullptr) more.infer = sameType;
  more.expr = [](ExprContext& c) { store(c, F{}(c, c.in(0))); };
  return more;
}

/// The op and its gradient.
template <typename F, typename Of, typename Derivative>
void addUnary(Defs& defs, const Names& names, F f, Of of, Derivative derivative, OpDef more = {}) {
  OpDef def = unary(names, f, std::move(more));
  def.grad = unaryRule<Of>;
  defs.push_back(def);
  defs.push_back(unaryGrad(def, of, derivative));
}

/// Gradient of a binary op with respect to argument `Arg`: reads dy, both arguments and the result, and sums
/// over what was broadcast. Which of them the arithmetic reads is the derivative's business.
template <size_t Arg, typename Derivative>
OpDef binaryGrad(const OpDef& base, std::string_view stem, Derivative) {
  OpDef def;
  const std::string suffix = Arg == 0 ? "0" : "1";
  def.name = kept(std::string(base.name) + "_arg" + suffix + "_grad");
  def.type = kept(std::string(stem) + "Arg" + suffix + "Grad");
  def.doc = kept("Gradient of " + std::string(base.name) + " with respect to `" +
                 std::string(base.operands[Arg].name) + "`.");
  def.operands = {{"grad", ir::kFloats}, {"arg0", ir::kFloats}, {"arg1", ir::kFloats}, {"out", ir::kFloats}};
  def.infer = likeOperandOfOneDType<1 + Arg>;
  def.visibility = Visibility::kInternal;
  def.reducesToOutput = true;
  def.expr = [](ExprContext& c) { store(c, Derivative{}(c.in(0), c.in(1), c.in(2), c.in(3))); };
  return def;
}

void binaryRule(GradContext& c);

/// An elementwise op of two broadcast operands and its two gradients. `stem`: how the gradients' types begin.
template <typename F, typename D0, typename D1>
void addBinary(Defs& defs, const Names& names, std::string_view stem, F, D0 d0, D1 d1, OpDef more = {}) {
  more.name = names.name;
  more.type = names.type;
  more.doc = names.doc;
  if (more.operands.empty()) more.operands = {{"lhs", ir::kNumeric}, {"rhs", ir::kNumeric}};
  more.infer = broadcastAll;
  more.grad = binaryRule;
  more.expr = [](ExprContext& c) { store(c, F{}(c.in(0), c.in(1))); };
  OpDef grad0 = binaryGrad<0>(more, stem, d0);
  OpDef grad1 = binaryGrad<1>(more, stem, d1);
  defs.push_back(std::move(more));
  defs.push_back(std::move(grad0));
  defs.push_back(std::move(grad1));
}

}  // namespace popxl::ops
