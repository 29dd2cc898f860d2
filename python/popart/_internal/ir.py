"""The program representation under the names that lower-level programs know."""

import enum
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


class ExpectedConnectionType(enum.Enum):
    """What an input or output of a gradient graph stands for."""

    Fwd = 0
    FwdGrad = 1


class ExpectedConnection:
    """What one input or output of a gradient graph stands for."""

    __slots__ = ("fwdId", "type")

    def __init__(self, fwdId: str, type: ExpectedConnectionType) -> None:
        """Connects.

        Args:
            fwdId: Id of a tensor of the forward graph.
            type: Whether the tensor itself or its gradient is meant.
        """
        self.fwdId = fwdId
        self.type = type


class BwdGraphInfo:
    """A gradient graph made by hand: what its inputs and outputs stand for."""

    __slots__ = ("bwdGraphId", "expectedInputs", "expectedOutputs")

    def __init__(
        self,
        bwdGraphId: str,
        expectedInputs: List[ExpectedConnection],
        expectedOutputs: List[ExpectedConnection],
    ) -> None:
        """Describes a gradient graph.

        Args:
            bwdGraphId: Its id.
            expectedInputs: One connection for each input.
            expectedOutputs: One for each output.
        """
        self.bwdGraphId = bwdGraphId
        self.expectedInputs = expectedInputs
        self.expectedOutputs = expectedOutputs

    def to_grad_info(self, forward: Graph) -> _core.GradInfo:
        """The same of a forward graph.

        Args:
            forward: The graph that the connections name tensors of.
        """
        graph = next(g for g in forward.getIr().getAllGraphs() if g.id == self.bwdGraphId)
        sides = [
            [(c.type is ExpectedConnectionType.FwdGrad, forward.getTensor(c.fwdId)) for c in connections]
            for connections in (self.expectedInputs, self.expectedOutputs)
        ]
        return _core.GradInfo(forward, graph, *sides)


def _operand_offset(self: Op) -> int:
    """What programs count before the first operand of a loop: its trip count and its condition."""
    return 2 if self.op_type == "Loop" else 0


def _connect_in_tensor(self: Op, index: int, tensor_id: str) -> None:
    """Gives an op under construction an operand.

    Args:
        index: Which operand; those of a loop are counted from 2.
        tensor_id: Id of a tensor of the op's graph.
    """
    self.set_input(index - _operand_offset(self), self.getGraph().getTensor(tensor_id))


def _add_loop_input(self: Op, index: int, tensor_id: str, subgraph_id: str, overwrite: bool = False) -> None:
    """Passes a tensor for an input of the body of a loop.

    Args:
        index: Which operand, counted from 2: the next one, or one to overwrite.
        tensor_id: Id of a tensor of the loop's graph.
        subgraph_id: Id of the body's input at that place.
        overwrite: Whether an operand is replaced.
    """
    body = self.getCalledGraphs()[0]
    if body.getInputIds().index(subgraph_id) != index - _operand_offset(self):
        raise ValueError(f"Tensor {subgraph_id} is not the input of {body.id} for operand {index}.")
    _connect_in_tensor(self, index, tensor_id)


def _add_loop_output(self: Op, index: int, name: str, subgraph_id: str, overwrite: bool = False) -> Tensor:
    """Gives a loop one more result, for a value that its body carries.

    Args:
        index: Which result: the next one.
        name: Name of the new tensor.
        subgraph_id: Id of the body's tensor that becomes its next output.
        overwrite: Not used.
    """
    body = self.getCalledGraphs()[0]
    if index != len(body.outputs):
        raise ValueError(f"The next output of {body.id} is {len(body.outputs)}, not {index}.")
    tensor = body.getTensor(subgraph_id)
    body.mark_output(tensor)
    return self.add_output(name, tensor)


Op.connectInTensor = _connect_in_tensor
Op.addLoopInput = _add_loop_input
Op.addLoopOutput = _add_loop_output
Graph.markAsOutput = lambda self, tensor_id: self.mark_output(self.getTensor(tensor_id))
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
    "BwdGraphInfo",
    "DataFlow",
    "DataType",
    "ExecutionContext",
    "ExpectedConnection",
    "ExpectedConnectionType",
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
