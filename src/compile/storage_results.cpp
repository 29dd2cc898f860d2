#include "compile/storage.h"

// Where results lie that kernels write at any strides: so that views of them are dense, or straight in the
// tensor that they become a piece of.
namespace popxl::compile {
namespace {

/// Not so where a matrix is shared by a batch: only rows that follow each other make that one product.
bool writesAnyStrides(const ir::Tensor* t) {
  const ir::Op* op = t->producer();
  return op != nullptr && op->def().stridedOutputs && op->input(1)->rank() >= op->input(0)->rank();
}

bool canUnview(const ir::Op& op) { return op.def().unview != nullptr && !op.inplace(); }

}  // namespace

const ir::Op* StorageMap::onlyUse(const ir::Tensor* t) const {
  const ir::Op* only = nullptr;
  for (const ir::Use& use : t->uses()) {
    if (!liveness_.live(*use.op) || !liveness_.reads(*use.op, static_cast<size_t>(use.index))) continue;
    if (only != nullptr) return nullptr;
    only = use.op;
  }
  return liveness_.returned(*t) ? nullptr : only;
}

bool StorageMap::neverWritten(const ir::Tensor* t) const {
  return groupOf_[t] < 0 || !writes_.contains(groupOf_[t]);
}

/// The layout of a result in its own memory: one for which the views that alone read it, one of the other,
/// end in dense memory where the kernel can write that.
Layout StorageMap::layoutForViews(const ir::Tensor* result) const {
  Layout own = channelsLast_.layoutOf(result);
  if (!writesAnyStrides(result) || !neverWritten(result)) return own;
  std::vector<const ir::Op*> views;
  const ir::Tensor* last = result;
  for (const ir::Op* use = onlyUse(last); use != nullptr && canUnview(*use); use = onlyUse(last)) {
    views.push_back(use);
    last = use->output();
  }
  ir::View view{Layout(last->dtype(), last->shape()), 0};
  for (size_t i = views.size(); i-- > 0;) {
    const Layout viewed = view.layout;
    if (!views[i]->def().unview(*views[i], viewed, view)) return own;
  }
  return view.layout;
}

/// Follows `t`, an operand of `join`, through views to the result that they are of, and its layout from that
/// of the operand. False where that is no result that can be laid out so.
bool StorageMap::findPiece(const ir::Op& join, const ir::Tensor*& t, Layout& layout) const {
  const ir::Op* use = &join;
  while (onlyUse(t) == use && neverWritten(t) && t->producer() != nullptr) {
    const ir::Op& op = *t->producer();
    if (!canUnview(op)) return writesAnyStrides(t);
    ir::View view;
    if (!op.def().unview(op, layout, view)) return false;
    layout = std::move(view.layout);
    use = &op;
    t = op.input(0);
  }
  return false;
}

/// Lets results that only become pieces of another tensor be written there, if all of its pieces can.
void StorageMap::placePieces(const ir::Op& join) {
  const ir::Tensor* whole = join.output();
  if (join.inplace() || !neverWritten(whole)) return;
  const Layout dense(whole->dtype(), whole->shape());
  const auto axis = static_cast<size_t>(normalizeAxis(join.attr<int64_t>("axis"), whole->rank(), "axis"));
  const auto buffer = static_cast<int32_t>(buffers_.size());
  std::vector<std::pair<const ir::Tensor*, Storage>> pieces;
  int64_t begin = 0;
  for (const ir::Tensor* operand : join.inputs()) {
    const ir::Tensor* t = operand;
    Layout layout(operand->dtype(), operand->shape(), dense.strides);
    if (!findPiece(join, t, layout)) return;
    pieces.push_back({t, {buffer, std::move(layout), begin * dense.strides[axis]}});
    begin += operand->shape()[axis];
  }
  addBuffer({Buffer::Kind::kLocal, whole->type().bytes(), 0, whole});
  storages_[whole] = {buffer, dense, 0};
  for (auto& [t, storage] : pieces) storages_[t] = std::move(storage);
  free_[&join] = true;
}

}  // namespace popxl::compile
