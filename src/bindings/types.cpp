#include <nanobind/nanobind.h>

#include "bindings/module.h"
#include "ir/context.h"
#include "ir/ir.h"

namespace nb = nanobind;

namespace popxl::bindings {

void bindTypes(nb::module_& m) {
  nb::enum_<DType>(m, "DataType", "Element type of a tensor.")
      .value("FLOAT8_143", DType::kFloat8_143)
      .value("FLOAT8_152", DType::kFloat8_152)
      .value("FLOAT16", DType::kFloat16)
      .value("FLOAT", DType::kFloat32)
      .value("DOUBLE", DType::kFloat64)
      .value("INT8", DType::kInt8)
      .value("INT16", DType::kInt16)
      .value("INT32", DType::kInt32)
      .value("INT64", DType::kInt64)
      .value("UINT8", DType::kUInt8)
      .value("UINT16", DType::kUInt16)
      .value("UINT32", DType::kUInt32)
      .value("UINT64", DType::kUInt64)
      .value("BOOL", DType::kBool)
      .value("COMPLEX64", DType::kComplex64)
      .value("COMPLEX128", DType::kComplex128);

  nb::enum_<ir::TensorKind>(m, "TensorKind", "What a tensor is.")
      .value("Activation", ir::TensorKind::kActivation)
      .value("Input", ir::TensorKind::kInput)
      .value("Variable", ir::TensorKind::kVariable)
      .value("Constant", ir::TensorKind::kConstant)
      .value("Stream", ir::TensorKind::kStream);

  nb::enum_<ir::TileSet>(m, "TileSet", "Which tiles of a device an op runs on.")
      .value("Undefined", ir::TileSet::kUndefined)
      .value("Compute", ir::TileSet::kCompute)
      .value("IO", ir::TileSet::kIO);

  nb::enum_<ir::ExecutionContext>(m, "ExecutionContext", "Which part of a session an op belongs to.")
      .value("WeightsFromHostFragment", ir::ExecutionContext::kWeightsFromHost)
      .value("Normal", ir::ExecutionContext::kNormal)
      .value("AccumulateOuterFragment", ir::ExecutionContext::kAccumulateOuter)
      .value("WeightsToHostFragment", ir::ExecutionContext::kWeightsToHost);

  nb::enum_<ir::VirtualGraphMode>(m, "VirtualGraphMode", "How ops are assigned to devices.")
      .value("Off", ir::VirtualGraphMode::kOff)
      .value("Manual", ir::VirtualGraphMode::kManual)
      .value("Auto", ir::VirtualGraphMode::kAuto)
      .value("Pipeline", ir::VirtualGraphMode::kPipeline)
      .value("ExecutionPhases", ir::VirtualGraphMode::kExecutionPhases);

  nb::enum_<ir::StreamDirection>(m, "StreamDirection", "Which way a host stream goes.")
      .value("HostToDevice", ir::StreamDirection::kHostToDevice)
      .value("DeviceToHost", ir::StreamDirection::kDeviceToHost);
}

}  // namespace popxl::bindings
