#include "exec/session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>

#include "bindings/convert.h"
#include "bindings/module.h"

namespace popxl::bindings {
namespace {

/// Triples (stream id, C-contiguous array, entries); the arrays are held while the program runs.
void run(exec::Session& session, nb::handle given) {
  std::vector<exec::StreamBuffer> buffers;
  std::vector<std::shared_ptr<ir::HostData>> held;
  for (nb::handle item : given) {
    held.push_back(shareBuffer(item[1]));
    buffers.push_back({nb::cast<std::string>(item[0]), held.back()->bytes, nb::cast<int64_t>(item[2])});
  }
  const nb::gil_scoped_release released;
  session.run(buffers);
}

void bindMemoryReport(nb::module_& m) {
  nb::class_<MemoryItem>(m, "MemoryItem", "Memory that is in use when the frame is fullest.")
      .def_ro("tensor", &MemoryItem::tensor, "Id of the tensor that it holds; \"\" for scratch memory.")
      .def_ro("type", &MemoryItem::type, "Of that tensor.")
      .def_ro("op", &MemoryItem::op, "That made the tensor, or needs the scratch memory.")
      .def_ro("location", &MemoryItem::location, "Of the op in the user's program.")
      .def_ro("graph", &MemoryItem::graph, "Whose frame holds it.")
      .def_ro("bytes", &MemoryItem::bytes);
  nb::class_<MemoryReport>(m, "MemoryReport", "The memory that a session takes while attached.")
      .def_ro("frame_bytes", &MemoryReport::frameBytes, "Activations and temporaries: the planned peak.")
      .def_ro("variable_bytes", &MemoryReport::variableBytes, "Variables, of all replicas of this process.")
      .def_ro("constant_bytes", &MemoryReport::constantBytes)
      .def_ro("remote_bytes", &MemoryReport::remoteBytes, "Remote buffers, of all replicas of this process.")
      .def_ro("live_lower_bound", &MemoryReport::liveLowerBound,
              "What no plan of the frame can go below: the most bytes in use at once.")
      .def_ro("peak_op", &MemoryReport::peakOp, "The op that runs when the frame is fullest.")
      .def_ro("peak_location", &MemoryReport::peakLocation, "Its place in the user's program.")
      .def_ro("at_peak", &MemoryReport::atPeak, "What the frame holds then, the largest first.")
      .def_prop_ro("total", &MemoryReport::total)
      .def("fits", &MemoryReport::fits, nb::arg("bytes"),
           "Whether the session runs in so many bytes. ValueError when they are negative.")
      .def("table", &MemoryReport::table, nb::arg("limit") = 20,
           "The figures, and the largest items at the peak, `limit` lines at most.")
      .def("__str__", [](const MemoryReport& report) { return report.table(); });
}

void bindRemoteStorage(nb::module_& m) {
  nb::class_<RemoteStorage>(m, "RemoteStorage", "Where a session keeps remote buffers.")
      .def(
          "__init__",
          [](RemoteStorage* self, std::string directory, int64_t ramBytes, bool syncEveryRun) {
            new (self) RemoteStorage{std::move(directory), ramBytes, syncEveryRun};
          },
          nb::arg("directory"), nb::arg("ram_bytes"), nb::arg("sync_every_run"),
          "In RAM, if the directory is \"\".");
}

}  // namespace

void bindSession(nb::module_& m) {
  using exec::Session;
  bindMemoryReport(m);
  bindRemoteStorage(m);
  const auto release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Session>(m, "Session", "A compiled program and its memory.")
      .def(
          "__init__",
          [](Session* self, std::shared_ptr<ir::Ir> ir, bool reference, const RemoteStorage& storage) {
            new (self)
                Session(std::move(ir), reference ? EngineKind::kReference : EngineKind::kCompiled, storage);
          },
          nb::arg("ir"), nb::arg("reference") = false, nb::arg("remote_storage") = RemoteStorage(), release)
      .def_prop_ro("compiled_ir", &Session::compiledIr, "The program as it was compiled.")
      .def("attach", &Session::attach, release)
      .def("detach", &Session::detach, release)
      .def_prop_ro("attached", &Session::attached)
      .def_prop_ro("failed", &Session::failed, "Whether the last run failed half way.")
      .def("weights_from_host", &Session::weightsFromHost, release)
      .def("weights_to_host", &Session::weightsToHost, release)
      .def(
          "forget_replica_values", [](Session& self, const TensorHandle& t) { self.forgetReplicaValues(*t); },
          nb::arg("variable"), "Every replica gets the host's value of its group next.")
      .def(
          "replica_values",
          [](const Session& self, const TensorHandle& t) -> std::optional<nb::bytes> {
            const auto values = self.replicaValues(*t);
            if (!values) return std::nullopt;
            return nb::bytes(values->data(), values->size());
          },
          nb::arg("variable"),
          "The values of all replicas, one after another, of a variable that retrieves them; None when none "
          "came to the host.")
      .def("flush_remote_buffers", &Session::flushRemoteBuffers, release)
      .def("run", &run, nb::arg("buffers"),
           "Runs the program once, with triples (stream id, array, entries) for all streams that it uses.")
      .def("start_profile", &Session::startProfile, nb::arg("peaks") = nb::none(), release,
           "Takes the time of every instruction until stop_profile.")
      .def("stop_profile", &Session::stopProfile, release)
      .def("memory", &Session::memory, "What the session takes while attached; known before it is.")
      .def("touched_bytes", &Session::touchedBytes,
           "Bytes of its memory that were used so far, in whole pages.");
}

}  // namespace popxl::bindings
