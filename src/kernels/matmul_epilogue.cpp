#include "kernels/matmul_epilogue.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "kernels/parallel.h"

namespace popxl::kernels {
namespace {

constexpr size_t kMaxOperands = 64;

/// Strides of an operand over the rows and columns of the product, all dimensions but the last being rows.
std::optional<std::array<int64_t, 2>> foldRows(const Layout& layout, const Shape& space) {
  const Strides strides = broadcastStrides(layout.shape, layout.strides, space);
  std::optional<int64_t> row;
  int64_t expected = 0;
  for (size_t d = space.size() - 1; d-- > 0;) {
    if (space[d] == 1) continue;
    if (!row) row = strides[d];
    if (strides[d] != (expected == 0 ? *row : expected)) return std::nullopt;
    expected = strides[d] * space[d];
    if (*row == 0) expected = 0;
  }
  return std::array<int64_t, 2>{row.value_or(0), space.back() == 1 ? 0 : strides.back()};
}

/// How an expression uses its inputs; false when it draws random bits or uses one input in both ways.
bool readInputs(const Expr& expr, std::vector<bool>& byElement) {
  std::vector<bool> byPosition(byElement.size(), false);
  for (const Node& node : expr.nodes()) {
    if (node.prim == Prim::kPhilox) return false;
    if (node.prim != Prim::kInput) continue;
    const auto slot = static_cast<size_t>(node.index);
    if (node.element >= 0) {
      byElement[slot] = true;
    } else {
      byPosition[slot] = true;
    }
    if (byElement[slot] && byPosition[slot]) return false;
  }
  return true;
}

/// Rows of a block of the group: few enough to stay serial, and of what is finished at a time a whole part.
int64_t rowsAtOnce(const MatmulPlan& plan) {
  int64_t rows = std::clamp<int64_t>(kSerialElements / plan.tileN, 1, plan.tileM);
  if (plan.path == MatmulPath::kPanels && plan.tileM > plan.blockRows) {
    while (plan.blockRows % rows != 0) --rows;
  }
  return rows;
}

}  // namespace

std::unique_ptr<const MatmulEpilogue> MatmulEpilogue::make(const ElementwiseSpec& spec,
                                                           const MatmulPlan& plan) {
  const bool whole = !plan.swapped && plan.batches == 1 && plan.splitK == 1 && plan.k > 0;
  if (!whole || spec.space.size() < 2 || spec.space.back() != plan.n) return nullptr;
  if (numElements(spec.space) != plan.m * plan.n || plan.tileN > kSerialElements) return nullptr;
  std::vector<bool> byElement(spec.inputs.size(), false);
  if (!readInputs(spec.expr, byElement)) return nullptr;
  auto epilogue = std::make_unique<MatmulEpilogue>();
  ElementwiseSpec blocks{spec.expr, {}, {}, {}};
  const auto add = [&](const Layout& layout, bool element, std::vector<Layout>& to) {
    const auto steps = element ? std::array<int64_t, 2>{0, 0} : foldRows(layout, spec.space);
    if (!steps) return false;
    const int64_t bytes = sizeOf(layout.dtype);
    epilogue->steps_.push_back({(*steps)[0] * bytes, (*steps)[1] * bytes});
    Layout block = layout;
    if (!element) {
      block.shape = {1, 1};
      block.strides = {(*steps)[0], (*steps)[1]};
    }
    to.push_back(std::move(block));
    return true;
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!add(spec.inputs[i], byElement[i], blocks.inputs)) return nullptr;
  }
  for (const Layout& l : spec.outputs) {
    if (!add(l, false, blocks.outputs)) return nullptr;
  }
  if (epilogue->steps_.size() > kMaxOperands) return nullptr;
  epilogue->rows_ = rowsAtOnce(plan);
  const auto rest = [](int64_t size, int64_t unit) { return (size - 1) % unit + 1; };
  for (const int64_t cols : {plan.tileN, rest(plan.n, plan.tileN)}) {
    for (const int64_t rows : {epilogue->rows_, rest(plan.tileM, epilogue->rows_),
                               rest(rest(plan.m, plan.tileM), epilogue->rows_)}) {
      for (size_t i = 0; i < blocks.inputs.size(); ++i) {
        if (!byElement[i]) blocks.inputs[i].shape = {rows, cols};
      }
      for (Layout& l : blocks.outputs) l.shape = {rows, cols};
      blocks.space = {rows, cols};
      if (!epilogue->addBlock(blocks, rows, cols)) return nullptr;
    }
  }
  return epilogue;
}

bool MatmulEpilogue::addBlock(const ElementwiseSpec& spec, int64_t rows, int64_t cols) {
  for (const Block& b : blocks_) {
    if (b.rows == rows && b.cols == cols) return true;
  }
  blocks_.push_back({rows, cols, makeElementwise(spec)});
  return blocks_.back().kernel->scratchBytes() == 0;
}

void MatmulEpilogue::run(const MatmulPiece& piece, std::span<std::byte* const> operands) const {
  std::array<std::byte*, kMaxOperands> at{};
  for (int64_t row = 0; row < piece.rows; row += rows_) {
    const int64_t rows = std::min(rows_, piece.rows - row);
    for (size_t i = 0; i < operands.size(); ++i) {
      const int64_t offset = (piece.row + row) * steps_[i].row + piece.col * steps_[i].col;
      at[i] = operands[i] == nullptr ? nullptr : operands[i] + offset;
    }
    const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                    [&](const Block& b) { return b.rows == rows && b.cols == piece.cols; });
    POPXL_ASSERT(block != blocks_.end(), "no block of {} x {}", rows, piece.cols);
    block->kernel->run({at.data(), operands.size()});
  }
}

}  // namespace popxl::kernels
