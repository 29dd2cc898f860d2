"""The lower-level names that PopXL programs use: exceptions, devices, enums, and a session over stream
ids."""

import popxl as _popxl  # noqa: F401  (whichever of the two packages is imported first loads the core)
from popxl._core import (
    DataType,
    ExecutionContext,
    TileSet,
    VirtualGraphMode,
    poplar_application_runtime_error,
    poplar_exception,
    poplar_runtime_error,
    popart_exception,
    popart_internal_exception,
    popart_runtime_error,
)

from popart.dataflow import AnchorReturnType, DataFlow, PyStepIO
from popart.debug_info import closePoplarDebugInfo, initializePoplarDebugInfo
from popart.device import (
    DeviceConnectionType,
    DeviceInfo,
    DeviceManager,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)
from popart.inference_session import InferenceSession
from popart.log import Logger, getLogger
from popart.variable_settings import (
    CommGroup,
    CommGroupType,
    VariableRetrievalMode,
    VariableSettings,
)

import popart._internal.ir  # noqa: E402, F401  isort: skip  (programs name it without importing it)

#: The base of this package's exceptions.
exception = popart_exception

__all__ = [
    "AnchorReturnType",
    "CommGroup",
    "CommGroupType",
    "DataFlow",
    "DataType",
    "DeviceConnectionType",
    "DeviceInfo",
    "DeviceManager",
    "DeviceSelectionCriterion",
    "DeviceType",
    "ExecutionContext",
    "InferenceSession",
    "Logger",
    "PyStepIO",
    "SyncPattern",
    "TileSet",
    "VariableRetrievalMode",
    "VariableSettings",
    "VirtualGraphMode",
    "closePoplarDebugInfo",
    "exception",
    "getLogger",
    "initializePoplarDebugInfo",
    "popart_exception",
    "popart_internal_exception",
    "popart_runtime_error",
    "poplar_application_runtime_error",
    "poplar_exception",
    "poplar_runtime_error",
]
