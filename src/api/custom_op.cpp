#include "popxl/custom_op.h"

#include <algorithm>

#include "api/custom_def.h"
#include "api/make_op.h"
#include "base/error.h"
#include "ir/lexer.h"
#include "ops/ops.h"

namespace popxl {

namespace detail {

void failAttr(std::string_view name) {
  fail(ErrorKind::kKey, "the op has no attribute `{}` of the type that is asked for", name);
}

void failArrayType(const TensorSpec& spec, DType wanted) {
  fail(ErrorKind::kType, "the array has dtype {}, not {}", nameOf(spec.dtype), nameOf(wanted));
}

}  // namespace detail

namespace {

constexpr std::string_view kNames =
    "small letters, digits and '_' make one, but for the words of the text form";

/// A name of the text form that is no in-place name.
bool isName(std::string_view name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' && name.back() != '_' &&
         !ir::isReserved(name) && std::all_of(name.begin(), name.end(), fits);
}

void checkNames(const CustomOp& op) {
  std::vector<std::string> names = op.operands;
  for (const AttrSpec& attr : op.attrs) names.push_back(attr.name);
  names.insert(names.end(), op.results.begin(), op.results.end());
  for (size_t i = 0; i < names.size(); ++i) {
    if (!isName(names[i])) fail(ErrorKind::kValue, "op `{}`: `{}` is no name: {}", op.name, names[i], kNames);
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      fail(ErrorKind::kValue, "op `{}`: `{}` is the name of two of its operands, attributes and results",
           op.name, names[i]);
  }
  const std::vector<std::string> known = api::gradientOperands(op);
  for (const std::string& name : op.gradientReads) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(ErrorKind::kValue, "op `{}`: its gradient reads `{}`; there are {}", op.name, name,
           fmt::join(known, ", "));
    }
  }
}

void check(const CustomOp& op) {
  if (!isName(op.name)) fail(ErrorKind::kValue, "`{}` is no name of an op: {}", op.name, kNames);
  if (op.results.empty()) fail(ErrorKind::kValue, "op `{}` has no results", op.name);
  if ((op.forward != nullptr) == (op.compose != nullptr)) {
    fail(ErrorKind::kValue, "op `{}` needs either a function on arrays or a composition of ops, and not both",
         op.name);
  }
  if (op.gradient != nullptr && op.composeGradient != nullptr)
    fail(ErrorKind::kValue, "op `{}` has two gradients: one on arrays and a composition", op.name);
  if (op.infer == nullptr && op.compose == nullptr && op.operands.empty())
    fail(ErrorKind::kValue, "op `{}` has no operands, so `infer` has to say what its results are", op.name);
  checkNames(op);
}

ir::Attr attrFor(const NamedAttr& given, const ir::AttrDef& def) {
  return std::visit(
      [&](const auto& value) -> ir::Attr {
        ir::Attr attr(value);
        if (attr.index() == static_cast<size_t>(def.type) + 1) return attr;
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int64_t>) {
          if (def.type == ir::AttrType::kFloat) return static_cast<double>(value);
        }
        fail(ErrorKind::kType, "attribute `{}` is given a value of another type than it has", given.first);
      },
      given.second);
}

std::vector<ir::Attr> attrsFor(const ir::OpDef& def, const std::vector<NamedAttr>& given) {
  std::vector<ir::Attr> attrs(def.attrs.size());
  for (const NamedAttr& attr : given) {
    const int32_t i = def.attrIndex(attr.first);
    if (i < 0) fail(ErrorKind::kKey, "op `{}` has no attribute `{}`", def.name, attr.first);
    attrs[static_cast<size_t>(i)] = attrFor(attr, def.attrs[static_cast<size_t>(i)]);
  }
  return attrs;
}

}  // namespace

void registerOp(CustomOp op) { api::registerOps({std::move(op)}); }

namespace api {

void registerOps(std::vector<CustomOp> list) {
  std::vector<ir::AddedOp> defs;
  for (CustomOp& op : list) {
    check(op);
    addDefs(std::move(op), defs);
  }
  ir::addOps(ops::table(), std::move(defs));
}

}  // namespace api

namespace ops {

std::vector<Tensor> byName(std::string_view name, const std::vector<Tensor>& operands,
                           const std::vector<NamedAttr>& attrs, std::source_location where) {
  bool inplace = false;
  const ir::OpDef* def = table().find(name, &inplace);
  std::vector<ir::Attr> values = api::at(where, [&] {
    if (def == nullptr) fail(ErrorKind::kKey, "there is no op `{}`", name);
    return attrsFor(*def, attrs);
  });
  std::vector<api::Operand> inputs;
  api::addOperand(inputs, operands);
  return api::wrap(api::addOp(*def, std::move(inputs), std::move(values), inplace, where)->outputs());
}

}  // namespace ops
}  // namespace popxl
