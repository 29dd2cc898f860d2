#pragma once

#include <popxl/graph.h>
#include <popxl/scope.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace popxl {

/// A host stream: data that a program takes in or gives out while it runs.
class Stream {
 public:
  const std::string& name() const { return name_; }
  const TensorSpec& spec() const { return spec_; }  ///< of one transfer
  bool toDevice() const { return toDevice_; }

  /// For the library itself.
  Stream(std::shared_ptr<ir::Ir> ir, std::string name, TensorSpec spec, bool toDevice)
      : ir_(std::move(ir)), name_(std::move(name)), spec_(std::move(spec)), toDevice_(toDevice) {}
  const std::shared_ptr<ir::Ir>& ir() const { return ir_; }

 private:
  std::shared_ptr<ir::Ir> ir_;
  std::string name_;
  TensorSpec spec_;
  bool toDevice_;
};

/// A whole program: the main graph, the graphs it calls, streams.
class Ir {
 public:
  /// An empty program for a number of replicas, which run in this process. Error(kValue) when it is less
  /// than 1.
  explicit Ir(int64_t replicationFactor = 1);

  Graph mainGraph() const;
  std::vector<Graph> graphs() const;
  int64_t replicationFactor() const;

  /// Makes a graph from a callable. Each spec (TensorSpec, Tensor, or a vector of them) becomes an input (or
  /// a vector of inputs) that is passed to `fn`, which may make more with graphInput. What `fn` returns are
  /// the outputs: nothing, a Tensor, or a vector, array or tuple of them. When `fn` throws, the graph is gone
  /// again.
  template <typename Fn, typename... Specs>
  Graph createGraph(std::string_view name, Fn&& fn, const Specs&... specs) {
    NewGraph made(*this, name);
    {
      const GraphScope scope(made.graph);
      size_t next = 0;
      std::tuple<decltype(asInput(specs, next))...> inputs{asInput(specs, next)...};  // braces: left to right
      using Result = decltype(std::apply(std::forward<Fn>(fn), std::move(inputs)));
      if constexpr (std::is_void_v<Result>) {
        std::apply(std::forward<Fn>(fn), std::move(inputs));
      } else {
        addOutputs(std::apply(std::forward<Fn>(fn), std::move(inputs)));
      }
    }
    return made.keep();
  }
  template <typename Fn, typename... Specs>
  requires(!std::is_convertible_v<Fn, std::string_view>) Graph createGraph(Fn&& fn, const Specs&... specs) {
    return createGraph(std::string_view("graph"), std::forward<Fn>(fn), specs...);
  }
  Graph createEmptyGraph(std::string_view name = "graph");

  /// Streams from and to the host. Names are made unique.
  Stream h2dStream(const TensorSpec& spec, std::string_view name = "h2d_stream");
  Stream d2hStream(const TensorSpec& spec, std::string_view name = "d2h_stream");
  /// By name. Error(kKey) when there is none of it.
  Stream stream(std::string_view name) const;

  /// How often a run uses each stream.
  int64_t numHostTransfers() const;
  void setNumHostTransfers(int64_t n);

  /// The program as text, and back (docs/ir.md). Error(kValue) with line and column for a text that is none.
  std::string toText() const;
  static Ir fromText(std::string_view text);

  bool operator==(const Ir& other) const { return ir_ == other.ir_; }

  /// For the library itself.
  explicit Ir(std::shared_ptr<ir::Ir> ir) : ir_(std::move(ir)) {}
  const std::shared_ptr<ir::Ir>& get() const { return ir_; }

 private:
  /// A graph under construction: removed unless it is kept.
  struct NewGraph {
    NewGraph(Ir& ir, std::string_view name);
    ~NewGraph();
    NewGraph(const NewGraph&) = delete;
    NewGraph& operator=(const NewGraph&) = delete;
    Graph keep();
    Graph graph;
    bool kept = false;
  };

  static Tensor asInput(const TensorSpec& spec, size_t& next);
  static Tensor asInput(const Tensor& like, size_t& next) { return asInput(like.spec(), next); }
  template <typename Spec>
  static std::vector<Tensor> asInput(const std::vector<Spec>& specs, size_t& next) {
    std::vector<Tensor> inputs;
    for (const Spec& spec : specs) inputs.push_back(asInput(spec, next));
    return inputs;
  }

  static void addOutputs(const Tensor& t) { graphOutput(t); }
  static void addOutputs(const std::vector<Tensor>& ts) {
    for (const Tensor& t : ts) graphOutput(t);
  }
  template <size_t N>
  static void addOutputs(const std::array<Tensor, N>& ts) {
    for (const Tensor& t : ts) graphOutput(t);
  }
  template <typename... Ts>
  static void addOutputs(const std::tuple<Ts...>& ts) {
    std::apply([](const auto&... t) { (graphOutput(t), ...); }, ts);
  }

  std::shared_ptr<ir::Ir> ir_;
};

namespace ops {

/// The next tensor of a stream from the host.
Tensor hostLoad(const Stream& stream, std::string_view name = "t",
                std::source_location where = std::source_location::current());
/// Gives a tensor to the host. Error(kValue) when shape or dtype are not the stream's.
void hostStore(const Stream& stream, const Tensor& t,
               std::source_location where = std::source_location::current());

}  // namespace ops
}  // namespace popxl
