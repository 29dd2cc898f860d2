#include "kernels/matmul.h"

#include <cmath>

#include "ops/composite.h"
#include "ops/define.h"

namespace popxl::ops {

namespace {

DType productType(DType operand) { return isFloat8(operand) ? DType::kFloat16 : operand; }

/// Batch dimensions, rows and columns of the product; a 1-D operand counts as one row or one column.
struct Product {
  Shape batch;
  int64_t m = 1, n = 1;
  bool lhs1d = false, rhs1d = false;

  Shape shape() const {
    Shape s = batch;
    if (!lhs1d) s.push_back(m);
    if (!rhs1d) s.push_back(n);
    return s;
  }
};

Product productOf(const Op& op) {
  const Shape &lhs = typeOf(op, 0).shape, &rhs = typeOf(op, 1).shape;
  for (size_t i : {0, 1}) {
    if (op.input(i)->rank() == 0) {
      fail(ErrorKind::kGraph, "{} is a scalar; a matrix product needs one dimension or more: use mul",
           describe(op, i));
    }
  }
  Product p;
  p.lhs1d = lhs.size() == 1;
  p.rhs1d = rhs.size() == 1;
  const int64_t inner = p.rhs1d ? rhs[0] : rhs[rhs.size() - 2];
  if (lhs.back() != inner) {
    fail(ErrorKind::kGraph, "the last dimension of {} must equal the {} of {}: {} and {}", describe(op, 0),
         p.rhs1d ? "only dimension" : "last but one", describe(op, 1), lhs.back(), inner);
  }
  if (!p.lhs1d) p.m = lhs[lhs.size() - 2];
  if (!p.rhs1d) p.n = rhs.back();
  const Shape lhsBatch(lhs.begin(), lhs.end() - (p.lhs1d ? 1 : 2));
  const Shape rhsBatch(rhs.begin(), rhs.end() - (p.rhs1d ? 1 : 2));
  if (!broadcastShapes(lhsBatch, rhsBatch, p.batch)) {
    fail(ErrorKind::kGraph,
         "the leading dimensions of {} and {} do not broadcast: counted from the last but two, they "
         "must be equal or 1",
         describe(op, 0), describe(op, 1));
  }
  return p;
}

void inferMatmul(const Op& op, Types& out) {
  const bool float8 = isFloat8(typeOf(op, 0).dtype);
  if (!float8 || !isFloat8(typeOf(op, 1).dtype)) requireSameDType(op, 0, 1);
  if (op.input(2) != nullptr) {
    if (!float8) {
      fail(ErrorKind::kType, "{} has no float8 dtype; only such products are scaled by a power of two",
           describe(op, 0));
    }
    if (op.input(2)->rank() > 0) fail(ErrorKind::kValue, "{} must be a scalar tensor", describe(op, 2));
  }
  const std::string partials = op.attrOr<std::string>("partials_type", "");
  if (!partials.empty() && partials != "float" && partials != "half") {
    fail(ErrorKind::kValue, "`partials_type` is \"{}\"; it must be \"float\" or \"half\"", partials);
  }
  const DType type = productType(typeOf(op, 0).dtype);
  out.push_back({op.attrOr<DType>("output_type", type), productOf(op).shape(), {}});
}

/// `layout` with a dimension of size 1 at `axis`.
Layout withUnit(Layout layout, size_t axis) {
  layout.shape.insert(layout.shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  layout.strides.insert(layout.strides.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  return layout;
}

/// The product of operands made matrices, in the dtype of the result.
kernels::MatmulSpec matmulSpec(const ir::KernelContext& c) {
  const Product p = productOf(c.op);
  kernels::MatmulSpec spec;
  spec.lhs = p.lhs1d ? withUnit(c.inputs[0], 0) : c.inputs[0];
  spec.rhs = p.rhs1d ? withUnit(c.inputs[1], 1) : c.inputs[1];
  spec.out = c.outputs[0];
  if (p.rhs1d) spec.out = withUnit(spec.out, spec.out.shape.size());
  if (p.lhs1d) spec.out = withUnit(spec.out, spec.out.shape.size() - 1);
  spec.scaled = c.inputs.size() == 3;
  spec.fixedRhs = c.fixed[1];
  return spec;
}

kernels::KernelPtr matmulWithGroup(const ir::KernelContext& c, const kernels::ElementwiseSpec& group) {
  const kernels::MatmulSpec spec = matmulSpec(c);
  if (productType(spec.lhs.dtype) != spec.out.dtype) return nullptr;
  return kernels::makeMatmulWithGroup(spec, group);
}

kernels::KernelPtr matmulKernel(const ir::KernelContext& c) {
  kernels::MatmulSpec spec = matmulSpec(c);
  const DType natural = productType(spec.lhs.dtype), wanted = spec.out.dtype;
  if (natural == wanted) return kernels::makeMatmul(spec);

  spec.fixedRhs = false;  // a composite does not pass preparations on
  // Another result dtype: widen the operands before, or round the result after.
  const auto operands = static_cast<int32_t>(c.inputs.size()) + 1;
  Composite all(operands);
  if (sizeOf(wanted) > sizeOf(natural) && !isFloat8(spec.lhs.dtype)) {
    const Layout lhs(wanted, spec.lhs.shape), rhs(wanted, spec.rhs.shape);
    const int32_t a = all.scratch(lhs.bytes()), b = all.scratch(rhs.bytes());
    all.step(convertKernel(spec.lhs, lhs), {0, a}).step(convertKernel(spec.rhs, rhs), {1, b});
    spec.lhs = lhs;
    spec.rhs = rhs;
    all.step(kernels::makeMatmul(spec), {a, b, operands - 1});
    return std::move(all).make();
  }
  const Layout out = spec.out;
  spec.out = Layout(natural, out.shape);
  const int32_t product = all.scratch(spec.out.bytes());
  std::vector<int32_t> given = {0, 1};
  if (spec.scaled) given.push_back(2);
  given.push_back(product);
  const Layout between = spec.out;
  all.step(kernels::makeMatmul(spec), given).step(convertKernel(between, out), {product, operands - 1});
  return std::move(all).make();
}

void matmulReference(ReferenceContext& c) {
  const Product p = productOf(c.op);
  const Array &lhs = c.in[0], &rhs = c.in[1];
  const int64_t inner = lhs.shape().back();
  const bool scaled = c.op.input(2) != nullptr;
  ir::forEachIndex(c.out[0].shape(), [&](const Shape& index) {
    Shape a(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(p.batch.size())), b = a;
    if (!p.lhs1d) a.push_back(index[p.batch.size()]);
    a.push_back(0);
    b.push_back(0);
    if (!p.rhs1d) b.push_back(index.back());
    Number sum = Number(0).to(lhs.dtype());
    for (int64_t k = 0; k < inner; ++k) {
      a.back() = k;
      b[p.batch.size()] = k;
      sum = sum + lhs.at(a) * rhs.at(b);
    }
    c.out[0].at(index) =
        scaled ? Number(std::ldexp(sum.real(), static_cast<int>(c.in[2][0].integer()))) : sum;
  });
}

Tensor* swapLast(GradContext& c, Tensor* t) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < t->rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.make("transpose", {t}, {intsAttr(order)});
}

Tensor* castTo(GradContext& c, Tensor* t, DType dtype) {
  return t->dtype() == dtype ? t : c.make("cast", {t}, {Attr(dtype)});
}

/// The shape of an operand of a product as a matrix, or a batch of them.
Shape matrixShape(const Op& op, const Product& p, size_t operand) {
  Shape shape = op.input(operand)->shape();
  if (operand == 0 && p.lhs1d) shape.insert(shape.begin(), 1);
  if (operand == 1 && p.rhs1d) shape.push_back(1);
  return shape;
}

/// A^T dC where one matrix B serves all of A: its rows, and those of dC, are the rows of one matrix.
Tensor* sharedRhsGrad(GradContext& c, const Product& p, Tensor* lhs, Tensor* dy) {
  const int64_t inner = lhs->shape().back(), rows = numElements(p.batch) * p.m;
  return c.make("matmul", {swapLast(c, reshapeTo(c, lhs, {rows, inner})), reshapeTo(c, dy, {rows, p.n})});
}

/// dA = dC B^T and dB = A^T dC on operands made matrices, then summed over what was broadcast.
void matmulRule(GradContext& c) {
  const Product p = productOf(c.op);
  const DType dtype = c.op.input(0)->dtype();
  Shape full = p.batch;
  full.push_back(p.m);
  full.push_back(p.n);
  Tensor* dy = reshapeTo(c, castTo(c, c.outGrad(), dtype), full);
  const Shape lhs = matrixShape(c.op, p, 0), rhs = matrixShape(c.op, p, 1);
  if (c.wants(0)) {
    Tensor* grad = c.make("matmul", {dy, swapLast(c, reshapeTo(c, c.input(1), rhs))});
    if (grad->type().numElements() != numElements(lhs)) grad = c.make("reduce_to", {grad}, {intsAttr(lhs)});
    c.set(0, reshapeTo(c, grad, c.op.input(0)->shape()));
  }
  if (!c.wants(1)) return;
  const int64_t matrix = rhs.back() * rhs[rhs.size() - 2];
  Tensor* grad = nullptr;
  if (numElements(rhs) == matrix && p.batch.size() + 2 == lhs.size()) {
    grad = sharedRhsGrad(c, p, c.input(0), dy);
  } else {
    grad = c.make("matmul", {swapLast(c, reshapeTo(c, c.input(0), lhs)), dy});
    if (grad->type().numElements() != numElements(rhs)) grad = c.make("reduce_to", {grad}, {intsAttr(rhs)});
  }
  c.set(1, reshapeTo(c, grad, c.op.input(1)->shape()));
}

}  // namespace

void matmul(Defs& defs) {
  constexpr ir::DTypes kOperands = ir::kNumeric | ir::kFloat8s;
  OpDef def;
  def.name = "matmul";
  def.type = "MatMul";
  def.doc =
      "Matrix product as numpy.matmul: leading dimensions broadcast, a 1-D operand is a row or a column.";
  def.operands = {{"lhs", kOperands},
                  {"rhs", kOperands},
                  {"log2_scale", ir::bit(DType::kInt32),
                   "float8 only: the product is multiplied by two to this power.", Arity::kOptional}};
  def.attrs = {
      {"available_memory_proportion", AttrType::kFloat, "Kept for compatibility; has no effect.", {}, true},
      {"output_type", AttrType::kDType, "Dtype of the result; that of the operands when absent.", {}, true},
      {"partials_type",
       AttrType::kString,
       "\"float\" or \"half\"; sums are at least float32 in any case.",
       {},
       true}};
  def.infer = inferMatmul;
  def.grad = matmulRule;
  def.visibility = Visibility::kManual;
  def.stridedInputs = true;
  def.log2ScaleOperand = 2;
  def.stridedOutputs = true;
  def.kernel = matmulKernel;
  def.groupKernel = matmulWithGroup;
  def.reference = matmulReference;
  defs.push_back(def);
}

}  // namespace popxl::ops
