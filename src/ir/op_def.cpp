#include "ir/op_def.h"

#include <algorithm>

#include "base/error.h"
#include "ir/added_ops.h"

namespace popxl::ir {

int32_t OpDef::attrIndex(std::string_view attr) const {
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].name == attr) return static_cast<int32_t>(i);
  }
  return -1;
}

OpTable::OpTable(std::vector<OpDef> defs) : defs_(std::move(defs)) {
  for (size_t i = 0; i < defs_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    byName_.emplace_back(defs_[i].name, index);
    if (defs_[i].inplaceOperand >= 0 && !defs_[i].alwaysInplace)
      byName_.emplace_back(defs_[i].inplaceName(), ~index);
  }
  std::sort(byName_.begin(), byName_.end());
  for (size_t i = 1; i < byName_.size(); ++i) {
    POPXL_ASSERT(byName_[i].first != byName_[i - 1].first, "two ops are named {}", byName_[i].first);
  }
}

const OpDef* OpTable::find(std::string_view name, bool* inplace) const {
  const auto it = std::lower_bound(byName_.begin(), byName_.end(), name,
                                   [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (it == byName_.end() || it->first != name) return findAdded(name);
  if (inplace != nullptr) *inplace = it->second < 0;
  return &defs_[static_cast<size_t>(it->second < 0 ? ~it->second : it->second)];
}

}  // namespace popxl::ir
