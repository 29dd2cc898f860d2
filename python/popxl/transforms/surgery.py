"""Copying, moving and extending parts of a program: what libraries above PopXL build on."""

from typing import Dict, Iterable, Mapping, Tuple

from popxl import _core
from popxl.graph import Graph
from popxl.ir import Ir
from popxl.ops._build import expect
from popxl.tensor import Tensor, Variable
from popxl.transforms.autodiff import ExpectedConnection, GradGraphInfo
from popxl.transforms.autodiff import ExpectedConnectionType as Kind


def clone_graph(graph: Graph) -> Graph:
    """Copies a graph.

    Args:
        graph: A graph other than the main graph.

    Returns:
        A graph of the same Ir with the same inputs, ops and outputs. Graphs that it calls are shared.

    Raises:
        ValueError: It is the main graph, whose variables can't be in another.
    """
    expect(graph, Graph, "graph")
    return Graph._from_pb(_core.clone_graph(graph._pb_graph))


def copy_ops(source: Graph, target: Graph, tensors: Mapping[Tensor, Tensor]) -> Dict[Tensor, Tensor]:
    """Copies all ops of a graph to the end of another graph of the same Ir.

    Args:
        source: The graph to copy from.
        target: The graph to copy to.
        tensors: What stands in `target` for inputs and variables of `source`. Constants are copied.

    Returns:
        `tensors`, with the tensors that were made.

    Raises:
        ValueError: An op reads an input or a variable for which nothing stands, or the graphs are of two Irs.
            Nothing is copied then.
    """
    expect(source, Graph, "source")
    expect(target, Graph, "target")
    for t in (*tensors.keys(), *tensors.values()):
        expect(t, Tensor, "tensors")
    pairs = [(a._pb_tensor, b._pb_tensor) for a, b in tensors.items()]
    made = _core.copy_ops(source._pb_graph, target._pb_graph, pairs)
    return {Tensor._from_pb_tensor(a): Tensor._from_pb_tensor(b) for a, b in made}


def outline_main(ir: Ir, name: str = "main") -> Tuple[Graph, Tuple[Variable, ...]]:
    """Moves what a main graph does into a graph, which can then be repeated.

    Args:
        ir: The program. Its main graph keeps its variables and loses its ops.
        name: Name of the new graph, made unique.

    Returns:
        The graph, and the variables to pass for its inputs: those that it writes are by reference.
    """
    expect(ir, Ir, "ir")
    graph, variables = _core.outline_main(ir._pb_ir, name)
    return Graph._from_pb(graph), tuple(Tensor._from_pb_tensor(v) for v in variables)


def add_output(graph: Graph, tensor: Tensor) -> None:
    """Makes a tensor one more output of its graph, also where that is run already.

    A call gains a result; a repeat one that holds the values of all iterations.

    Args:
        graph: The graph.
        tensor: One of its tensors.

    Raises:
        ValueError: The tensor is of another graph.
        popart_exception: The graph is a branch of a conditional: the other branch would not match.
    """
    expect(graph, Graph, "graph")
    expect(tensor, Tensor, "tensor")
    _core.gain_output(graph._pb_graph, tensor._pb_tensor)


def remove_output(graph: Graph, index: int) -> None:
    """Takes an output back, before the graph is run anywhere.

    Args:
        graph: The graph.
        index: Index of the output.

    Raises:
        IndexError: There is no such output.
        popart_exception: The graph is called, repeated or a branch.
    """
    expect(graph, Graph, "graph")
    graph._pb_graph.remove_output(index)


def replace_uses(graph: Graph, old: Tensor, new: Tensor) -> None:
    """Lets every op that reads a tensor read another one, outputs of the graph included.

    Args:
        graph: The graph of both.
        old: The tensor that is read.
        new: The tensor to be read.

    Raises:
        ValueError: One of them is of another graph, they differ in shape or dtype, or an op that reads `old`
            must run before `new`.
    """
    expect(graph, Graph, "graph")
    expect(old, Tensor, "old")
    expect(new, Tensor, "new")
    graph._pb_graph.replace_uses(old._pb_tensor, new._pb_tensor)


def make_grad_info(
    forward: Graph,
    graph: Graph,
    inputs: Iterable[Tuple[Kind, Tensor]],
    outputs: Iterable[Tuple[Kind, Tensor]],
) -> GradGraphInfo:
    """Describes a gradient graph that was made by hand, for `called_graphs_grad_info` of `autodiff`.

    Args:
        forward: The graph that it is the gradient of.
        graph: The gradient graph.
        inputs: What each of its inputs stands for: a tensor of `forward` or the gradient of one.
        outputs: What each of its outputs stands for: gradients of inputs of `forward`.

    Raises:
        ValueError: There is not one connection for each input and output, one is of a tensor of another
            graph, an input stands for neither a gradient of an output nor a forward input or output, or an
            output for anything but the gradient of an input.
    """
    expect(forward, Graph, "forward")
    expect(graph, Graph, "graph")
    sides = [[(kind is Kind.FwdGrad, t._pb_tensor) for kind, t in side] for side in (inputs, outputs)]
    return GradGraphInfo._from_pb(_core.GradInfo(forward._pb_graph, graph._pb_graph, *sides))


__all__ = [
    "ExpectedConnection",
    "add_output",
    "clone_graph",
    "copy_ops",
    "make_grad_info",
    "outline_main",
    "remove_output",
    "replace_uses",
]
