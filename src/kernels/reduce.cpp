#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/reduce_fold.h"
#include "kernels/rows.h"

namespace popxl::kernels {
namespace {

const char* nameOf(Reduction kind) {
  static constexpr const char* kNames[] = {"sum",        "mean", "max", "min",    "prod",
                                           "sum square", "l1",   "l2",  "logsum", "logsumexp"};
  return kNames[static_cast<size_t>(kind)];
}

Fold foldOf(Reduction kind) {
  switch (kind) {
    case Reduction::kMax:
      return Fold::kMax;
    case Reduction::kMin:
      return Fold::kMin;
    case Reduction::kProd:
      return Fold::kProd;
    default:
      return Fold::kSum;
  }
}

/// What is folded: integers in 64 bits except for maxima and minima, squares and magnitudes where the kind
/// says so.
Val before(Reduction kind, Val x) {
  if (kind == Reduction::kMax || kind == Reduction::kMin) return x;
  if (!isFloatType(x.type())) x = x.convert(isUnsignedType(x.type()) ? VType::kU64 : VType::kI64);
  if (kind == Reduction::kSumSquare || kind == Reduction::kL2) return x * x;
  if (kind == Reduction::kL1) return abs(x);
  return x;
}

/// From the folded value to the result, in the compute type of the output.
Val after(Reduction kind, Val x, int64_t count, VType type) {
  if (kind == Reduction::kMean) x = x / static_cast<double>(count);
  if (kind == Reduction::kL2 || kind == Reduction::kLogSum) {
    if (!isFloatType(x.type())) x = x.convert(VType::kF64);
    x = kind == Reduction::kL2 ? sqrt(x) : log(x);
  }
  return x.convert(type);
}

int64_t reducedElements(const ReduceSpec& spec) {
  int64_t n = 1;
  for (const int64_t axis : spec.axes) n *= spec.space[static_cast<size_t>(axis)];
  return n;
}

/// Shape of the space with 1 on the axes.
Shape keptShape(const ReduceSpec& spec) {
  Shape shape = spec.space;
  for (const int64_t axis : spec.axes) shape[static_cast<size_t>(axis)] = 1;
  return shape;
}

/// Folds into partial results, then finishes them into the output; the first step alone where nothing is left
/// to do.
class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const ReduceSpec& spec, Backend backend)
      : inputs_(spec.inputs.size()),
        description_(describe(spec)),
        accumulated_(accumulatedExpr(spec)),
        fold_(accumulated_, foldOf(spec.kind), spec.space, spec.inputs, spec.axes, backend) {
    const VType type = accumulated_.nodes()[static_cast<size_t>(accumulated_.outputs()[0])].type;
    ElementwiseSpec finish;
    finish.space = keptShape(spec);
    const Val folded = input(finish.expr, 0, type);
    const Val result = after(spec.kind, folded, fold_.reduced(), computeType(spec.out.dtype));
    if (result.id == folded.id && fold_.isDense() && spec.out.dtype == dtypeOf(type) &&
        spec.out.isContiguous())
      return;
    finish.expr.outputs() = {result.id};
    finish.inputs = {Layout(dtypeOf(type), finish.space, fold_.resultStrides())};
    finish.outputs = {spec.out};
    finish_ = makeElementwise(std::move(finish), backend);
    scratch_ = lines(fold_.partials() * kernels::sizeOf(type));
  }

  int64_t scratchBytes() const override { return scratch_; }
  std::string describe() const override { return description_; }

  void run(std::span<std::byte* const> operands) const override {
    std::byte* out = operands[inputs_];
    if (finish_ == nullptr) return fold_.run(operands.data(), out);
    std::byte* partials = scratch_ > 0 ? operands[inputs_ + 1] : nullptr;
    fold_.run(operands.data(), partials);
    std::byte* const finishOperands[] = {partials, out};
    finish_->run(finishOperands);
  }

 private:
  static std::string describe(const ReduceSpec& spec) {
    return fmt::format("reduce {} {} over {}", nameOf(spec.kind), toString(spec.space), toString(spec.axes));
  }

  static Expr accumulatedExpr(const ReduceSpec& spec) {
    Expr expr = spec.expr;
    expr.outputs()[0] = before(spec.kind, Val{&expr, expr.outputs()[0]}).id;
    return expr;
  }

  size_t inputs_;
  std::string description_;
  Expr accumulated_;
  FoldKernel fold_;
  KernelPtr finish_;
  int64_t scratch_ = 0;
};

/// The maximum, or 0 where it is infinite or NaN.
Val shiftOf(Val maximum) {
  return select(eq(maximum - maximum, maximum.constant(0)), maximum, maximum.constant(0));
}

