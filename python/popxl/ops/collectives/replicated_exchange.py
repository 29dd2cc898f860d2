"""Values of one replica for others, unreduced."""

from typing import Optional, Sequence

from popxl.ops._build import expect, integers, one
from popxl.ops.collectives.collectives import (
    assignment_of,
    flat_from,
    grouping_of,
    shared_axis_of,
    unflat_to,
)
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor


def replicated_all_to_all(t: Tensor, axis: int = 0, group: Optional[ReplicaGrouping] = None) -> Tensor:
    """Part k of every replica's tensor to replica k of its group, in the order of the replicas.

    Args:
        t: The tensor, of which equal parts of an axis are for the replicas of a group.
        axis: The axis, on which the parts follow each other in the result too.
        group: The groups; by default all replicas are one.

    Returns:
        The parts for this replica, of the tensor's shape.

    Raises:
        ValueError: The axis is out of range or no multiple of the group size, or the grouping is not of
            these replicas.
        TypeError: `t` is no tensor, or `group` no grouping.
    """
    expect(t, Tensor, "t")
    grouping = grouping_of(group)
    axis = shared_axis_of(t, axis, grouping)
    flat, shape = flat_from(t, axis)
    attributes = {"group": assignment_of(grouping)}
    exchanged = one("replicated_all_to_all", (flat,), attributes, False, (t.name + "_all_to_all",))
    return unflat_to(exchanged, shape, axis)


def replicated_broadcast(t: Tensor, root: int = 0, group: Optional[ReplicaGrouping] = None) -> Tensor:
    """The tensor of one replica of a group, on each of them.

    The gradient of that replica's tensor is the sum of the results'; the others' is zero.

    Args:
        t: The tensor.
        root: The replica's place in its group, from 0 up.
        group: The groups; by default all replicas are one.

    Returns:
        The replica's tensor.

    Raises:
        ValueError: A group has no such place, or the grouping is not of these replicas.
        TypeError: `t` is no tensor, or `group` no grouping.
    """
    expect(t, Tensor, "t")
    attributes = {"root": root, "group": assignment_of(grouping_of(group))}
    return one("replicated_broadcast", (t,), attributes, False, (t.name + "_broadcast",))


def replicated_permute(t: Tensor, sources: Sequence[int]) -> Tensor:
    """The tensor of another replica: each sends to at most one and receives from at most one.

    Args:
        t: The tensor.
        sources: For each replica the one that it receives from; -1 for none: it gets zeros.

    Returns:
        What was received.

    Raises:
        ValueError: There is no such replica, one sends twice, or `sources` does not have one number for each
            replica.
        TypeError: `t` is no tensor, or `sources` no integers.
    """
    expect(t, Tensor, "t")
    return one("replicated_permute", (t,), {"sources": integers(sources, "sources")}, False, (t.name + "_permuted",))
