#include "ir/ir.h"

#include <algorithm>

#include "analysis/calls.h"
#include "base/error.h"
#include "base/logging.h"
#include "bindings/convert.h"
#include "bindings/debug_info.h"
#include "bindings/module.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ops/exchange.h"
#include "ops/ops.h"

namespace popxl::bindings {
namespace {

std::shared_ptr<ir::Ir> create() {
  auto made = ir::Ir::create(ops::table());
  DebugInfo::addIr(*made);
  return made;
}

GraphHandle graphById(const std::shared_ptr<ir::Ir>& self, const std::string& id) {
  ir::Graph* g = self->findGraph(id);
  if (g == nullptr) fail(ErrorKind::kKey, "there is no graph `{}`", id);
  return handle(*g);
}

TensorHandle addStream(const std::shared_ptr<ir::Ir>& self, const std::string& name, nb::handle shape,
                       nb::handle dtype, ir::StreamDirection direction) {
  ir::Stream& stream = self->addStream(name, {toDType(dtype), toShape(shape), {}}, direction);
  stream.tensor->setLoc(userLocation());
  return handle(*stream.tensor);
}

bool usesStream(const ir::Op& op, const ir::Stream& stream) {
  if (op.def().name == "multi_exchange") {
    const std::vector<ops::Exchange> exchanges = ops::exchangesOf(op);
    return std::any_of(exchanges.begin(), exchanges.end(),
                       [&](const ops::Exchange& e) { return !e.isRemote() && e.target == stream.id(); });
  }
  const ir::Structure structure = op.def().structure;
  if (structure != ir::Structure::kHostLoad && structure != ir::Structure::kHostStore) return false;
  return op.attr<std::string>("stream") == stream.id();
}

bool isUsed(const ir::Ir& program, const ir::Stream& stream) {
  for (const ir::Graph* graph : program.graphs()) {
    for (const ir::Op* op : graph->ops()) {
      if (usesStream(*op, stream)) return true;
    }
  }
  return false;
}

/// Streams of a direction that some host_load or host_store of the program uses, in order of creation.
nb::list usedStreams(const std::shared_ptr<ir::Ir>& self, ir::StreamDirection direction) {
  nb::list out;
  for (const ir::Stream& stream : self->streams()) {
    if (stream.direction == direction && isUsed(*self, stream)) out.append(handle(*stream.tensor));
  }
  return out;
}

ir::RemoteBuffer& remoteBuffer(const std::shared_ptr<ir::Ir>& self, int64_t id) {
  ir::RemoteBuffer* buffer = self->findRemoteBuffer(id);
  if (buffer == nullptr) fail(ErrorKind::kKey, "there is no remote buffer {}", id);
  return *buffer;
}

/// Type of a remote buffer's entries.
ir::TensorType entryType(nb::handle dtype, nb::handle shape) {
  ir::TensorType type{toDType(dtype), toShape(shape), {}};
  if (std::any_of(type.shape.begin(), type.shape.end(), [](int64_t size) { return size < 0; }))
    fail(ErrorKind::kValue, "the shape {} of a remote buffer has a negative dimension", toString(type.shape));
  return type;
}

void bindRemoteBuffers(nb::class_<ir::Ir>& cls) {
  cls.def(
      "add_remote_buffer",
      [](const std::shared_ptr<ir::Ir>& self, nb::handle shape, nb::handle dtype, int64_t entries) {
        return self->addRemoteBuffer(entryType(dtype, shape), entries).id;
      },
      nb::arg("shape"), nb::arg("dtype"), nb::arg("entries"),
      "Makes a remote buffer; returns its id, from 1 up.");
  cls.def(
      "remote_buffer",
      [](const std::shared_ptr<ir::Ir>& self, int64_t id) {
        const ir::RemoteBuffer& buffer = remoteBuffer(self, id);
        return nb::make_tuple(fromShape(buffer.type.shape), static_cast<int>(buffer.type.dtype),
                              buffer.entries);
      },
      nb::arg("id"), "Shape, dtype code and number of entries.");
  cls.def(
      "set_remote_buffer",
      [](const std::shared_ptr<ir::Ir>& self, int64_t id, nb::handle shape, nb::handle dtype,
         int64_t entries) {
        ir::RemoteBuffer& buffer = remoteBuffer(self, id);
        buffer.type = entryType(dtype, shape);
        buffer.entries = entries;
      },
      nb::arg("id"), nb::arg("shape"), nb::arg("dtype"), nb::arg("entries"));
}

}  // namespace

void bindIr(nb::module_& m) {
  auto cls = nb::class_<ir::Ir>(m, "Ir", "A whole program.");
  cls.def_static("create", &create, "A new program with an empty main graph.")
      .def_prop_ro("id", &ir::Ir::id)
      .def("getId", &ir::Ir::id)
      .def("getMainGraph", [](const std::shared_ptr<ir::Ir>& self) { return handle(self->mainGraph()); })
      .def("getAllGraphs", [](const std::shared_ptr<ir::Ir>& self) { return toList(self->graphs()); })
      .def("getGraph", &graphById, nb::arg("id"))
      .def(
          "create_graph",
          [](const std::shared_ptr<ir::Ir>& self, const std::string& base) {
            return handle(self->createGraph(base));
          },
          nb::arg("base"), "A new graph named after `base`.")
      .def(
          "erase_graph",
          [](const std::shared_ptr<ir::Ir>& self, const GraphHandle& g) { self->eraseGraph(g.ptr); },
          nb::arg("graph"), "Removes a graph that no op calls.")
      .def(
          "getSessionOptions", [](ir::Ir& self) -> ir::SessionOptions& { return self.options(); },
          nb::rv_policy::reference_internal)
      .def_prop_rw("host_transfers", &ir::Ir::hostTransfers, &ir::Ir::setHostTransfers)
      .def_prop_ro("replication_factor", &ir::Ir::replicationFactor)
      .def_prop_ro("instance_replication_factor", &ir::Ir::instanceReplicationFactor)
      .def_prop_ro("session_made", &ir::Ir::sessionMade)
      .def("depends_on_replicas", &analysis::dependsOnReplicas,
           "Whether a collective or variable was made for the number of replicas that it has now.")
      .def("add_stream", &addStream, nb::arg("name"), nb::arg("shape"), nb::arg("dtype"),
           nb::arg("direction"))
      .def("used_streams", &usedStreams, nb::arg("direction"))
      .def_static(
          "parse", [](const std::string& text) { return ir::parse(text, ops::table()); }, nb::arg("text"),
          "The program that a text describes; it has an id of its own.")
      .def(
          "text", [](const std::shared_ptr<ir::Ir>& self) { return ir::print(*self); },
          "The program as text.")
      .def(
          "logIr",
          [](const std::shared_ptr<ir::Ir>& self) {
            if (log().should_log(spdlog::level::debug)) log().debug("{}", ir::print(*self));
          },
          "Writes the program to the log, at level DEBUG.");
  bindRemoteBuffers(cls);
}

}  // namespace popxl::bindings
