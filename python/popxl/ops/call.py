"""Running a graph once, and the connection between a graph and the place that runs it."""

from collections.abc import Iterable as IterableABC
from typing import Any, Iterable, List, Mapping, Optional, Tuple, Union

from popxl import _core
from popxl.context import get_current_context
from popxl.graph import Graph
from popxl.ops._build import expect
from popxl.tensor import Tensor, TensorLike

__all__ = ["CallSiteInfo", "call", "call_with_info"]

#: A loop counts its operands from here on: before them come the trip count and the condition to go on.
_LOOP_OFFSET = 2
_LOOPS = {"Loop": 0, "LoopUpTo": 1}


class CallSiteInfo:
    """A place where a graph is called or repeated.

    It tells how tensors of the parent graph and of the called one correspond.
    """

    def __init__(self, subgraph_op: "_core.Op") -> None:
        """Describes an op that runs a graph.

        Args:
            subgraph_op: The op.
        """
        self._op = subgraph_op
        is_loop = subgraph_op.op_type in _LOOPS
        self._offset = _LOOP_OFFSET if is_loop else 0
        #: The operand that provides input 0 of the graph.
        self._first = _LOOPS[subgraph_op.op_type] if is_loop else 0

    @property
    def called_graph(self) -> Graph:
        """The graph that is run."""
        return Graph._from_pb(self._op.getCalledGraphs()[0])

    def graph_to_parent_input_index(self, idx: int) -> int:
        """The operand that provides an input of the called graph.

        Args:
            idx: Index of the input.

        Returns:
            Index of the operand; those of a loop are counted from 2.
        """
        return idx + self._offset

    def parent_to_graph_input_index(self, idx: int) -> int:
        """The input of the called graph that an operand provides.

        Args:
            idx: Index of the operand; those of a loop are counted from 2.

        Returns:
            Index of the input.
        """
        return idx - self._offset

    def graph_to_parent_output_index(self, idx: int) -> int:
        """The result that an output of the called graph becomes.

        Args:
            idx: Index of the output.

        Returns:
            Index of the result.
        """
        return idx

    def parent_to_graph_output_index(self, idx: int) -> int:
        """The output of the called graph that becomes a result.

        Args:
            idx: Index of the result.

        Returns:
            Index of the output.
        """
        return idx

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """The tensor of the parent graph for an input or output of the called graph.

        Args:
            graph_tensor: The input or output.

        Returns:
            The operand or result.

        Raises:
            ValueError: The tensor is no input and no output of the called graph.
        """
        wanted = graph_tensor._pb_tensor
        graph = self._op.getCalledGraphs()[0]
        operands = self._op.inputs[self._first :]
        for inside, outside in ((graph.inputs, operands), (graph.outputs, self._op.outputs)):
            if wanted in inside:
                return Tensor._from_pb_tensor(outside[inside.index(wanted)])
        raise self._unknown(graph_tensor)

    def _unknown(self, tensor: Tensor) -> ValueError:
        graphs = " and ".join(g.id for g in self._op.getCalledGraphs())
        return ValueError(f"Tensor {tensor.id} is no input and no output of {graphs}, which is called here.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """The input of the called graph that a tensor of the parent graph provides.

        Args:
            parent_tensor: An operand; where it is given more than once, the first input is returned.

        Returns:
            The input.

        Raises:
            ValueError: The tensor is no operand here.
        """
        position = self._position(parent_tensor)
        return Tensor._from_pb_tensor(self._op.getCalledGraphs()[0].inputs[position - self._first])

    def _position(self, parent_tensor: Tensor) -> int:
        operands = self._op.inputs[self._first :]
        if parent_tensor._pb_tensor not in operands:
            raise ValueError(f"Tensor {parent_tensor.id} is not passed to a graph here.")
        return self._first + operands.index(parent_tensor._pb_tensor)

    def parent_input(self, idx: int) -> Tensor:
        """The tensor of the parent graph that is an operand.

        Args:
            idx: Index of the operand; those of a loop are counted from 2.

        Raises:
            IndexError: There is no such operand.
        """
        operand = idx - self._offset + self._first
        if idx < self._offset:  # a trip count that is a tensor, or one that is none
            operand = idx if idx < self._first else -1
        return Tensor._from_pb_tensor(self._op.inTensor(operand))

    def parent_output(self, idx: int) -> Tensor:
        """The tensor of the parent graph that is a result.

        Args:
            idx: Index of the result.

        Raises:
            IndexError: There is no such result.
        """
        return Tensor._from_pb_tensor(self._op.outTensor(idx))

    @property
    def inputs(self) -> Tuple[Tensor, ...]:
        """The operands, in order; of a loop without its trip count."""
        return tuple(map(Tensor._from_pb_tensor, self._op.inputs[self._first :]))

    @property
    def outputs(self) -> Tuple[Tensor, ...]:
        """The results, in order."""
        return tuple(map(Tensor._from_pb_tensor, self._op.outputs))

    def set_parent_input_modified(self, parent_tensor: Tensor, infer_modified_regions: bool = False) -> None:
        """States that the called graph changes a tensor of the parent graph: it is then passed by reference.

        Args:
            parent_tensor: An operand.
            infer_modified_regions: State it only if an op of the called graph writes the corresponding input.

        Raises:
            ValueError: The tensor is no operand here.
        """
        position = self._position(parent_tensor)
        graph_input = self._op.getCalledGraphs()[0].inputs[position - self._first]
        if infer_modified_regions and not _is_written(graph_input):
            return
        self._op.declare_modified(position)


def _is_written(tensor: "_core.Tensor") -> bool:
    """Whether an op writes the tensor, or memory that it shares with a result of an op."""
    for op, operand in tensor.uses:
        if op.modifies(operand):
            return True
        if any(alias == operand and _is_written(op.outputs[result]) for result, alias in op.aliases):
            return True
    return False


def call(
    graph: Graph,
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: Optional[Mapping[Tensor, TensorLike]] = None,
) -> Tuple[Tensor, ...]:
    """Runs a graph.

    Inputs are passed by value: what the graph does to them does not reach the current graph, unless an input
    was made by reference (`popxl.TensorByRef`, `popxl.graph_input(by_ref=True)`).

    Args:
        graph: The graph.
        inputs: Tensors for its inputs, in order. Lists of them are flattened; a number or an array becomes a
            constant of the input's dtype.
        inputs_dict: Tensors by the inputs of the graph that they are for.

    Returns:
        Tensors for the graph's outputs.

    Raises:
        ValueError: An input is missing, given twice, in no way part of the graph, or there are too many.
        TypeError: A value can't be made a constant.
        popart_exception: Shape or dtype differ from those of the graph's input.

    Examples:
        >>> x = popxl.variable([1.0, 2.0], name="x")
        >>> square = ir.create_graph(lambda t: t * t, x)
        >>> (y,) = ops.call(square, x)
        >>> (z,) = ops.call(square, inputs_dict={square.inputs[0]: y})
        >>> z.shape
        (2,)
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph,
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: Optional[Mapping[Tensor, TensorLike]] = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Runs a graph, like `call`.

    Args:
        graph: The graph.
        inputs: As for `call`.
        inputs_dict: As for `call`.
        check_inputs: Whether to list in the message what is missing; inputs can't be left out in any case.

    Returns:
        How the tensors of both graphs correspond.

    Raises:
        ValueError: As for `call`.
        TypeError: As for `call`.

    Examples:
        >>> x = popxl.variable([1.0, 2.0], name="x")
        >>> square = ir.create_graph(lambda t: t * t, x)
        >>> info = ops.call_with_info(square, x)
        >>> info.graph_to_parent(square.inputs[0]) == x, len(info.outputs)
        (True, 1)
    """
    operands = arrange_inputs(graph, "called", inputs, inputs_dict, check_inputs)
    op = _core.create_op("call", operands, {"graph": graph}, False, _names(graph.outputs))
    return CallSiteInfo(op)


def _names(tensors: Iterable[Tensor]) -> List[str]:
    return [t.name for t in tensors]


def arrange_inputs(
    graph: Graph,
    role: str,
    inputs: Optional[Iterable[Union[TensorLike, Iterable[TensorLike]]]],
    inputs_dict: Optional[Mapping[Tensor, TensorLike]],
    check_inputs: bool = True,
) -> List[Tensor]:
    """Tensors of the current graph for the inputs of another, in the order of these.

    Args:
        graph: The other graph.
        role: What messages call it.
        inputs: Tensors or values by position; iterables of them are flattened.
        inputs_dict: Tensors or values by input.
        check_inputs: Whether a missing input is an error.

    Raises:
        ValueError: An input is missing, given twice, in no way part of the graph, or there are too many.
        TypeError: `graph` is none, or a value can't be made a constant.
    """
    if isinstance(getattr(graph, "graph", None), Graph):
        raise TypeError(f"`graph` must be a popxl.Graph; of a {type(graph).__name__} pass its `graph`.")
    expect(graph, Graph, "graph")
    wanted = graph.inputs
    given = flatten(() if inputs is None else inputs, role)
    if len(given) > len(wanted):
        raise ValueError(
            f"Too many inputs have been provided: the {role} graph {graph.id} has {len(wanted)}, "
            f"{len(given)} are given."
        )
    by_index = dict(enumerate(given))
    for key, value in (inputs_dict or {}).items():
        index = _index_of(key, graph, role, wanted)
        if index in by_index:
            raise ValueError(
                f"Graph input tensor is specified twice: {key.id} of the {role} graph, by position and in "
                f"the dictionary."
            )
        by_index[index] = value
    missing = [t.id for i, t in enumerate(wanted) if i not in by_index]
    if check_inputs and missing:
        raise ValueError(
            f"Not enough inputs have been provided for the {role} graph {graph.id}: {', '.join(missing)} "
            f"missing; {len(by_index)} of {len(wanted)} are there. Give them by position or in "
            "`inputs_dict`; what a gradient graph takes from the forward call is in `inputs_dict(call)` of its "
            "GradGraphInfo."
        )
    parent = get_current_context().graph
    return [_connect(wanted[i], by_index[i], parent, role) for i in sorted(by_index)]


def flatten(inputs: Iterable[Union[TensorLike, Iterable[TensorLike]]], role: str) -> List[TensorLike]:
    """The inputs of a graph as one list; some may be lists themselves."""
    if isinstance(inputs, Tensor):
        raise TypeError(
            f"The inputs of the {role} graph are given in a list, also where there is one: [{inputs.id}]."
        )
    flat: List[Any] = []
    for value in inputs:
        is_array = hasattr(value, "__array__")
        if isinstance(value, IterableABC) and not isinstance(value, str) and not is_array:
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def _index_of(key: Tensor, graph: Graph, role: str, wanted: Tuple[Tensor, ...]) -> int:
    if not isinstance(key, Tensor):
        raise TypeError(
            f"The keys of the inputs' dictionary are inputs of the {role} graph, as in graph.inputs or "
            f"graph.inputs_by_name; {key!r} is no tensor."
        )
    if key in graph and key in wanted:
        return wanted.index(key)
    raise ValueError(
        f"Tensor {key.id} is a key of the inputs' dictionary, but not in the {role} graph {graph.id} an "
        f"input."
    )


def _connect(wanted: Tensor, value: TensorLike, parent: Graph, role: str) -> Tensor:
    if isinstance(value, Tensor):
        if value not in parent:
            same = value.ir == parent.ir
            hint = "pass it to this graph as an input" if same else "it belongs to another Ir"
            raise ValueError(
                f"Tensor {value.id}, given for input {wanted.id} of the {role} graph, is not in the current "
                f"graph {parent.id or 'main'}; {hint}."
            )
        return value
    try:
        return wanted._ensure_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"The value for input {wanted.id} of the {role} graph can't be made a constant of dtype "
            f"{wanted.dtype}: "
            f"{value!r} of type {type(value)}."
        ) from error
