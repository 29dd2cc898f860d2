#include "ops/ops.h"

#include "base/error.h"
#include "ops/define.h"
#include "ops/second_order.h"

namespace popxl::ops {

#define POPXL_OP_FAMILY(family) void family(Defs& defs);
#include "ops/families.def"
#undef POPXL_OP_FAMILY

const ir::OpTable& table() {
  static const ir::OpTable all = [] {
    Defs defs;
#define POPXL_OP_FAMILY(family) family(defs);
#include "ops/families.def"
#undef POPXL_OP_FAMILY
    addSecondOrder(defs);
    return ir::OpTable(std::move(defs));
  }();
  return all;
}

const ir::OpDef& def(std::string_view name) {
  const ir::OpDef* found = table().find(name);
  POPXL_ASSERT(found != nullptr, "op '{}' is not in the table", name);
  return *found;
}

}  // namespace popxl::ops
