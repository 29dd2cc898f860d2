#include "compile/memory_order.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace popxl::compile {
namespace {

using Order = std::vector<size_t>;  // new dimension -> old

/// Dimensions by falling stride; nothing when they are in that order already.
std::optional<Order> orderOf(const Layout& layout) {
  Order order(layout.shape.size()), places;
  std::iota(order.begin(), order.end(), size_t{0});
  for (const size_t d : order) {
    if (layout.shape[d] != 1) places.push_back(d);
  }
  Order sorted = places;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](size_t a, size_t b) { return layout.strides[a] > layout.strides[b]; });
  if (sorted == places) return std::nullopt;
  for (size_t i = 0; i < places.size(); ++i) order[places[i]] = sorted[i];
  return order;
}

Shape reordered(const Shape& shape, const Order& order) {
  Shape result;
  for (const size_t d : order) result.push_back(shape[d]);
  return result;
}

/// The same memory with its dimensions renamed, those missing at the front of the space included.
Layout reordered(Layout layout, const Order& order) {
  const size_t lead = order.size() - layout.shape.size();
  layout.shape.insert(layout.shape.begin(), lead, 1);
  layout.strides.insert(layout.strides.begin(), lead, 0);
  return {layout.dtype, reordered(layout.shape, order), reordered(layout.strides, order)};
}

/// Which inputs the expression reads at every position; some it does not read at all.
std::vector<bool> readInputs(const kernels::Expr& expr, size_t inputs) {
  std::vector<bool> read(inputs, false);
  const std::vector<bool> used = kernels::usedNodes(expr);
  for (size_t i = 0; i < used.size(); ++i) {
    const kernels::Node& n = expr.nodes()[i];
    if (used[i] && n.prim == kernels::Prim::kInput && n.element < 0)
      read[static_cast<size_t>(n.index)] = true;
  }
  return read;
}

}  // namespace

void walkInMemoryOrder(kernels::ElementwiseSpec& spec) {
  const auto order = orderOf(spec.outputs.front());
  if (!order.has_value()) return;
  spec.space = reordered(spec.space, *order);
  for (Layout& l : spec.inputs) l = reordered(std::move(l), *order);
  for (Layout& l : spec.outputs) l = reordered(std::move(l), *order);
}

void walkInMemoryOrder(kernels::ReduceSpec& spec) {
  const std::vector<bool> read = readInputs(spec.expr, spec.inputs.size());
  size_t full = 0;
  while (full < spec.inputs.size() && !(read[full] && spec.inputs[full].shape == spec.space)) ++full;
  if (full == spec.inputs.size()) return;
  const auto order = orderOf(spec.inputs[full]);
  if (!order.has_value()) return;
  spec.space = reordered(spec.space, *order);
  for (Layout& l : spec.inputs) l = reordered(std::move(l), *order);
  spec.out = reordered(std::move(spec.out), *order);
  for (int64_t& axis : spec.axes) {
    axis = std::find(order->begin(), order->end(), static_cast<size_t>(axis)) - order->begin();
  }
  std::sort(spec.axes.begin(), spec.axes.end());
}

}  // namespace popxl::compile
