#include "ops/define.h"

namespace popxl::ops {

using kernels::computeType;

std::string_view kept(const std::string& text) { return *ir::intern(text); }

namespace {
VType realType(VType t) {
  if (t == VType::kF32 || t == VType::kI32 || t == VType::kU32) return VType::kF32;
  return VType::kF64;
}
}  // namespace

Val real(Val v) { return isFloatValue(v) ? v : v.convert(realType(v.type())); }

VType commonReal(Val a, Val b) {
  return realType(a.type()) == VType::kF64 || realType(b.type()) == VType::kF64 ? VType::kF64 : VType::kF32;
}

void store(ExprContext& c, Val v, size_t i) {
  const DType dtype = c.op.output(i)->dtype();
  const VType type = computeType(dtype);
  if (v.type() == type) {
    c.out(v, i);
  } else if (dtype == DType::kBool) {
    c.out(kernels::binary(Prim::kNe, v, v.constant(0)), i);
  } else {
    c.out(v.convert(type), i);
  }
}

Tensor* reduceTo(GradContext& c, Tensor* dy, const ir::Tensor& like) {
  if (dy->shape() == like.shape()) return dy;
  return c.make("reduce_to", {dy}, {intsAttr(like.shape())});
}

Tensor* reshapeTo(GradContext& c, Tensor* t, const Shape& shape) {
  if (t->shape() == shape) return t;
  return c.make("reshape", {t}, {intsAttr(shape)});
}

void binaryRule(GradContext& c) {
  const std::string name(c.op.def().name);
  for (size_t arg = 0; arg < 2; ++arg) {
    if (!c.wants(arg)) continue;
    std::vector<Tensor*> operands = {c.outGrad(), c.input(0), c.input(1), c.output()};
    c.set(arg, c.make(name + "_arg" + std::to_string(arg) + "_grad", operands));
  }
}

}  // namespace popxl::ops
