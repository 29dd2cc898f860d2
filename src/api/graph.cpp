#include "popxl/graph.h"

#include <cstring>

#include "api/make_op.h"
#include "base/error.h"
#include "base/shape.h"
#include "ir/print.h"
#include "popxl/scope.h"

namespace popxl {
namespace {

const ir::Graph& checked(const ir::Graph* g) {
  if (g == nullptr) fail(ErrorKind::kValue, "this Graph is empty: it was made by the default constructor");
  return *g;
}

ir::TensorType typeOf(const TensorSpec& spec) {
  for (const int64_t d : spec.shape) {
    if (d < 0) fail(ErrorKind::kValue, "shape {} has a negative dimension", toString(spec.shape));
  }
  return {spec.dtype, spec.shape, {}};
}

}  // namespace

const std::string& Graph::name() const { return checked(graph_).id(); }
std::vector<Tensor> Graph::inputs() const { return api::wrap(checked(graph_).inputs()); }
std::vector<Tensor> Graph::outputs() const { return api::wrap(checked(graph_).outputs()); }
std::vector<Tensor> Graph::tensors() const { return api::wrap(checked(graph_).tensors()); }
int64_t Graph::size() const { return static_cast<int64_t>(checked(graph_).ops().size()); }
Tensor Graph::tensor(std::string_view name) const {
  ir::Tensor* t = checked(graph_).find(name);
  if (t == nullptr) fail(ErrorKind::kKey, "graph `{}` has no tensor `{}`", graph_->displayName(), name);
  return {ir_, t};
}

Tensor Graph::addInput(const TensorSpec& spec, std::string_view name, bool byRef,
                       std::source_location where) const {
  return api::at(where, [&] {
    if (checked(graph_).isMain()) {
      fail(ErrorKind::kValue, "the main graph has no inputs; use a stream or a variable");
    }
    ir::Tensor* t = graph_->addInput(name, typeOf(spec), byRef);
    t->setLoc(ir::Loc::from(where));
    return Tensor(ir_, t);
  });
}

void Graph::addOutput(const Tensor& t) const {
  if (!t) fail(ErrorKind::kValue, "an empty Tensor can't be the output of a graph");
  checked(graph_);
  graph_->addOutput(t.get());
}

std::string Graph::toText() const { return ir::print(checked(graph_)); }

GraphScope::GraphScope(const Graph& graph) : graph_(graph) {
  checked(graph.get());
  ir::Context::current().pushGraph(*graph.get());
}
GraphScope::~GraphScope() { ir::Context::current().popGraph(); }

InSequence::InSequence(bool ordered) {
  ir::Context::current().pushSequence(ordered ? ir::SequenceMode::kOrdered : ir::SequenceMode::kUnordered);
}
InSequence::~InSequence() { ir::Context::current().popSequence(); }

NameScope::NameScope(std::string_view name) { ir::Context::current().pushScope(name); }
NameScope::~NameScope() { ir::Context::current().popScope(); }

Ipu::Ipu(int32_t ipu) {
  if (ipu < 0) fail(ErrorKind::kValue, "there is no IPU {}; they count from 0", ipu);
  ir::Context::current().pushIpu(ipu);
}
Ipu::~Ipu() { ir::Context::current().popIpu(); }

Graph currentGraph() {
  ir::Graph& graph = ir::Context::current().requireGraph();
  return {graph.ir().shared_from_this(), &graph};
}

Tensor graphInput(const TensorSpec& spec, std::string_view name, bool byRef, std::source_location where) {
  const Graph graph = api::at(where, currentGraph);
  return graph.addInput(spec, ir::Context::current().scopedName(name), byRef, where);
}

void graphOutput(const Tensor& t) { currentGraph().addOutput(t); }

namespace detail {

Tensor addData(const void* data, int64_t count, bool raw, const TensorSpec& spec, std::string_view name,
               bool isVariable, std::source_location where) {
  return api::at(where, [&] {
    ir::Context& context = ir::Context::current();
    ir::Graph& graph = context.requireGraph();
    const ir::TensorType type = typeOf(spec);
    const int64_t wanted = raw ? type.bytes() : type.numElements();
    if (wanted != count) {
      fail(ErrorKind::kValue, "{} `{}` of shape {} needs {} {}, the data has {}",
           isVariable ? "variable" : "constant", name, toString(spec.shape), wanted,
           raw ? "bytes" : "elements", count);
    }
    auto memory = ir::HostData::allocate(type.bytes());
    if (type.bytes() > 0) std::memcpy(memory->bytes, data, static_cast<size_t>(type.bytes()));
    const std::string scoped = context.scopedName(name);
    ir::Tensor* t = isVariable ? graph.addVariable(scoped, type, std::move(memory))
                               : graph.addConstant(scoped, type, std::move(memory));
    t->setLoc(ir::Loc::from(where));
    return api::wrap(t);
  });
}

}  // namespace detail
}  // namespace popxl
