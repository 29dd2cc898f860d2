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
  return {made.id(), spec};
}

}  // namespace

Ir::Ir() : ir_(ir::Ir::create(ops::table())) { ir_->options().enableInplaceAmbiguityChecking = true; }

Graph Ir::mainGraph() const { return {ir_, &ir_->mainGraph()}; }

std::vector<Graph> Ir::graphs() const {
  std::vector<Graph> out;
  for (ir::Graph* g : ir_->graphs()) out.emplace_back(ir_, g);
  return out;
}

Graph Ir::createEmptyGraph(std::string_view name) { return {ir_, &ir_->createGraph(name)}; }

Ir::NewGraph::NewGraph(Ir& ir, std::string_view name) : graph(ir.createEmptyGraph(name)) {}
Ir::NewGraph::~NewGraph() {
  if (!kept) graph.ir()->eraseGraph(graph.get());
}
Graph Ir::NewGraph::keep() {
  kept = true;
  return graph;
}

Tensor Ir::asInput(const TensorSpec& spec, size_t& next) { return graphInput(spec, fmt::format("in{}", next++)); }

Stream Ir::h2dStream(const TensorSpec& spec, std::string_view name) {
  return addStream(*ir_, spec, name, ir::StreamDirection::kHostToDevice);
}
Stream Ir::d2hStream(const TensorSpec& spec, std::string_view name) {
  return addStream(*ir_, spec, name, ir::StreamDirection::kDeviceToHost);
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
  if (context.requireGraph().ir().findStream(stream.name()) == nullptr) {
    fail(ErrorKind::kValue, "stream `{}` belongs to another Ir", stream.name());
  }
  const ir::Loc loc = ir::Loc::from(where);
  const ir::Attr init = std::string("undef");
  ir::Op* memory = context.addOp(def("init"), {}, {stream.spec().shape, stream.spec().dtype, init}, loc, false,
                                 {base + "_init"});
  return api::wrap(context.addOp(def("host_load"), {memory->output()}, {stream.name()}, loc, false, {base})->output());
}

void hostStore(const Stream& stream, const Tensor& t, std::source_location where) {
  if (ir::Context::current().requireGraph().ir().findStream(stream.name()) == nullptr) {
    fail(ErrorKind::kValue, "stream `{}` belongs to another Ir", stream.name());
  }
  if (t.spec() != stream.spec()) {
    fail(ErrorKind::kValue, "tensor `{}` is {} {}, stream `{}` takes {} {}\n  in op `host_store` at {}", t.id(),
         nameOf(t.dtype()), toString(t.shape()), stream.name(), nameOf(stream.spec().dtype), toString(stream.spec().shape),
         ir::Loc::from(where).str());
  }
  api::addOp(def("host_store"), {t.get()}, {stream.name()}, false, where);
}

}  // namespace ops
}  // namespace popxl
