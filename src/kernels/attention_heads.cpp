#include "kernels/attention_heads.h"

#include "base/error.h"

namespace popxl::kernels::attention {

HeadMatrix::HeadMatrix(const Layout& layout, const Shape& heads) : dtype(layout.dtype) {
  const size_t rank = layout.shape.size();
  POPXL_ASSERT(rank >= 2, "attention on shape {}", toString(layout.shape));
  rows = layout.shape[rank - 2];
  cols = layout.shape[rank - 1];
  row = layout.strides[rank - 2];
  col = layout.strides[rank - 1];
  batch = broadcastStrides(std::span(layout.shape).first(rank - 2), std::span(layout.strides).first(rank - 2),
                           heads);
}

Matrix HeadMatrix::at(std::byte* base, const Shape& heads, int64_t head) const {
  int64_t offset = 0;
  for (size_t d = heads.size(); d-- > 0;) {
    offset += head % heads[d] * batch[d];
    head /= heads[d];
  }
  return {base + offset * sizeOf(dtype), dtype, rows, cols, row, col};
}

HeadMatrix broadcastMatrix(const Layout& layout, const Shape& heads, int64_t rows, int64_t cols) {
  Layout wide(layout.dtype, heads);
  wide.shape.push_back(rows);
  wide.shape.push_back(cols);
  wide.strides = broadcastStrides(layout.shape, layout.strides, wide.shape);
  return HeadMatrix(wide, heads);
}

int64_t blockRows(int64_t rows, int64_t columns, int64_t elementBytes) {
  constexpr int64_t kBlockBytes = 128 * 1024, kLeast = 16, kMost = 64;
  const int64_t fitting = kBlockBytes / (std::max<int64_t>(columns, 1) * elementBytes) / kLeast * kLeast;
  return std::clamp<int64_t>(rows, 1, std::clamp(fitting, kLeast, kMost));
}

}  // namespace popxl::kernels::attention
