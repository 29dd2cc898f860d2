#include "exec/session.h"

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

}  // namespace

void bindSession(nb::module_& m) {
  using exec::MemoryReport;
  using exec::Session;
  nb::class_<MemoryReport>(m, "MemoryReport", "Bytes that a session takes while attached.")
      .def_ro("frame_bytes", &MemoryReport::frameBytes, "Activations and temporaries: the planned peak.")
      .def_ro("variable_bytes", &MemoryReport::variableBytes, "Variables, of all replicas of this process.")
      .def_ro("constant_bytes", &MemoryReport::constantBytes)
      .def_ro("remote_bytes", &MemoryReport::remoteBytes, "Remote buffers, of all replicas of this process.")
      .def_ro("live_lower_bound", &MemoryReport::liveLowerBound, "What no plan of the frame can go below.")
      .def_prop_ro("total", &MemoryReport::total);
  const auto release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Session>(m, "Session", "A compiled program and its memory.")
      .def(nb::init<std::shared_ptr<ir::Ir>>(), nb::arg("ir"), release)
      .def_prop_ro("compiled_ir", &Session::compiledIr, "The program as it was compiled.")
      .def("attach", &Session::attach, release)
      .def("detach", &Session::detach, release)
      .def_prop_ro("attached", &Session::attached)
      .def_prop_ro("failed", &Session::failed, "Whether the last run failed half way.")
      .def("weights_from_host", &Session::weightsFromHost, release)
      .def("weights_to_host", &Session::weightsToHost, release)
      .def("run", &run, nb::arg("buffers"),
           "Runs the program once, with triples (stream id, array, entries) for all streams that it uses.")
      .def("memory", &Session::memory, "What the session takes while attached; known before it is.")
      .def("touched_bytes", &Session::touchedBytes,
           "Bytes of its memory that were used so far, in whole pages.");
}

}  // namespace popxl::bindings
