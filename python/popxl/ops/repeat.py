"""Running a graph a number of times."""

from typing import Iterable, List, Mapping, Optional, Tuple, Union

import numpy as np

from popxl import _core, dtypes
from popxl.context import get_current_context
from popxl.graph import Graph
from popxl.ops._build import expect
from popxl.ops.call import CallSiteInfo, arrange_inputs, call, flatten
from popxl.tensor import Tensor, TensorLike, graph_input, graph_output

__all__ = ["repeat", "repeat_with_info", "scan", "while_loop"]

_Inputs = Iterable[Union[TensorLike, Iterable[TensorLike]]]
_InputsDict = Optional[Mapping[Tensor, TensorLike]]


def repeat(
    graph: Graph,
    repeat_count: Union[int, Tensor],
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: _InputsDict = None,
    max_repeat_count: Optional[int] = None,
) -> Tuple[Tensor, ...]:
    """Runs a graph a number of times; its outputs become its first inputs of the next time.

    The other inputs have the same value each time, also where the graph writes them. Inputs are passed by
    value, unless they were made by reference.

    Args:
        graph: The graph; it has at least as many inputs as outputs.
        repeat_count: How many times; 0 gives the first inputs back. A tensor of one integer where that is
            known only when the program runs; a negative one is 0.
        inputs: As for `call`.
        inputs_dict: As for `call`.
        max_repeat_count: With a tensor: how many times at most. Running the program raises an error where the
            tensor says more.

    Returns:
        Tensors for the graph's outputs of the last time.

    Raises:
        ValueError: The count is negative, the graph has more outputs than inputs, a tensor is given without
            `max_repeat_count` or an integer with it, or as for `call`.
        TypeError: The count is neither integer nor tensor, or as for `call`.
        popart_exception: Shape or dtype of an input differ from what is given or from the output that
            becomes it.

    Examples:
        >>> start, rate = popxl.constant(100.0), popxl.constant(0.5)
        >>> body = ir.create_graph(lambda value, rate: value * rate, start, rate)
        >>> (last,) = ops.repeat(body, 3, start, rate)
        >>> run(last)
        array(12.5, dtype=float32)
    """
    return repeat_with_info(
        graph, repeat_count, *inputs, inputs_dict=inputs_dict, max_repeat_count=max_repeat_count
    ).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: Union[int, Tensor],
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: _InputsDict = None,
    check_inputs: bool = True,
    max_repeat_count: Optional[int] = None,
) -> CallSiteInfo:
    """Runs a graph a number of times, like `repeat`.

    Args:
        graph: As for `repeat`.
        repeat_count: As for `repeat`.
        inputs: As for `call`.
        inputs_dict: As for `call`.
        check_inputs: As for `call_with_info`.
        max_repeat_count: As for `repeat`.

    Returns:
        How the tensors of both graphs correspond; operands of a loop are counted from 2.

    Raises:
        ValueError: As for `repeat`.
        TypeError: As for `repeat`.
    """
    expect(graph, Graph, "graph")
    trips: List[Tensor] = []
    if isinstance(repeat_count, Tensor):
        if max_repeat_count is None:
            raise ValueError(
                f"The repeat count of graph {graph.id} is tensor {repeat_count.id}: give `max_repeat_count`, "
                f"the most that it may be."
            )
        trips, count = [repeat_count], max_repeat_count
    else:
        count = repeat_count
    _check_count(graph, count)
    if not trips and max_repeat_count is not None:
        raise ValueError(
            f"The repeat count of graph {graph.id} is {count}, a fixed number: `max_repeat_count`, "
            f"{max_repeat_count!r}, is for a count that is a tensor."
        )
    outputs = graph.outputs
    if len(outputs) > len(graph.inputs):
        raise ValueError(
            f"To repeat the subgraph {graph.id}, it needs an input for each output: it has {len(outputs)} "
            f"outputs and {len(graph.inputs)} inputs."
        )
    operands = arrange_inputs(graph, "called", inputs, inputs_dict, check_inputs)
    attributes = {"graph": graph, "repeat_count": count}
    return _run("repeat_up_to" if trips else "repeat", trips + operands, attributes)


def _check_count(graph: Graph, count: int) -> None:
    if not isinstance(count, (int, np.integer)) or isinstance(count, bool):
        raise TypeError(f"The repeat count of graph {graph.id} must be an integer or a tensor, not {count!r}.")
    if count < 0:
        raise ValueError(f"Repeat count must be >= 0. It is {count} for graph {graph.id}.")


def _run(op: str, operands: List[Tensor], attributes: dict) -> CallSiteInfo:
    names = [t.name for t in attributes["graph"].outputs]
    return CallSiteInfo(_core.create_op(op, operands, attributes, False, names))


