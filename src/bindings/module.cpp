#include "bindings/module.h"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  using namespace popxl::bindings;
  m.doc() = "The compiled core: the program representation, its transforms and the engine that runs it.";
  // A program that ends while a tensor is still in some global is no leak worth a message.
  nb::set_leak_warnings(false);
  bindErrors(m);
  bindTypes(m);
  bindOptions(m);
  bindTensor(m);
  bindOp(m);
  bindGraph(m);
  bindIr(m);
  bindTable(m);
  bindContext(m);
  bindBuild(m);
  bindLocation(m);
  bindDebugInfo(m);
  bindFloat8(m);
  bindCluster(m);
  bindLog(m);
  bindTransforms(m);
  bindProfile(m);
  bindSession(m);
  bindText(m);
}
