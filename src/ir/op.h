#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"
#include "ir/tensor.h"
#include "ir/types.h"
#include "popxl/error.h"

namespace popxl::ir {

/// One op of a graph: what it is (the table's entry), operands, results and attributes.
class Op {
 public:
  Op(Graph& graph, int32_t index, const OpDef& def, int64_t id)
      : graph_(&graph), index_(index), def_(&def), id_(id) {}
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  Graph& graph() const { return *graph_; }
  const OpDef& def() const { return *def_; }
  int64_t id() const { return id_; }        ///< counts up over the whole Ir in order of creation
  int32_t index() const { return index_; }  ///< counts up over the graph, see OpMap
  bool inplace() const { return inplace_; }
  std::string name() const {
    return inplace_ && !def_->alwaysInplace ? def_->inplaceName() : std::string(def_->name);
  }
  std::string type() const;  ///< compatibility type name, in-place variant included

  /// Operands in table order; an absent optional operand is null.
  const std::vector<Tensor*>& inputs() const { return inputs_; }
  const std::vector<Tensor*>& outputs() const { return outputs_; }
  Tensor* input(size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
  Tensor* output(size_t i = 0) const { return outputs_[i]; }
  void setInput(size_t i, Tensor* t);
  /// Adds one more result (a call whose callee gained an output).
  Tensor* addOutput(std::string_view name, TensorType type);
  /// Takes back the last result that addOutput gave; nothing may use it.
  void removeLastOutput();
  /// Adds one more operand at the end (a call whose callee gained an input).
  void addInput(Tensor* t);

  const std::vector<Attr>& attrs() const { return attrs_; }
  /// Attribute by name, as T; an absent one is an assertion. Use `attrOr` for optional ones.
  template <typename T>
  const T& attr(std::string_view name) const {
    return std::get<T>(attrValue(name));
  }
  template <typename T>
  T attrOr(std::string_view name, const T& fallback) const {
    const Attr& value = attrValue(name);
    return std::holds_alternative<T>(value) ? std::get<T>(value) : fallback;
  }
  const Attr& attrValue(std::string_view name) const;
  bool hasAttr(std::string_view name) const {
    return !std::holds_alternative<std::monostate>(attrValue(name));
  }
  void setAttr(std::string_view name, Attr value);

  const Settings& settings() const { return settings_; }
  Settings& settings() { return settings_; }
  const Loc& loc() const { return loc_; }
  void setLoc(const Loc& loc) { loc_ = loc; }

  /// Ops of the same graph that must run before this one though no data flows (in_sequence).
  const std::vector<Op*>& after() const { return after_; }
  void addAfter(Op* before) { after_.push_back(before); }

  /// Effects, also of the graphs that this op calls. Modified operands are written; an alias shares memory.
  bool modifies(size_t input) const;
  bool modifiesAny() const;
  std::vector<Alias> aliases() const;
  /// Operands of a call, repeat or conditional that the user declared modified (set_parent_input_modified).
  const std::vector<int32_t>& declaredModified() const { return declaredModified_; }
  void declareModified(int32_t input);
  /// Graphs this op calls: call 1, repeat 1, conditional 2 (then, else).
  std::vector<Graph*> calledGraphs() const;
  /// The first of them, null when there is none.
  Graph* calledGraph() const;

  bool erased() const { return erased_; }
  std::string str() const;  ///< one line of the text form

 private:
  friend class Graph;
  Graph* graph_;
  int32_t index_;
  const OpDef* def_;
  int64_t id_;
  bool inplace_ = false, erased_ = false;
  std::vector<Tensor*> inputs_, outputs_;
  std::vector<Attr> attrs_;
  std::vector<Op*> after_;
  std::vector<int32_t> declaredModified_;
  Settings settings_;
  Loc loc_;
};

/// What `work` returns; an Error that it throws gets the op and the user's line.
template <typename Work>
auto withPlace(const Op& op, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.kind(),
                std::string(error.what()) + "\n  in op `" + op.name() + "` at " + op.loc().str());
  }
}

}  // namespace popxl::ir
