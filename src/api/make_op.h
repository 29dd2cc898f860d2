#pragma once

#include <optional>
#include <source_location>
#include <vector>

#include "base/error.h"
#include "ir/context.h"
#include "ir/ir.h"
#include "popxl/graph.h"
#include "popxl/tensor.h"

/// What the generated op functions are written with.
namespace popxl::api {

/// An operand on its way into an op; null when an optional one is absent.
using Operand = ir::Tensor*;

inline void addOperand(std::vector<Operand>& to, const Tensor& t) { to.push_back(t.get()); }
inline void addOperand(std::vector<Operand>& to, const std::optional<Tensor>& t) {
  to.push_back(t ? t->get() : nullptr);
}
inline void addOperand(std::vector<Operand>& to, const std::vector<Tensor>& ts) {
  for (const Tensor& t : ts) to.push_back(t.get());
}

inline ir::Attr toAttr(const Graph& graph) {
  if (!graph) fail(ErrorKind::kValue, "an empty Graph can't be run: it was made by the default constructor");
  return graph.get();
}
template <typename T>
ir::Attr toAttr(const T& value) {
  return ir::Attr(value);
}
template <typename T>
ir::Attr toAttr(const std::optional<T>& value) {
  return value ? toAttr(*value) : ir::Attr();
}

inline Tensor wrap(ir::Tensor* t) { return {t->graph().ir().shared_from_this(), t}; }
inline std::vector<Tensor> wrap(const std::vector<ir::Tensor*>& ts) {
  std::vector<Tensor> out;
  out.reserve(ts.size());
  for (ir::Tensor* t : ts) out.push_back(wrap(t));
  return out;
}

/// What `body` returns; an Error that it throws gets the user's line.
template <typename Body>
auto at(std::source_location where, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}\n  at {}", error.what(), ir::Loc::from(where).str()));
  }
}

/// Adds an op of the table to the graph that is entered.
ir::Op* addOp(const ir::OpDef& def, std::vector<Operand> operands, std::vector<ir::Attr> attrs, bool inplace,
              std::source_location where);
std::vector<Tensor> makeOp(const char* name, std::vector<Operand> operands, std::vector<ir::Attr> attrs,
                           bool inplace, std::source_location where);

}  // namespace popxl::api
