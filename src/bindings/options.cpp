#include <nanobind/nanobind.h>
#include <nanobind/stl/bind_map.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>

#include "bindings/module.h"
#include "ir/session_options.h"

namespace nb = nanobind;

using EngineOptions = std::map<std::string, std::string>;
NB_MAKE_OPAQUE(EngineOptions)

namespace popxl::bindings {

void bindOptions(nb::module_& m) {
  using ir::SessionOptions;
  nb::bind_map<EngineOptions>(m, "EngineOptions");
  nb::class_<SessionOptions>(m, "SessionOptions", nb::dynamic_attr(),
                             "Options of a program. Those that the engine has no use for are kept as given.")
      .def_rw("enableInplaceAmbiguityChecking", &SessionOptions::enableInplaceAmbiguityChecking)
      .def_rw("virtualGraphMode", &SessionOptions::virtualGraphMode)
      .def_rw("useHostCopyOps", &SessionOptions::useHostCopyOps)
      .def_rw("aliasZeroCopy", &SessionOptions::aliasZeroCopy)
      .def_rw("enableExplicitMainLoops", &SessionOptions::enableExplicitMainLoops)
      .def_rw("explicitRecomputation", &SessionOptions::explicitRecomputation)
      .def_rw("enableVariablesCaching", &SessionOptions::enableVariablesCaching)
      .def_rw("decomposeGradSum", &SessionOptions::decomposeGradSum)
      .def_rw("constantWeights", &SessionOptions::constantWeights)
      .def_rw("enableReplicatedGraphs", &SessionOptions::enableReplicatedGraphs)
      .def_rw("replicatedGraphCount", &SessionOptions::replicatedGraphCount)
      .def_rw("enableDistributedReplicatedGraphs", &SessionOptions::enableDistributedReplicatedGraphs)
      .def_rw("globalReplicaOffset", &SessionOptions::globalReplicaOffset)
      .def_rw("globalReplicationFactor", &SessionOptions::globalReplicationFactor)
      .def_rw("partialsTypeMatMuls", &SessionOptions::partialsTypeMatMuls)
      .def_rw("throwIfLog2ScaleTensorNotInRange", &SessionOptions::throwIfLog2ScaleTensorNotInRange)
      .def_rw("engineOptions", &SessionOptions::engineOptions)
      .def_rw("enableEngineCaching", &SessionOptions::enableEngineCaching)
      .def_rw("cachePath", &SessionOptions::cachePath)
      .def_rw("dotChecks", &SessionOptions::dotChecks)
      .def_rw("logDir", &SessionOptions::logDir);
}

}  // namespace popxl::bindings
