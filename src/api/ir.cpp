#include "popxl/ir.h"

#include "api/make_op.h"
#include "base/error.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ops/ops.h"

namespace popxl {
namespace {

Stream addStream(ir::Ir& ir, const TensorSpec& spec, std::string_view name, ir::StreamDirection direction) {
  const ir::Stream& made = ir.addStream(name, {spec.dtype, spec.shape, {}}, direction);
  return {ir.shared_from_this(), made.id(), spec, direction == ir::StreamDirection::kHostToDevice};
}

void checkStream(const Stream& stream) {
  if (&ir::Context::current().requireGraph().ir() != stream.ir().get()) {
    fail(ErrorKind::kValue, "stream `{}` belongs to another Ir", stream.name());
  }
}

}  // namespace

Ir::Ir(int64_t replicationFactor) : ir_(ir::Ir::create(ops::table())) {
  if (replicationFactor < 1) {
    fail(ErrorKind::kValue, "the replication factor is {}; it must be at least 1", replicationFactor);
  }
  ir_->options().enableInplaceAmbiguityChecking = true;
  ir_->options().enableReplicatedGraphs = replicationFactor > 1;
  ir_->options().replicatedGraphCount = replicationFactor;
}

Graph Ir::mainGraph() const { return {ir_, &ir_->mainGraph()}; }

std::vector<Graph> Ir::graphs() const {
  std::vector<Graph> out;
  for (ir::Graph* g : ir_->graphs()) out.emplace_back(ir_, g);
  return out;
}

int64_t Ir::replicationFactor() const { return ir_->replicationFactor(); }

Graph Ir::createEmptyGraph(std::string_view name) { return {ir_, &ir_->createGraph(name)}; }

Ir::NewGraph::NewGraph(Ir& ir, std::string_view name) : graph(ir.createEmptyGraph(name)) {}
Ir::NewGraph::~NewGraph() {
  if (!kept) graph.ir()->eraseGraph(graph.get());
}
Graph Ir::NewGraph::keep() {
  kept = true;
  return graph;
}

Tensor Ir::asInput(const TensorSpec& spec, size_t& next) {
  return graphInput(spec, fmt::format("in{}", next++));
}

Stream Ir::h2dStream(const TensorSpec& spec, std::string_view name) {
  return addStream(*ir_, spec, name, ir::StreamDirection::kHostToDevice);
}
Stream Ir::d2hStream(const TensorSpec& spec, std::string_view name) {
  return addStream(*ir_, spec, name, ir::StreamDirection::kDeviceToHost);
}

Stream Ir::stream(std::string_view name) const {
  const ir::Stream* found = ir_->findStream(name);
  if (found == nullptr) fail(ErrorKind::kKey, "the program has no stream `{}`", name);
  const TensorSpec spec{found->tensor->shape(), found->tensor->dtype()};
  return {ir_, found->id(), spec, found->direction == ir::StreamDirection::kHostToDevice};
}

int64_t Ir::numHostTransfers() const { return ir_->hostTransfers(); }
void Ir::setNumHostTransfers(int64_t n) {
  if (n < 1) fail(ErrorKind::kValue, "the number of host transfers is {}; it must be at least 1", n);
  ir_->setHostTransfers(n);
}

std::string Ir::toText() const { return ir::print(*ir_); }
Ir Ir::fromText(std::string_view text) { return Ir(ir::parse(text, ops::table())); }

namespace ops {

Tensor hostLoad(const Stream& stream, std::string_view name, std::source_location where) {
  const std::string base(name);
  ir::Context& context = ir::Context::current();
  api::at(where, [&] {
    checkStream(stream);
    if (!stream.toDevice())
      fail(ErrorKind::kValue, "stream `{}` is to the host; a load needs one from it", stream.name());
  });
  const ir::Loc loc = ir::Loc::from(where);
  const ir::Attr init = std::string("undef");
  ir::Op* memory = context.addOp(def("init"), {}, {stream.spec().shape, stream.spec().dtype, init}, loc,
                                 false, {base + "_init"});
  return api::wrap(
      context.addOp(def("host_load"), {memory->output()}, {stream.name()}, loc, false, {base})->output());
}

void hostStore(const Stream& stream, const Tensor& t, std::source_location where) {
  api::at(where, [&] { checkStream(stream); });
  api::addOp(def("host_store"), {t.get()}, {stream.name()}, false, where);
}

}  // namespace ops
}  // namespace popxl
