#include "kernels/tile_walk.h"

#include "base/error.h"

namespace popxl::kernels {

Walk::Walk(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!sizes_.empty() && strides_.back() == strides[i] * dims[i]) {
      sizes_.back() *= dims[i];
      strides_.back() = strides[i];
    } else {
      sizes_.push_back(dims[i]);
      strides_.push_back(strides[i]);
    }
  }
  POPXL_ASSERT(sizes_.size() <= kMaxDims, "{} dimensions that do not merge", sizes_.size());
}

int64_t Walk::highest() const {
  int64_t element = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) element += std::max<int64_t>(0, (sizes_[i] - 1) * strides_[i]);
  return element;
}

int64_t Walk::lowest() const {
  int64_t element = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) element += std::min<int64_t>(0, (sizes_[i] - 1) * strides_[i]);
  return element;
}

}  // namespace popxl::kernels
