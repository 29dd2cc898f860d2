#include "api/make_op.h"

#include "base/error.h"
#include "ops/ops.h"

namespace popxl::api {

ir::Op* addOp(const ir::OpDef& def, std::vector<Operand> operands, std::vector<ir::Attr> attrs, bool inplace,
              std::source_location where) {
  return ir::Context::current().addOp(def, std::move(operands), std::move(attrs), ir::Loc::from(where),
                                      inplace);
}

std::vector<Tensor> makeOp(const char* name, std::vector<Operand> operands, std::vector<ir::Attr> attrs,
                           bool inplace, std::source_location where) {
  const ir::OpDef* def = ops::table().find(name);
  POPXL_ASSERT(def != nullptr, "no op {}", name);
  return wrap(addOp(*def, std::move(operands), std::move(attrs), inplace, where)->outputs());
}

}  // namespace popxl::api
