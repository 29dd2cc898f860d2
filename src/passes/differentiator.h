#pragma once

#include <unordered_map>
#include <unordered_set>

#include "ir/grad_context.h"
#include "passes/autodiff.h"
#include "passes/changes.h"

namespace popxl::passes {

using TensorSet = std::unordered_set<const ir::Tensor*>;

/// Tensors on a path from `sources` along data to anywhere, through ops that have a gradient. `order`: the
/// graph's ops, topologically.
TensorSet reachableFrom(const std::vector<ir::Op*>& order, const std::vector<ir::Tensor*>& sources);
/// Tensors on a path along data to `sinks`.
TensorSet reaching(const std::vector<ir::Op*>& order, const std::vector<ir::Tensor*>& sinks);

std::string gradName(const ir::Tensor& t);
/// Whether a conditional runs the graph.
bool isBranch(const ir::Graph& graph);

/// What all differentiations of one request share.
struct DiffState {
  std::map<ir::Graph*, GradInfo> infos;  ///< of called graphs
  Changes changes;
  std::unordered_map<const ir::Graph*, bool> effects;  ///< see hasEffect

  /// Whether running the op again would be noticed, or cost a transfer: host, remote and print ops,
  /// collectives, and ops that run graphs with such ops.
  bool hasEffect(const ir::Op& op);
};

/// Where a gradient graph gets forward tensors that are neither inputs nor outputs of the forward graph.
enum class Intermediates : uint8_t {
  kGiven,      ///< the forward graph gains outputs, the gradient graph inputs
  kRecomputed  ///< from inputs of the forward graph, by copies of its ops; results of ops with effects are
               ///< given
};

/// Differentiates one graph.
class Differentiator {
 public:
  Differentiator(ir::Graph& forward, const AutodiffOptions& options, DiffState& state,
                 Intermediates intermediates)
      : forward_(forward), options_(options), state_(state), intermediates_(intermediates) {}

  GradInfo run();

  // What gradient rules are made of; see RuleContext.
  ir::Graph& gradGraph() { return *gradGraph_; }
  bool needed(const ir::Tensor* t) const;
  /// A forward tensor in the gradient graph.
  ir::Tensor* forwardTensor(ir::Tensor* t);
  /// The gradient of a forward tensor, summed over its uses; null when there is none.
  ir::Tensor* gradOf(const ir::Tensor* t, const ir::Op* from);
  void addPartial(const ir::Tensor* t, ir::Tensor* grad);
  ir::Tensor* constant(const ir::TensorType& type, double value);

  /// The gradient of a graph that an op of this one repeats or takes as a branch: forward tensors are
  /// recomputed.
  GradInfo gradOfBody(ir::Graph& body, std::vector<ir::Tensor*> provided,
                      std::vector<ir::Tensor*> required) const;
  ir::Graph& newGradGraph(const ir::Graph& forward) const;
  Changes& changes() { return state_.changes; }

 private:
  // autodiff.cpp
  void checkArguments();
  void checkDifferentiable() const;
  void checkOpsHaveGradients() const;
  void build();
  void differentiate(ir::Op& op);
  bool isRecomputed(const ir::Op& op) const;
  ir::Tensor* recomputed(ir::Tensor* t);
  ir::Tensor* add(std::vector<ir::Tensor*> grads, std::string name, const ir::Op* from);
  GradInfo finish();
  void removeUnused();
  void giveOutputs();

  // autodiff_calls.cpp
  void differentiateCallees();
  void differentiateCall(ir::Op& call);
  ir::Tensor* gradOfCallOutput(const ir::Op& call, const ir::Tensor* fwd, bool first);

  ir::Graph& forward_;
  const AutodiffOptions& options_;
  DiffState& state_;
  Intermediates intermediates_;
  bool isBody_ = false;  // the op that runs the graph looks after forward tensors that it has to give
  ir::Graph* gradGraph_ = nullptr;
  std::vector<ir::Op*> order_;
  std::vector<ir::Tensor*> provided_, required_;
  TensorSet fromRequired_, toProvided_;
  std::vector<Connection> inputs_;
  std::unordered_map<const ir::Tensor*, ir::Tensor*> forwardTensors_;
  std::unordered_map<const ir::Op*, ir::Op*> copies_;  // of forward ops that are run again
  std::unordered_map<const ir::Tensor*, std::vector<ir::Tensor*>> partials_;
  TensorSet named_;
};

/// The view of the differentiation that one op's gradient rule has.
class RuleContext final : public ir::GradContext {
 public:
  RuleContext(const ir::Op& op, Differentiator& owner) : GradContext(op), owner_(owner) {}
  ir::Tensor* outGrad(size_t i) override;
  ir::Tensor* outGradOrZero(size_t i) override;
  ir::Tensor* constant(DType dtype, const Shape& shape, double value) override;
  ir::Tensor* input(size_t i) override;
  ir::Tensor* output(size_t i) override;
  bool wants(size_t i) const override;
  void set(size_t i, ir::Tensor* grad) override;
  ir::Tensor* make(std::string_view name, std::vector<ir::Tensor*> inputs,
                   std::vector<ir::Attr> attrs) override {
    return makeAll(name, std::move(inputs), std::move(attrs)).front();
  }
  std::vector<ir::Tensor*> makeAll(std::string_view name, std::vector<ir::Tensor*> inputs,
                                   std::vector<ir::Attr> attrs) override;

 private:
  Differentiator& owner_;
};

/// autodiff_repeat.cpp and autodiff_conditional.cpp: the rules of ops that run graphs of their own.
void differentiateRepeat(Differentiator& d, ir::Op& repeat);
void differentiateConditional(Differentiator& d, ir::Op& conditional);

/// Makes a tensor one more output of its graph, and a result of all ops that run it: of a repeat the values
/// of all iterations. Error(kGraph) when the graph is a branch of a conditional.
void gainOutput(ir::Graph& graph, ir::Tensor* t, Changes& changes);
/// Zeros that take no memory of the program's: made when it runs, where and when `from` does.
ir::Tensor* makeZeros(ir::Graph& graph, const ir::Tensor& like, const ir::Op& from);
/// Ops that run a graph, over the whole Ir.
std::vector<ir::Op*> sitesOf(const ir::Graph& graph);

}  // namespace popxl::passes