/// log(sum(exp(x - shift))) + shift with the maximum as shift: two reductions, and small elementwise kernels
/// behind each.
class LogSumExpKernel final : public Kernel {
 public:
  LogSumExpKernel(const ReduceSpec& spec, Backend backend) : inputs_(spec.inputs.size()) {
    const VType type = spec.expr.nodes()[static_cast<size_t>(spec.expr.outputs()[0])].type;
    POPXL_ASSERT(isFloatType(type), "logsumexp of integers");
    const Layout kept(dtypeOf(type), keptShape(spec));
    keptBytes_ = lines(kept.bytes());
    ReduceSpec first = spec;
    first.kind = Reduction::kMax;
    first.out = kept;
    ReduceSpec second = first;
    second.kind = Reduction::kSum;
    second.inputs.push_back(kept);
    const Val shift = input(second.expr, static_cast<int32_t>(inputs_), type);
    second.expr.outputs()[0] = exp(Val{&second.expr, second.expr.outputs()[0]} - shift).id;
    maximum_ = makeReduce(std::move(first), backend);
    sum_ = makeReduce(std::move(second), backend);
    ElementwiseSpec shifts{.expr = {}, .space = kept.shape, .inputs = {kept}, .outputs = {kept}};
    shifts.expr.outputs() = {shiftOf(input(shifts.expr, 0, type)).id};
    shift_ = makeElementwise(std::move(shifts), backend);
    ElementwiseSpec finish{.expr = {}, .space = kept.shape, .inputs = {kept, kept}, .outputs = {spec.out}};
    const Val result = log(input(finish.expr, 0, type)) + input(finish.expr, 1, type);
    finish.expr.outputs() = {result.convert(computeType(spec.out.dtype)).id};
    finish_ = makeElementwise(std::move(finish), backend);
    description_ = fmt::format("reduce logsumexp {} over {}", toString(spec.space), toString(spec.axes));
    operandCount_ = inputs_ + 3;
    POPXL_ASSERT(operandCount_ <= kMaxOperands, "{} inputs of a reduction", inputs_);
  }

  int64_t scratchBytes() const override {
    return 2 * keptBytes_ + std::max(maximum_->scratchBytes(), sum_->scratchBytes());
  }
  std::string describe() const override { return description_; }

  void run(std::span<std::byte* const> operands) const override {
    std::byte* out = operands[inputs_];
    std::byte* scratch = operands[inputs_ + 1];
    std::byte* shift = scratch;
    std::byte* sum = shift + keptBytes_;
    std::byte* rest = sum + keptBytes_;
    std::byte* table[kMaxOperands];
    std::copy_n(operands.begin(), inputs_, table);
    table[inputs_] = shift;
    table[inputs_ + 1] = rest;
    maximum_->run({table, inputs_ + 2});
    std::byte* const shiftOperands[] = {shift, shift};
    shift_->run(shiftOperands);
    table[inputs_ + 1] = sum;
    table[inputs_ + 2] = rest;
    sum_->run({table, inputs_ + 3});
    std::byte* const finishOperands[] = {sum, shift, out};
    finish_->run(finishOperands);
  }

 private:
  static constexpr size_t kMaxOperands = 256;
  size_t inputs_, operandCount_ = 0;
  int64_t keptBytes_ = 0;
  KernelPtr maximum_, shift_, sum_, finish_;
  std::string description_;
};

/// One element a result: elementwise.
KernelPtr makeCopy(ReduceSpec spec, Backend backend) {
  ElementwiseSpec copy{.expr = std::move(spec.expr),
                       .space = std::move(spec.space),
                       .inputs = std::move(spec.inputs),
                       .outputs = {std::move(spec.out)}};
  const Val x = before(spec.kind, Val{&copy.expr, copy.expr.outputs()[0]});
  copy.expr.outputs()[0] = after(spec.kind, x, 1, computeType(copy.outputs[0].dtype)).id;
  return makeElementwise(std::move(copy), backend);
}

}  // namespace

KernelPtr makeReduce(ReduceSpec spec, Backend backend) {
  POPXL_ASSERT(spec.out.shape == keptShape(spec), "space {} out {}", toString(spec.space),
               toString(spec.out.shape));
  POPXL_ASSERT(spec.expr.outputs().size() == 1, "{} outputs", spec.expr.outputs().size());
  if (spec.kind == Reduction::kLogSumExp) return std::make_unique<LogSumExpKernel>(spec, backend);
  if (reducedElements(spec) == 1) return makeCopy(std::move(spec), backend);
  return std::make_unique<ReduceKernel>(spec, backend);
}

KernelPtr makeReduce(ReduceSpec spec) { return makeReduce(std::move(spec), Backend::kBest); }

}  // namespace popxl::kernels
