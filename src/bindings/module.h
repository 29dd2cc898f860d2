#pragma once

#include <nanobind/nanobind.h>

namespace popxl::bindings {

void bindErrors(nanobind::module_& m);
void bindTypes(nanobind::module_& m);
void bindOptions(nanobind::module_& m);
void bindTensor(nanobind::module_& m);
void bindOp(nanobind::module_& m);
void bindGraph(nanobind::module_& m);
void bindIr(nanobind::module_& m);
void bindTable(nanobind::module_& m);
void bindContext(nanobind::module_& m);
void bindBuild(nanobind::module_& m);
void bindLocation(nanobind::module_& m);
void bindDebugInfo(nanobind::module_& m);
void bindFloat8(nanobind::module_& m);
void bindCluster(nanobind::module_& m);
void bindLog(nanobind::module_& m);
void bindTransforms(nanobind::module_& m);
void bindProfile(nanobind::module_& m);
void bindSession(nanobind::module_& m);
void bindText(nanobind::module_& m);

}  // namespace popxl::bindings
