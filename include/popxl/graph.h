#pragma once

#include <popxl/tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  /// By name. Error(kKey) when the graph has none of it.
  Tensor tensor(std::string_view name) const;
  /// Like graphInput and graphOutput, whatever graph is entered.
  Tensor addInput(const TensorSpec& spec, std::string_view name = "t", bool byRef = false,
                  std::source_location where = std::source_location::current()) const;
  void addOutput(const Tensor& t) const;
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

/// The graph that is entered. Error(kRuntime) when none is.
Graph currentGraph();

/// A new input of the graph that is entered, after those it has. With `byRef` the graph's changes of it reach
/// the caller.
Tensor graphInput(const TensorSpec& spec, std::string_view name = "t", bool byRef = false,
                  std::source_location where = std::source_location::current());
/// Makes `t` the next output of the graph that is entered.
void graphOutput(const Tensor& t);

namespace detail {
/// `count` is in bytes when `raw`, else in elements.
Tensor addData(const void* data, int64_t count, bool raw, const TensorSpec& spec, std::string_view name,
               bool variable, std::source_location where);
template <typename T>
Tensor addData(std::span<const T> data, Shape shape, std::string_view name, bool variable,
               std::source_location where) {
  return addData(data.data(), static_cast<int64_t>(data.size()), false, {std::move(shape), dtypeOf<T>()},
                 name, variable, where);
}
}  // namespace detail

/// A variable of the main graph with the initial value `data`, row-major. Error(kValue) in another graph or
/// when the number of elements is not that of `shape`.
template <typename T>
Tensor variable(const std::vector<T>& data, Shape shape, std::string_view name = "t",
                std::source_location where = std::source_location::current()) {
  return detail::addData(std::span<const T>(data), std::move(shape), name, true, where);
}
template <typename T>
Tensor variable(std::span<const T> data, Shape shape, std::string_view name = "t",
                std::source_location where = std::source_location::current()) {
  return detail::addData(data, std::move(shape), name, true, where);
}
/// From memory of any dtype, float16 and float8 included.
inline Tensor variable(std::span<const std::byte> bytes, const TensorSpec& spec, std::string_view name = "t",
                       std::source_location where = std::source_location::current()) {
  return detail::addData(bytes.data(), static_cast<int64_t>(bytes.size()), true, spec, name, true, where);
}

/// A constant of the graph that is entered. The data is copied, as that of a variable is.
template <typename T>
Tensor constant(const std::vector<T>& data, Shape shape, std::string_view name = "t",
                std::source_location where = std::source_location::current()) {
  return detail::addData(std::span<const T>(data), std::move(shape), name, false, where);
}
template <typename T>
Tensor constant(std::span<const T> data, Shape shape, std::string_view name = "t",
                std::source_location where = std::source_location::current()) {
  return detail::addData(data, std::move(shape), name, false, where);
}
inline Tensor constant(std::span<const std::byte> bytes, const TensorSpec& spec, std::string_view name = "t",
                       std::source_location where = std::source_location::current()) {
  return detail::addData(bytes.data(), static_cast<int64_t>(bytes.size()), true, spec, name, false, where);
}

/// A scalar constant.
template <typename T>
Tensor constant(T value, std::source_location where = std::source_location::current()) {
  return detail::addData(std::span<const T>(&value, 1), {}, "t", false, where);
}

}  // namespace popxl
