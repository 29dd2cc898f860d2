#include "kernels/attention.h"

#include "ops/define.h"
#include "ops/softmax.h"

// Attention as one op: made by the compiler from the products and the softmax between them.
namespace popxl::ops {

namespace {

/// Shapes of one attention: leading dimensions, then queries and keys and the widths of keys and values.
struct Sizes {
  Shape heads;
  int64_t rows, columns, depth;

  Shape with(int64_t a, int64_t b) const {
    Shape shape = heads;
    shape.push_back(a);
    shape.push_back(b);
    return shape;
  }
};

Shape leading(const Op& op, size_t operand) {
  const Shape& shape = typeOf(op, operand).shape;
  return {shape.begin(), shape.end() - 2};
}

int64_t fromEnd(const Op& op, size_t operand, size_t back) {
  const Shape& shape = typeOf(op, operand).shape;
  return shape[shape.size() - back];
}

/// Reads and checks operands q, k and v.
Sizes sizesOf(const Op& op) {
  for (const size_t i : {0, 1, 2}) {
    requireSameDType(op, 0, i);
    if (op.input(i)->rank() < 2)
      fail(ErrorKind::kGraph, "{} must have two dimensions or more", describe(op, i));
  }
  Sizes s{{}, fromEnd(op, 0, 2), fromEnd(op, 1, 2), fromEnd(op, 2, 1)};
  if (fromEnd(op, 0, 1) != fromEnd(op, 1, 1)) {
    fail(ErrorKind::kGraph, "{} and {} must have the same last dimension", describe(op, 0), describe(op, 1));
  }
  if (fromEnd(op, 2, 2) != s.columns) {
    fail(ErrorKind::kGraph, "{} and {} must have the same last but one dimension", describe(op, 1),
         describe(op, 2));
  }
  Shape both;
  if (!broadcastShapes(leading(op, 0), leading(op, 1), both) ||
      !broadcastShapes(both, leading(op, 2), s.heads)) {
    fail(ErrorKind::kGraph, "the leading dimensions of {}, {} and {} do not broadcast", describe(op, 0),
         describe(op, 1), describe(op, 2));
  }
  return s;
}

void requireBroadcast(const Op& op, size_t operand, const Shape& shape) {
  Shape joint;
  if (op.input(operand) == nullptr) return;
  if (!broadcastShapes(typeOf(op, operand).shape, shape, joint) || joint != shape) {
    fail(ErrorKind::kGraph, "{} does not broadcast to the shape {} of the scores", describe(op, operand),
         toString(shape));
  }
}

void requireShape(const Op& op, size_t operand, const Shape& shape) {
  requireSameDType(op, 0, operand);
  if (typeOf(op, operand).shape != shape) {
    fail(ErrorKind::kGraph, "{} must have shape {}", describe(op, operand), toString(shape));
  }
}

void inferAttention(const Op& op, Types& out) {
  const Sizes s = sizesOf(op);
  const Shape scores = s.with(s.rows, s.columns);
  requireBroadcast(op, 3, scores);
  requireBroadcast(op, 4, scores);
  if (op.input(3) != nullptr) requireSameDType(op, 0, 3);
  out.push_back({typeOf(op, 0).dtype, s.with(s.rows, s.depth), {}});
  if (op.attr<bool>("probabilities")) out.push_back({typeOf(op, 0).dtype, scores, {}});
}

kernels::KernelPtr attentionKernel(const ir::KernelContext& c) {
  kernels::AttentionSpec spec;
  size_t next = 0;
  spec.q = c.inputs[next++];
  spec.k = c.inputs[next++];
  spec.v = c.inputs[next++];
  if (c.op.input(3) != nullptr) spec.bias = c.inputs[next++];
  if (c.op.input(4) != nullptr) spec.keep = c.inputs[next++];
  spec.out = c.outputs[0];
  if (c.outputs.size() == 2) spec.probabilities = c.outputs[1];
  spec.scale = c.op.attr<double>("scale");
  spec.fill = c.op.attr<double>("fill");
  return kernels::makeAttention(std::move(spec));
}

void inferAttentionGrad(const Op& op, Types& out) {
  const Sizes s = sizesOf(op);
  requireShape(op, 0, s.with(s.rows, fromEnd(op, 0, 1)));
  requireShape(op, 1, s.with(s.columns, fromEnd(op, 1, 1)));
  requireShape(op, 2, s.with(s.columns, s.depth));
  requireShape(op, 3, s.with(s.rows, s.columns));
  requireShape(op, 4, s.with(s.rows, s.depth));
  requireBroadcast(op, 5, s.with(s.rows, s.columns));
  for (const size_t i : {0, 1, 2}) out.push_back(typeOf(op, i));
}

kernels::KernelPtr attentionGradKernel(const ir::KernelContext& c) {
  kernels::AttentionGradSpec spec;
  spec.q = c.inputs[0];
  spec.k = c.inputs[1];
  spec.v = c.inputs[2];
  spec.probabilities = c.inputs[3];
  spec.grad = c.inputs[4];
  if (c.op.input(5) != nullptr) spec.keep = c.inputs[5];
  spec.dq = c.outputs[0];
  spec.dk = c.outputs[1];
  spec.dv = c.outputs[2];
  spec.scale = c.op.attr<double>("scale");
  return kernels::makeAttentionGrad(std::move(spec));
}

Shape extended(Shape index, int64_t last) {
  index.push_back(last);
  return index;
}

/// f(index of the query's row, of the key's row, of their score) for every score.
template <typename F>
void forScores(const Sizes& s, const F& f) {
  ir::forEachIndex(s.with(s.rows, s.columns), [&](const Shape& score) {
    const Shape query(score.begin(), score.end() - 1);
    Shape key = query;
    key.back() = score.back();
    f(query, key, score);
  });
}

double dot(const Array& x, const Shape& a, const Array& y, const Shape& b) {
  double sum = 0;
  for (int64_t i = 0; i < x.shape().back(); ++i)
    sum += x.at(extended(a, i)).real() * y.at(extended(b, i)).real();
  return sum;
}

/// to[a] += factor * from[b] for a row of each.
void addRow(Array& to, const Shape& a, const Array& from, const Shape& b, double factor) {
  for (int64_t i = 0; i < to.shape().back(); ++i) {
    Number& sum = to.at(extended(a, i));
    sum = sum + Number(factor * from.at(extended(b, i)).real());
  }
}

bool keeps(const ReferenceContext& c, size_t operand, const Shape& score) {
  return c.op.input(operand) == nullptr || c.in[operand].at(score).integer() != 0;
}

void attentionReference(ReferenceContext& c) {
  const Sizes s = sizesOf(c.op);
  Array p(DType::kFloat64, s.with(s.rows, s.columns));
  forScores(s, [&](const Shape& query, const Shape& key, const Shape& score) {
    double x = c.op.attr<double>("scale") * dot(c.in[0], query, c.in[1], key);
    if (c.op.input(3) != nullptr) x += c.in[3].at(score).real();
    p.at(score) = keeps(c, 4, score) ? x : c.op.attr<double>("fill");
  });
  for (const Line& line : ir::linesOf(p.shape(), p.rank() - 1)) softmaxOfLine(p, line, p);
  forScores(s, [&](const Shape& query, const Shape& key, const Shape& score) {
    addRow(c.out[0], query, c.in[2], key, p.at(score).real());
    if (c.out.size() == 2) c.out[1].at(score) = p.at(score);
  });
}

/// With dP = grad v^T and dS = P (dP - sum(P dP)), 0 where a score does not count: dq = scale dS k,
/// dk = scale dS^T q, dv = P^T grad.
void attentionGradReference(ReferenceContext& c) {
  const Array &q = c.in[0], &k = c.in[1], &v = c.in[2], &p = c.in[3], &grad = c.in[4];
  const Sizes s = sizesOf(c.op);
  Array sums(DType::kFloat64, s.with(s.rows, 1));
  const auto term = [&](const Shape& query, const Shape& key, const Shape& score) {
    return p.at(score).real() * dot(grad, query, v, key);
  };
  forScores(s, [&](const Shape& query, const Shape& key, const Shape& score) {
    sums.at(score) = sums.at(score) + Number(term(query, key, score));
  });
  forScores(s, [&](const Shape& query, const Shape& key, const Shape& score) {
    addRow(c.out[2], key, grad, query, p.at(score).real());
    if (!keeps(c, 5, score)) return;
    const double ds = term(query, key, score) - p.at(score).real() * sums.at(score).real();
    addRow(c.out[0], query, k, key, c.op.attr<double>("scale") * ds);
    addRow(c.out[1], key, q, query, c.op.attr<double>("scale") * ds);
  });
}

const ir::OperandDef kKeep = {"keep", ir::kBools, "Where scores count; broadcasts to them.",
                              Arity::kOptional};
const ir::AttrDef kScale = {"scale", AttrType::kFloat, "Factor of the products of queries and keys.",
                            Attr(1.0)};

}  // namespace

void attention(Defs& defs) {
  OpDef def;
  def.name = "attention";
  def.type = "Attention";
  def.doc = "softmax(scale * q k^T + bias) v for every head; scores are `fill` where `keep` is false.";
  def.operands = {{"q", ir::kFloats, "[..., rows, width]."},
                  {"k", ir::kFloats, "[..., columns, width]."},
                  {"v", ir::kFloats, "[..., columns, depth]."},
                  {"bias", ir::kFloats, "Broadcasts to the scores [..., rows, columns].", Arity::kOptional},
                  kKeep};
  def.attrs = {kScale,
               {"fill", AttrType::kFloat, "Scores that do not count.", Attr(0.0)},
               {"probabilities", AttrType::kBool, "Whether the softmax is a result too.", Attr(false)}};
  def.results = {{"results", "The mixed values, then the softmax if wanted.", true}};
  def.infer = inferAttention;
  def.visibility = Visibility::kInternal;
  def.stridedInputs = true;
  def.stridedOutputs = true;
  def.kernel = attentionKernel;
  def.reference = attentionReference;
  defs.push_back(def);

  OpDef grad;
  grad.name = "attention_grad";
  grad.type = "AttentionGrad";
  grad.doc = "Gradients of attention with respect to q, k and v, of one shape but for the sizes of a head.";
  grad.operands = {{"q", ir::kFloats},
                   {"k", ir::kFloats},
                   {"v", ir::kFloats},
                   {"probabilities", ir::kFloats, "The softmax."},
                   {"grad", ir::kFloats, "Gradient of the mixed values."},
                   kKeep};
  grad.attrs = {kScale};
  grad.results = {{"dq"}, {"dk"}, {"dv"}};
  grad.infer = inferAttentionGrad;
  grad.visibility = Visibility::kInternal;
  grad.stridedInputs = true;
  grad.stridedOutputs = true;
  grad.kernel = attentionGradKernel;
  grad.reference = attentionGradReference;
  defs.push_back(grad);
}

}  // namespace popxl::ops
