#include "popxl/profile.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace popxl::bindings {

void bindProfile(nb::module_& m) {
  nb::class_<MachinePeaks>(m, "MachinePeaks",
                           "What the machine can do at most, with all threads that are used.")
      .def(
          "__init__",
          [](MachinePeaks* self, double flops, double memory, double cache, double cacheBytes, int threads) {
            new (self) MachinePeaks{flops, memory, cache, cacheBytes, threads};
          },
          "flops_per_second"_a, "memory_bytes_per_second"_a, "cache_bytes_per_second"_a, "cache_bytes"_a,
          "threads"_a = 1)
      .def_static("measure", &MachinePeaks::measure, nb::call_guard<nb::gil_scoped_release>(),
                  "Measures for about half a second, once for each number of threads.")
      .def_ro("flops_per_second", &MachinePeaks::flopsPerSecond,
              "Float32 multiply-adds in registers; each counts as two operations.")
      .def_ro("memory_bytes_per_second", &MachinePeaks::memoryBytesPerSecond,
              "A triad over arrays that do not fit the caches.")
      .def_ro("cache_bytes_per_second", &MachinePeaks::cacheBytesPerSecond,
              "A triad over arrays that fit each core's own cache.")
      .def_ro("cache_bytes", &MachinePeaks::cacheBytes, "Of all cores' own caches together.")
      .def_ro("threads", &MachinePeaks::threads)
      .def("seconds_for", &MachinePeaks::secondsFor, "flops"_a, "bytes"_a,
           "The least time for so many operations and bytes moved.");
  nb::class_<ProfileEntry>(m, "ProfileEntry",
                           "One instruction of a compiled program over all runs of a profile.")
      .def_ro("graph", &ProfileEntry::graph, "The graph that holds it.")
      .def_ro("kernel", &ProfileEntry::kernel, "What runs.")
      .def_ro("ops", &ProfileEntry::ops, "Names of the ops that it carries out: several for a fused group.")
      .def_ro("locations", &ProfileEntry::locations, "Where in the user's program these were made.")
      .def_ro("calls", &ProfileEntry::calls)
      .def_ro("seconds", &ProfileEntry::seconds, "Of all calls, without what called graphs took.")
      .def_ro("inclusive_seconds", &ProfileEntry::inclusiveSeconds, "Of all calls, with it.")
      .def_ro("predicted_seconds", &ProfileEntry::predictedSeconds, "For so many calls by the cost model.")
      .def_ro("flops", &ProfileEntry::flops, "Floating-point operations of all calls.")
      .def_ro("bytes", &ProfileEntry::bytes, "Of operands read and results written by all calls.")
      .def_ro("share_of_peak", &ProfileEntry::shareOfPeak,
              "Of the machine's arithmetic or bandwidth, whichever limits it.")
      .def_ro("bound_by_bytes", &ProfileEntry::boundByBytes, "Whether that is bandwidth.");
  nb::class_<Profile>(m, "Profile", "Where the time of a session's runs went.")
      .def_ro("peaks", &Profile::peaks)
      .def_ro("runs", &Profile::runs)
      .def_ro("seconds", &Profile::seconds)
      .def_ro("entries", &Profile::entries)
      .def("table", &Profile::table, "limit"_a)
      .def("chrome_trace", &Profile::chromeTrace);
}

}  // namespace popxl::bindings
