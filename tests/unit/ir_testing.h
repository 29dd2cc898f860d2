#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/ir.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ops/ops.h"

namespace popxl::testing {

/// An op of the table with attributes by name.
inline ir::Op* makeOp(ir::Graph& graph, std::string_view name, std::vector<ir::Tensor*> inputs,
                      const std::vector<std::pair<std::string_view, ir::Attr>>& attrs = {},
                      std::vector<std::string> outputNames = {}) {
  bool inplace = false;
  const ir::OpDef* found = ops::table().find(name, &inplace);
  if (found == nullptr) throw std::invalid_argument(std::string(name));
  const ir::OpDef& def = *found;
  ir::OpRequest request;
  request.inputs = std::move(inputs);
  request.attrs.resize(def.attrs.size());
  for (const auto& [attr, value] : attrs) request.attrs.at(static_cast<size_t>(def.attrIndex(attr))) = value;
  request.inplace = inplace;
  request.outputNames = std::move(outputNames);
  return graph.addOp(def, std::move(request));
}

inline std::shared_ptr<ir::Ir> parsed(std::string_view text) { return ir::parse(text, ops::table()); }

}  // namespace popxl::testing
