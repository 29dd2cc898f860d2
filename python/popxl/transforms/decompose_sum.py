"""Sums of many tensors as chains of additions."""

from popxl import _core
from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Replaces every sum of more than two tensors in a graph by additions onto zeros, one for each tensor.

    Args:
        graph: The graph.

    Returns:
        The graph.
    """
    _core.decompose_sum(graph._pb_graph)
    return graph
