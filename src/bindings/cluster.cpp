#include "dist/cluster.h"

#include <vector>

#include "base/error.h"
#include "bindings/module.h"

namespace nb = nanobind;

namespace popxl::bindings {
namespace {

void join(int32_t size, int32_t index) {
  const dist::Cluster& cluster = dist::cluster();
  if (cluster.size() != size || cluster.index() != index) {
    fail(ErrorKind::kRuntime,
         "this process is instance {} of {} by the variables POPDIST_*, but process {} of {} by MPI; start "
         "it with `poprun`",
         index, size, cluster.index(), cluster.size());
  }
}

void synchronize() {
  int8_t mine = 0;
  std::vector<int8_t> all(static_cast<size_t>(dist::cluster().size()));
  const nb::gil_scoped_release release;
  dist::cluster().setActivity("popdist.synchronize()");
  dist::cluster().allGather(&mine, 1, all.data());
}

}  // namespace

void bindCluster(nb::module_& m) {
  m.def("join_cluster", &join, nb::arg("size"), nb::arg("index"),
        "Joins the processes that run this program together. RuntimeError where MPI is missing, or tells "
        "another number of processes or another place among them.");
  m.def("in_cluster", &dist::inCluster, "Whether this process has joined others.");
  m.def("synchronize_cluster", &synchronize, "Waits until all processes have called it.");
}

}  // namespace popxl::bindings
