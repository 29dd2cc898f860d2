#include "compile/group_expr.h"

#include <algorithm>

#include "base/error.h"

namespace popxl::compile {

using kernels::Val;
using kernels::VType;

class OpContext final : public ir::ExprContext {
 public:
  OpContext(const ir::Op& op, GroupExpr& group) : ExprContext(op), group_(group) {}

  Val in(size_t i) override {
    const ir::Tensor* t = op.input(i);
    if (const auto it = group_.values_.find(t); it != group_.values_.end()) return it->second;
    return kernels::input(group_.expr_, group_.slot(t), kernels::computeType(t->dtype()));
  }

  Val element(size_t i, int64_t element) override {
    const ir::Tensor* t = op.input(i);
    POPXL_ASSERT(!group_.values_.contains(t), "elements of {} are read inside its group", t->id());
    const int32_t slot = group_.slot(t);
    group_.elements_[static_cast<size_t>(slot)] = true;
    return kernels::input(group_.expr_, slot, kernels::computeType(t->dtype()), element);
  }

  bool has(size_t i) const override { return op.input(i) != nullptr; }
  Val constant(VType type, double number) override { return kernels::constant(group_.expr_, type, number); }

  void out(Val value, size_t i) override {
    const ir::Tensor* t = op.output(i);
    POPXL_ASSERT(value.type() == kernels::computeType(t->dtype()), "op {} computes {} in another type",
                 op.name(), t->type().str());
    const bool narrow = sizeOf(t->dtype()) < 4 && t->dtype() != DType::kBool;
    pending_.emplace_back(t, narrow ? kernels::roundTo(value, t->dtype()) : value);
  }

  /// Results become visible when the op is complete, so that an in-place op never reads its own result.
  void finish() {
    POPXL_ASSERT(pending_.size() == op.outputs().size(), "op {} gave {} results", op.name(), pending_.size());
    for (const auto& [t, value] : pending_) group_.define(op, t, value);
  }

 private:
  GroupExpr& group_;
  std::vector<std::pair<const ir::Tensor*, Val>> pending_;
};

/// A result written in place is from now on also the value of every other name of that memory.
void GroupExpr::define(const ir::Op& op, const ir::Tensor* result, Val value) {
  for (const ir::Alias& alias : op.aliases()) {
    if (op.output(static_cast<size_t>(alias.output)) != result) continue;
    const ir::Tensor* source = op.input(static_cast<size_t>(alias.input));
    const auto known = roots_.find(source);
    const ir::Tensor* root = known == roots_.end() ? source : known->second;
    for (auto& [t, old] : values_) {
      const auto other = roots_.find(t);
      if (t == root || (other != roots_.end() && other->second == root)) old = value;
    }
    roots_.insert_or_assign(result, root);
  }
  values_.insert_or_assign(result, value);
}

int32_t GroupExpr::slot(const ir::Tensor* t) {
  const auto [it, fresh] = slots_.emplace(t, static_cast<int32_t>(inputs_.size()));
  if (fresh) {
    inputs_.push_back(t);
    elements_.push_back(false);
  }
  return it->second;
}

void GroupExpr::add(const ir::Op& op) {
  OpContext context(op, *this);
  op.def().expr(context);
  context.finish();
}

int32_t copiedOperand(const ir::Op& op) {
  if (op.def().expr == nullptr || op.def().reducesAxes || op.outputs().size() != 1) return -1;
  GroupExpr group;
  group.add(op);
  group.store(op.output());
  const kernels::Node& node = group.expr().nodes()[static_cast<size_t>(group.expr().outputs().front())];
  if (node.prim != kernels::Prim::kInput || node.element >= 0) return -1;
  const ir::Tensor* source = group.inputs()[static_cast<size_t>(node.index)];
  if (source->dtype() != op.output()->dtype() || source->shape() != op.output()->shape()) return -1;
  const auto at = std::find(op.inputs().begin(), op.inputs().end(), source);
  return static_cast<int32_t>(at - op.inputs().begin());
}

int32_t passedOperand(const ir::Op& op) {
  if (!op.aliases().empty()) return -1;
  for (size_t i = 0; i < op.inputs().size(); ++i) {
    if (op.modifies(i)) return -1;
  }
  return copiedOperand(op);
}

}  // namespace popxl::compile
