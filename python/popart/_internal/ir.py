"""The program representation under the names that lower-level programs know."""

import sys
from typing import Any, Dict, List

from popart.dataflow import DataFlow
from popart.variable_settings import ReplicaGrouping, VariableSettings
from popxl import _core
from popxl._core import (
    DataType,
    ExecutionContext,
    Graph,
    Ir,
    Op,
    SessionOptions,
    Settings,
    Tensor,
    TensorInfo,
    TensorType,
    TileSet,
    VirtualGraphMode,
)

from popart._internal import op, patterns

# `import popart._internal.ir.op` finds the module too.
sys.modules[__name__ + ".op"] = op
sys.modules[__name__ + ".patterns"] = patterns


class NumInputs:
    """How many operands an op takes."""

    __slots__ = ("min", "max")

    def __init__(self, min: int = 0, max: int = 0) -> None:
        """Sets the bounds.

        Args:
            min: The least number.
            max: The greatest; -1 for no bound.
        """
        self.min = min
        self.max = max


class OperatorIdentifier:
    """Name and version of an op."""

    __slots__ = ("domain", "type", "version", "numInputs", "numOutputs")

    def __init__(
        self, domain: str, type: str, version: int, numInputs: NumInputs = NumInputs(), numOutputs: int = 0
    ) -> None:
        """Names an op.

        Args:
            domain: Where it is defined.
            type: Its type.
            version: Its version.
            numInputs: How many operands it takes.
            numOutputs: How many results it has.
        """
        self.domain = domain
        self.type = type
        self.version = version
        self.numInputs = numInputs
        self.numOutputs = numOutputs


def _create_sum(
    graph: Graph, inputs: Dict[int, str], outputs: Dict[int, str], opid: Any, settings: Any
) -> Op:
    """Makes an op that adds any number of tensors.

    Args:
        graph: The graph, which is the current one.
        inputs: Tensor ids by operand.
        outputs: Id of the result, by 0.
        opid: Not used.
        settings: Not used; what is in force applies.
    """
    operands = [graph.getTensor(inputs[i]) for i in sorted(inputs)]
    return _core.create_op("add_n", operands)


def _set_data_flow(ir: Ir, flow: DataFlow) -> None:
    """Sets how many tensors each stream transfers in one run."""
    ir.host_transfers = flow.batchesPerStep()


def _data_flow(ir: Ir) -> DataFlow:
    return DataFlow(ir.host_transfers)


def _nothing(*_: Any) -> None:
    """Does nothing: the program is always consistent, and patterns are applied to a copy when a session is
    made."""


class _Value:
    """A number that may also be given by a tensor; then it reads 0."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = float(value or 0.0)

    def val(self) -> float:
        """The number."""
        return self._value


class _ConvOptions:
    """Options of a convolution, kept and without effect."""

    __slots__ = ("availableMemoryProportions",)

    def __init__(self, proportions: List[float]) -> None:
        self.availableMemoryProportions = proportions


def _conv_options(self: Op) -> _ConvOptions:
    return _ConvOptions(list(self.attr("available_memory_proportions") or []))


def _set_conv_options(self: Op, options: _ConvOptions) -> None:
    self.set_attr("available_memory_proportions", list(options.availableMemoryProportions))


def _partials_type(self: Op) -> "op.MatMulPartialsType":
    return op.MatMulPartialsType.HALF if self.attr("partials_type") == "half" else op.MatMulPartialsType.FLOAT


Graph.createConnectedOp_SumOp = _create_sum
Ir.setDataFlow = _set_data_flow
Ir.getDataFlow = _data_flow
Ir.updateVertices = _nothing
Ir.setPatterns = _nothing
Op.getFactor = lambda self: _Value(self.attr("factor"))
Op.getAxis = lambda self: self.attr("axis")
Op.getPartialsType = _partials_type
Op.getConvOptions = _conv_options
Op.setConvOptions = _set_conv_options

__all__ = [
    "DataFlow",
    "DataType",
    "ExecutionContext",
    "Graph",
    "Ir",
    "NumInputs",
    "Op",
    "OperatorIdentifier",
    "ReplicaGrouping",
    "SessionOptions",
    "Settings",
    "Tensor",
    "TensorInfo",
    "TensorType",
    "TileSet",
    "VariableSettings",
    "VirtualGraphMode",
    "op",
    "patterns",
]
