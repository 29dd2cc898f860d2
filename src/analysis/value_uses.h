#pragma once

#include <unordered_map>
#include <vector>

#include "analysis/live.h"
#include "analysis/operand_uses.h"

namespace popxl::analysis {

/// Ops that run each graph, in the order of graphs and ops.
using CallSites = std::unordered_map<const ir::Graph*, std::vector<ir::Op*>>;
CallSites callSites(const ir::Ir& ir);

/// Who looks at the values of a program: uses by ops that have an effect, and results of graphs that some
/// caller looks at. Uses that only name a tensor do not count. True for the program as it was when this was
/// made.
class ValueUses {
 public:
  explicit ValueUses(const ir::Ir& ir);

  const Liveness& liveness() const { return liveness_; }
  std::vector<ir::Use> of(const ir::Tensor& t) const;
  /// Whether the only use is one operand of one op; that use is `*use` then.
  bool isSingle(const ir::Tensor& t, ir::Use* use = nullptr) const;

 private:
  Liveness liveness_;
};

}  // namespace popxl::analysis
