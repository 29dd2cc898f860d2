#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ir/types.h"

namespace popxl::ir {

/// One use of a tensor: operand `index` of `op`.
struct Use {
  Op* op;
  int32_t index;
  bool operator==(const Use&) const = default;
};

/// A value in a graph. Made by Graph only; lives as long as its Ir, also after it was removed from its graph.
class Tensor {
 public:
  Tensor(Graph& graph, int32_t index, std::string name, TensorType type, TensorKind kind)
      : graph_(&graph), index_(index), name_(std::move(name)), type_(std::move(type)), kind_(kind) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  Graph& graph() const { return *graph_; }
  int32_t index() const { return index_; }           ///< counts up over the graph, see TensorMap
  const std::string& name() const { return name_; }  ///< without the graph's scope
  std::string id() const;                            ///< graph scope + '/' + name
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t rank() const { return static_cast<int64_t>(type_.shape.size()); }
  TensorKind kind() const { return kind_; }
  bool isPersistent() const { return kind_ == TensorKind::kVariable || kind_ == TensorKind::kConstant; }

  Op* producer() const { return producer_; }
  int32_t producerIndex() const { return producerIndex_; }
  const std::vector<Use>& uses() const { return uses_; }
  const Loc& loc() const { return loc_; }
  void setLoc(const Loc& loc) { loc_ = loc; }

  /// Variables and constants: host memory of type().bytes() * number of groups.
  const std::shared_ptr<HostData>& data() const { return data_; }
  void setData(std::shared_ptr<HostData> data) { data_ = std::move(data); }
  VariableSettings& settings() { return settings_; }
  const VariableSettings& settings() const { return settings_; }
  void setMetaShape(Shape shape) { type_.metaShape = std::move(shape); }

  /// Graph inputs: passed by reference, so that the callee's changes reach the caller.
  bool byRef() const { return byRef_; }
  void setByRef(bool value) { byRef_ = value; }
  bool erased() const { return erased_; }
  /// Made on the way to an op (a constant of a number, a cast of an operand); goes when that op fails.
  bool implicit() const { return implicit_; }
  void markImplicit() { implicit_ = true; }

 private:
  friend class Graph;
  friend class Op;
  Graph* graph_;
  int32_t index_;
  std::string name_;
  TensorType type_;
  TensorKind kind_;
  bool byRef_ = false, erased_ = false, implicit_ = false;
  Op* producer_ = nullptr;
  int32_t producerIndex_ = 0;
  std::vector<Use> uses_;
  Loc loc_;
  std::shared_ptr<HostData> data_;
  VariableSettings settings_;
};

/// Place of a tensor in a list; the size of the list when it is not there.
inline size_t indexIn(const std::vector<Tensor*>& list, const Tensor* t) {
  return static_cast<size_t>(std::find(list.begin(), list.end(), t) - list.begin());
}

}  // namespace popxl::ir
