"""Reductions over replicas."""

from typing import Optional

from popxl.ops._build import expect, one
from popxl.ops.collectives.collectives import (
    CollectiveOps,
    assignment_of,
    grouping_of,
    to_collective_op,
)
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor


def replicated_all_reduce(
    t: Tensor, op: CollectiveOps = "add", group: Optional[ReplicaGrouping] = None
) -> Tensor:
    """Reduces a tensor over the replicas of a group; each of them gets the result.

    The result is bitwise the same on all of them. Gradients pass through "add" and "mean": each replica gets
    the reduction of the gradients.

    Args:
        t: The tensor.
        op: The reduction: "add", "mean", "mul", "min", "max", "and", "or" or "square_add".
        group: The groups; by default all replicas are one.

    Returns:
        The reduction, of the tensor's shape.

    Raises:
        ValueError: There is no such reduction, or the grouping is not of these replicas.
        TypeError: `t` is no tensor, or `group` no grouping.
    """
    return _reduce(t, op, group, False)


def replicated_all_reduce_(
    t: Tensor, op: CollectiveOps = "add", group: Optional[ReplicaGrouping] = None
) -> Tensor:
    """Like `replicated_all_reduce`, in the memory of the tensor.

    Args:
        t: As for `replicated_all_reduce`; it is written.
        op: As for `replicated_all_reduce`.
        group: As for `replicated_all_reduce`.

    Returns:
        The reduction: `t`'s memory.

    Raises:
        ValueError: As for `replicated_all_reduce`.
        TypeError: As for `replicated_all_reduce`.
    """
    return _reduce(t, op, group, True)


def _reduce(t: Tensor, op: CollectiveOps, group: Optional[ReplicaGrouping], inplace: bool) -> Tensor:
    expect(t, Tensor, "t")
    attributes = {"op": to_collective_op(op), "group": assignment_of(grouping_of(group))}
    return one("replicated_all_reduce", (t,), attributes, inplace, (t.name + "_all_reduce",))
