#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "ir/ir.h"

namespace popxl::analysis {

/// What of a program can have an effect: ops that write memory, talk to the host or print, and all that they
/// read. Operands that an op does not read are not followed, through calls too.
class Liveness {
 public:
  /// `reads(op, i)` tells whether op needs the value of operand i at all.
  using Reads = std::function<bool(const ir::Op&, size_t)>;
  Liveness(const ir::Ir& ir, Reads reads);

  bool live(const ir::Op& op) const { return ops_.contains(&op); }
  /// Whether anything reads the value of this tensor.
  bool live(const ir::Tensor& t) const { return tensors_.contains(&t); }
  /// Whether op needs operand i; for a call, whether the called graph does.
  bool reads(const ir::Op& op, size_t i) const;

 private:
  void findEffects(const ir::Graph& graph, std::unordered_set<const ir::Graph*>& seen);
  bool hasEffect(const ir::Op& op) const;
  void markOp(const ir::Op& op);
  void markTensor(const ir::Tensor& t);
  void enter(const ir::Graph& graph);
  void follow(const ir::Op& op);
  void follow(const ir::Tensor& t);

  Reads reads_;
  std::unordered_set<const ir::Graph*> effectful_;
  std::unordered_set<const ir::Graph*> entered_;  // called by a live op, or the main graph
  std::unordered_set<const ir::Op*> ops_;
  std::unordered_set<const ir::Tensor*> tensors_;
  /// Operands of call sites by the graph input that they stand for.
  std::unordered_map<const ir::Tensor*, std::vector<ir::Use>> operandsOf_;
  std::vector<const ir::Op*> opWork_;
  std::vector<const ir::Tensor*> tensorWork_;
};

}  // namespace popxl::analysis