def scan(
    graph: Graph,
    init: _Inputs,
    xs: _Inputs,
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: _InputsDict = None,
    length: Optional[int] = None,
    reverse: bool = False,
) -> Tuple[Tuple[Tensor, ...], Tuple[Tensor, ...]]:
    """Runs a graph once for each slice of some tensors, and stacks what it gives each time.

    The graph takes the carried values, then a slice of each tensor of `xs`, then what stays the same. It
    gives the carried values for the next time, then outputs that are stacked:

    ```python
    def step(state, x, w):
        state = ops.tanh(state @ w + x)
        return state, ops.sum(state)

    (last,), (sums,) = ops.scan(ir.create_graph(step, state, x_spec, w), [state], [xs], w)
    ```

    Args:
        graph: The graph.
        init: The carried values of the first time. The graph has an output for each.
        xs: Tensors whose first dimension is the number of times. They may be none: give `length` then.
        inputs: Values for the other inputs, the same each time.
        inputs_dict: Values for other inputs by the graph's input.
        length: How many times; by default the first dimension of `xs`.
        reverse: Whether to begin at the last slice. What is given for slice i is slice i of the result in any
            case.

    Returns:
        The carried values of the last time, and one tensor for each other output, with the number of times as
        first dimension.

    Raises:
        ValueError: There are neither `xs` nor `length`, their lengths differ, the graph has fewer outputs
            than there are carried values, or as for `call`.
        TypeError: As for `call`.
        popart_exception: Shapes or dtypes do not fit.
    """
    expect(graph, Graph, "graph")
    init, xs = flatten(init, "called"), flatten(xs, "called")
    if length is not None:
        _check_count(graph, length)
    shapes = [x.shape if hasattr(x, "shape") else np.shape(x) for x in xs]
    lengths = {shape[0] if len(shape) else None for shape in shapes} | ({length} - {None})
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            f"To scan with graph {graph.id}, all of `xs` need the same first dimension, which is `length` if "
            f"that is given: they have {[tuple(s) for s in shapes]}, `length` is {length}."
        )
    (count,) = lengths
    if len(graph.outputs) < len(init):
        raise ValueError(
            f"To scan with graph {graph.id}, it needs an output for each of {len(init)} carried values; it "
            f"has {len(graph.outputs)}."
        )
    stacked = len(graph.outputs) - len(init)
    attributes = {
        "graph": graph,
        "repeat_count": count,
        "stacked": stacked,
        "scanned": len(xs),
        "reverse": reverse,
    }
    operands = arrange_inputs(graph, "called", [*init, *xs, *inputs], inputs_dict)
    results = _run("repeat", operands, attributes).outputs
    return results[: len(init)], results[len(init) :]


def while_loop(
    cond: Graph,
    body: Graph,
    max_iterations: int,
    *inputs: Union[TensorLike, Iterable[TensorLike]],
    inputs_dict: _InputsDict = None,
) -> Tuple[Tensor, ...]:
    """Runs `body` as long as `cond` is true; its outputs become the first inputs of both.

    The other inputs have the same value each time. The loop can be differentiated, which is why the number of
    times needs a bound: values that gradients need are kept in memory that is planned before the program
    runs.

    Args:
        cond: A graph that gives one bool. Its inputs are the first of those of `body`, or all.
        body: The graph that is repeated; it has at least as many inputs as outputs.
        max_iterations: How many times `body` runs at most; then the loop ends though `cond` may be true.
        inputs: Inputs of `body`, as for `call`.
        inputs_dict: Inputs of `body`, as for `call`.

    Returns:
        Tensors for the outputs of `body` of the last time: the first inputs, where `cond` is false at once.

    Raises:
        ValueError: `max_iterations` is negative, `cond` has no single output or more inputs than `body`,
            `body` has more outputs than inputs, or as for `call`.
        TypeError: As for `call`.
        popart_exception: Shapes or dtypes do not fit, or `cond` gives no bool.
    """
    expect(cond, Graph, "cond")
    expect(body, Graph, "body")
    _check_count(body, max_iterations)
    if len(cond.outputs) != 1 or len(cond.inputs) > len(body.inputs):
        raise ValueError(
            f"The condition {cond.id} of a loop gives one bool from inputs of the body {body.id}: it has "
            f"{len(cond.outputs)} outputs, and {len(cond.inputs)} inputs where the body has "
            f"{len(body.inputs)}."
        )
    operands = arrange_inputs(body, "body", inputs, inputs_dict)
    (go_on,) = call(cond, *operands[: len(cond.inputs)])
    attributes = {"graph": _while_graph(cond, body), "repeat_count": max_iterations, "while_true": True}
    return _run("repeat", [go_on, *operands], attributes).outputs[1:]


def _while_graph(cond: Graph, body: Graph) -> Graph:
    """A graph that carries whether to go on besides what the body carries."""
    graph = get_current_context().ir.create_empty_graph("while")
    with graph:
        graph_input((), dtypes.bool, "go_on")
        # What the condition writes beyond its run has to last, too; a carried value is another each time.
        lasting = dict(zip(body.inputs[len(body.outputs) :], cond.inputs[len(body.outputs) :]))
        own = [
            graph_input(
                t.shape,
                t.dtype,
                t.name,
                by_ref=t in body._by_ref_inputs or lasting.get(t) in cond._by_ref_inputs,
                meta_shape=t.meta_shape,
            )
            for t in body.inputs
        ]
        outputs = call(body, *own)
        carried = [*outputs, *own[len(outputs) :]]
        for t in (*call(cond, *carried[: len(cond.inputs)]), *outputs):
            graph_output(t)
    return graph
