#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"
#include "ir/tensor.h"

namespace popxl::ir {

/// Everything that making an op needs besides the table's entry.
struct OpRequest {
  std::vector<Tensor*> inputs;  ///< null for an absent optional operand
  std::vector<Attr> attrs;      ///< in table order; shorter or monostate: defaults
  bool inplace = false;
  std::vector<std::string> outputNames;  ///< base names; missing ones are "t"
  Settings settings;
  Loc loc;
};

/// A list of ops over tensors with inputs and outputs; the main graph or one that others call. Made by Ir
/// only.
class Graph {
 public:
  Graph(Ir& ir, int32_t index, std::string id) : ir_(&ir), index_(index), id_(std::move(id)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Ir& ir() const { return *ir_; }
  const std::string& id() const { return id_; }  ///< "" for the main graph
  int32_t index() const { return index_; }       ///< counts up over the Ir, the main graph is 0
  std::string displayName() const { return id_.empty() ? "main" : id_; }
  /// The id without the number that makes it unique.
  std::string baseName() const { return id_.substr(0, id_.rfind("_subgraph(")); }
  bool isMain() const { return id_.empty(); }

  const std::vector<Tensor*>& inputs() const { return inputs_; }
  const std::vector<Tensor*>& outputs() const { return outputs_; }
  const std::vector<Op*>& ops() const { return ops_; }  ///< in order of creation
  std::vector<Tensor*> tensors() const;                 ///< in order of creation, removed ones left out
  size_t numTensorSlots() const { return tensorStore_.size(); }  ///< above every Tensor::index()
  size_t numOpSlots() const { return opStore_.size(); }          ///< above every Op::index()
  Tensor* find(std::string_view name) const;    ///< by name without scope; null when there is none
  Tensor* findById(std::string_view id) const;  ///< by full id

  /// Base name if it is still free in this graph, else name__t{N} with the Ir's counter.
  std::string uniqueName(std::string_view base);

  /// Gives a tensor another name, made unique as for a new one.
  void rename(Tensor* t, std::string_view base);

  Tensor* addInput(std::string_view name, TensorType type, bool byRef = false);
  /// Marks a tensor of this graph as the next output; the same tensor may be marked more than once.
  void addOutput(Tensor* t);
  void removeOutput(size_t index);
  Tensor* addVariable(std::string_view name, TensorType type, std::shared_ptr<HostData> data);
  Tensor* addConstant(std::string_view name, TensorType type, std::shared_ptr<HostData> data);
  Tensor* addStreamTensor(std::string_view name, TensorType type);

  /// Checks operands (count, graph, dtypes), runs inference, then adds the op and its results. On an Error
  /// nothing has changed; the message ends with op and user's line.
  Op* addOp(const OpDef& def, OpRequest request);
  /// Called with every op that a program makes in this graph (Context::addOp), until removed.
  using Hook = std::function<void(Op&)>;
  int64_t addHook(Hook hook);
  void removeHook(int64_t handle);
  const std::vector<std::pair<int64_t, Hook>>& hooks() const { return hooks_; }

  /// Removes ops whose results are used by each other at most; the results go with them. What had to run
  /// after a removed op has to run after all that this op had to follow, for its operands too. Linear in the
  /// graph. Memory is kept until the Ir dies.
  void eraseOps(const std::vector<Op*>& ops);
  void eraseOp(Op* op) { eraseOps({op}); }
  void eraseTensor(Tensor* t);
  /// Removes those of the operands of an op that failed which were made for it alone.
  void eraseImplicit(const std::vector<Tensor*>& operands);
  /// Every use of `from` becomes a use of `to`; graph outputs too.
  void replaceAllUses(Tensor* from, Tensor* to);
  /// Makes result i of one op result j of another and the other way round; each keeps its name and uses.
  static void swapResults(Op& a, size_t i, Op& b, size_t j);
  /// Puts ops() in the order of their ids (the parser makes ops in the order in which data flows).
  void sortOps();

  bool canBeDifferentiated() const { return canBeDifferentiated_; }
  void setCanBeDifferentiated(bool value) { canBeDifferentiated_ = value; }
  /// Error(kGraph) when data flows from an op to one of an earlier execution context.
  void checkContexts() const;
  /// The order in which ops run: dependences, ordering constraints, execution contexts, then least liveness.
  std::vector<Op*> schedule() const;

 private:
  friend class Op;
  friend class Ir;
  Tensor* newTensor(std::string name, TensorType type, TensorKind kind);
  Op& newOp(const OpDef& def, int64_t id);
  std::unordered_set<std::string>& ownBaseNames();
  void checkOperands(const OpDef& def, const OpRequest& request) const;
  /// Returns the copy of each tensor, by its index in the other graph.
  std::vector<Tensor*> copyFrom(const Graph& other, const std::vector<Graph*>& graphs);

  Ir* ir_;
  int32_t index_;
  std::string id_;
  bool canBeDifferentiated_ = true;
  std::vector<Tensor*> inputs_, outputs_;
  std::vector<Op*> ops_;
  std::deque<Op> opStore_;
  std::deque<Tensor> tensorStore_;
  std::shared_ptr<std::unordered_set<std::string>> baseNames_ =
      std::make_shared<std::unordered_set<std::string>>();  // shared with clones until written
  mutable std::unordered_map<std::string_view, Tensor*> byName_;
  mutable size_t indexed_ = 0;
  bool namesLookGenerated_ = false;  // some base name contains "__t"
  std::vector<std::pair<int64_t, Hook>> hooks_;
  int64_t nextHook_ = 0;
};

}  // namespace popxl::ir
