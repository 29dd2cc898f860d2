#pragma once

#include <unordered_set>
#include <vector>

#include "analysis/live.h"
#include "ir/ir.h"

namespace popxl::compile {

/// Which tensors of a program lie channels last: [N, C, D...] in the order N, D..., C, in which convolutions
/// are fastest. From the operands and results of convolutions that choice spreads over elementwise ops, norms
/// and pooling, through calls too, so that data changes its order only at the borders of such a region.
class ChannelsLast {
 public:
  /// `graphs`: all that run.
  ChannelsLast(const std::vector<const ir::Graph*>& graphs, const analysis::Liveness& liveness);

  bool operator()(const ir::Tensor* t) const { return chosen_.contains(t); }
  /// How a tensor lies that has memory of its own, and where a graph passes it to or from its caller.
  Layout layoutOf(const ir::Tensor* t) const;
  /// Whether that is how `layout` lies.
  bool matches(const ir::Tensor* t, const Layout& layout) const {
    return (*this)(t) ? layout.isChannelsLast() : layout.isContiguous();
  }

 private:
  std::unordered_set<const ir::Tensor*> chosen_;
};

}  // namespace popxl::compile
