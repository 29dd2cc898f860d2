#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <popxl/tensor.h>

namespace popxl {

namespace ir {
class Graph;
}  // namespace ir

/// A graph of an Ir: a handle like Tensor.
class Graph {
 public:
  Graph() = default;

  const std::string& name() const;  ///< "" for the main graph
  std::vector<Tensor> inputs() const;
  std::vector<Tensor> outputs() const;
  std::vector<Tensor> tensors() const;  ///< in order of creation
  /// Number of ops.
  int64_t size() const;
  /// The text form of the graph.
  std::string toText() const;

  bool operator==(const Graph& other) const { return graph_ == other.graph_; }
  explicit operator bool() const { return graph_ != nullptr; }

  /// For the library itself.
  Graph(std::shared_ptr<ir::Ir> ir, ir::Graph* graph) : ir_(std::move(ir)), graph_(graph) {}
  ir::Graph* get() const { return graph_; }
  const std::shared_ptr<ir::Ir>& ir() const { return ir_; }

 private:
  std::shared_ptr<ir::Ir> ir_;
  ir::Graph* graph_ = nullptr;
};

/// Ops made while it lives go to this graph. Scopes nest. Error(kRuntime) inside a graph of another Ir.
class GraphScope {
 public:
  explicit GraphScope(const Graph& graph);
  ~GraphScope();
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

 private:
  Graph graph_;
};

/// Ops made while it lives run in the order in which they are made; with `ordered` false in no particular order, inside an
/// ordered block.
class InSequence {
 public:
  explicit InSequence(bool ordered = true);
  ~InSequence();
  InSequence(const InSequence&) = delete;
  InSequence& operator=(const InSequence&) = delete;
};

/// Names of tensors made while it lives begin with `name` and '/'.
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
};

/// The graph that is entered. Error(kRuntime) when none is.
Graph currentGraph();

/// A new input of the graph that is entered, after those it has. With `byRef` the graph's changes of it reach the caller.
Tensor graphInput(const TensorSpec& spec, std::string_view name = "t", bool byRef = false,
                  std::source_location where = std::source_location::current());
/// Makes `t` the next output of the graph that is entered.
void graphOutput(const Tensor& t);

namespace detail {
Tensor addData(const void* data, int64_t elements, const TensorSpec& spec, std::string_view name, bool variable,
               std::source_location where);
}  // namespace detail

/// A variable of the main graph with the initial value `data`, row-major. Error(kValue) in another graph or when the number
/// of elements is not that of `shape`.
template <typename T>
Tensor variable(const std::vector<T>& data, Shape shape, std::string_view name = "t",
                std::source_location where = std::source_location::current()) {
  return detail::addData(data.data(), static_cast<int64_t>(data.size()), {std::move(shape), dtypeOf<T>()}, name, true,
                         where);
}

/// A constant of the graph that is entered.
template <typename T>
Tensor constant(const std::vector<T>& data, Shape shape, std::string_view name = "t",
                std::source_location where = std::source_location::current()) {
  return detail::addData(data.data(), static_cast<int64_t>(data.size()), {std::move(shape), dtypeOf<T>()}, name, false,
                         where);
}

/// A scalar constant.
template <typename T>
Tensor constant(T value, std::source_location where = std::source_location::current()) {
  return detail::addData(&value, 1, {{}, dtypeOf<T>()}, "t", false, where);
}

}  // namespace popxl
