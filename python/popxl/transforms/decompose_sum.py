"""Sums of many tensors as chains of additions."""

from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Replaces every sum of several tensors in a graph by a zero tensor and one addition in place for each operand.

    Args:
        graph: The graph.

    Returns:
        The graph.
    """
    from popxl import ops

    for op in graph._pb_graph.getOps():
        if op.table_name == "add_n":
            _decompose(graph, op, ops)
    return graph


def _decompose(graph: Graph, op: object, ops: object) -> None:
    from popxl.tensor import Tensor

    out = Tensor._from_pb_tensor(op.outTensor(0))
    with graph:
        total = ops.init(out.shape, out.dtype, out.name + "_sum")
        for operand in op.inputs:
            total = ops.add_(total, Tensor._from_pb_tensor(operand))
    graph._pb_graph.replace_uses(op.outTensor(0), total._pb_tensor)
    graph._pb_graph.erase_ops([op])
