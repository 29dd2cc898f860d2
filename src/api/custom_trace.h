#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/fresh_context.h"
#include "ir/ir.h"
#include "popxl/custom_op.h"

/// Compositions of a program's own ops as graphs.
namespace popxl::api {

/// What a composition makes of operands of certain types: a graph of an Ir of its own.
struct Trace {
  std::shared_ptr<const ir::Graph> graph;
  std::vector<const ir::Tensor*> results;  ///< its outputs; null where the function gave an empty Tensor
};

/// The graphs of one composition, one for each set of operand types and attributes: the function is called
/// once for each.
class Traces {
 public:
  /// `fn`, which belongs to `def`, with operands named `names`. Error(kGraph) for ops that a composition
  /// can't hold; what `fn` throws.
  Trace of(const ir::OpDef& def, const std::vector<std::string>& names, const CustomOp::Composition& fn,
           const OpUse& use);

 private:
  std::mutex mutex_;  // not held while a function runs: that may wait for another thread's
  std::unordered_map<std::string, Trace> traces_;
};

/// `work` for one use of an op: nothing of the program that is being built is in force meanwhile.
template <typename Work>
auto apart(const ir::OpTable& table, const Work& work) {
  const std::shared_ptr<ir::Ir> ir = ir::Ir::create(table);
  const ir::FreshContext context(ir->mainGraph());
  return work();
}

}  // namespace popxl::api
