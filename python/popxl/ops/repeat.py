"""Running a graph a number of times."""

from typing import Iterable, Mapping, Optional, Tuple, Union

import numpy as np

from popxl import _core
from popxl.graph import Graph
from popxl.ops._build import expect
from popxl.ops.call import CallSiteInfo, arrange_inputs
from popxl.tensor import Tensor, TensorLike

__all__ = ["repeat", "repeat_with_info"]


def repeat(
    graph: Graph,
    repeat_count: int,
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: Optional[Mapping[Tensor, TensorLike]] = None,
) -> Tuple[Tensor, ...]:
    """Runs a graph a number of times; its outputs become its first inputs of the next time.

    The other inputs keep their value. Inputs are passed by value, unless they were made by reference.

    Args:
        graph: The graph; it has at least as many inputs as outputs.
        repeat_count: How many times; 0 gives the first inputs back.
        inputs: As for `call`.
        inputs_dict: As for `call`.

    Returns:
        Tensors for the graph's outputs of the last time.

    Raises:
        ValueError: The count is negative, the graph has more outputs than inputs, or as for `call`.
        TypeError: The count is no integer, or as for `call`.
        popart_exception: Shape or dtype of an input differ from what is given or from the output that
            becomes it.
    """
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: int,
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: Optional[Mapping[Tensor, TensorLike]] = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Runs a graph a number of times, like `repeat`.

    Args:
        graph: As for `repeat`.
        repeat_count: As for `repeat`.
        inputs: As for `call`.
        inputs_dict: As for `call`.
        check_inputs: As for `call_with_info`.

    Returns:
        How the tensors of both graphs correspond; operands of a loop are counted from 2.

    Raises:
        ValueError: As for `repeat`.
        TypeError: As for `repeat`.
    """
    expect(graph, Graph, "graph")
    if not isinstance(repeat_count, (int, np.integer)) or isinstance(repeat_count, bool):
        raise TypeError(
            f"The repeat count must be an integer that is known while the program is built, not {repeat_count!r}."
        )
    if repeat_count < 0:
        raise ValueError(f"Repeat count must be >= 0. It is {repeat_count} for graph {graph.id}.")
    outputs = graph.outputs
    if len(outputs) > len(graph.inputs):
        raise ValueError(
            f"To repeat the subgraph {graph.id}, it needs an input for each output: it has {len(outputs)} "
            f"outputs and "
            f"{len(graph.inputs)} inputs."
        )
    operands = arrange_inputs(graph, "called", inputs, inputs_dict, check_inputs)
    names = [t.name for t in outputs]
    attributes = {"graph": graph, "repeat_count": repeat_count}
    return CallSiteInfo(_core.create_op("repeat", operands, attributes, False, names))
