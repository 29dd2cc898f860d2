"""Parts of a tensor for each replica, reduced or not."""

from typing import Optional

from popxl.ops._build import expect, one
from popxl.ops.collectives.collectives import (
    CollectiveOps,
    assignment_of,
    flat_from,
    grouping_of,
    reshaped,
    shared_axis_of,
    to_collective_op,
    unflat_to,
)
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor


def replicated_reduce_scatter(
    t: Tensor,
    op: CollectiveOps = "add",
    group: Optional[ReplicaGrouping] = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Reduces a tensor over the replicas of a group; each of them gets a part of the result.

    With n replicas in a group, replica k of it gets elements [k * s, (k + 1) * s) of the flat reduction, s
    being its number of elements divided by n, rounded up; zeros follow the last element. Gradients pass
    through "add" and "mean": each replica gets the gathered gradients.

    Args:
        t: The tensor.
        op: The reduction: "add", "mean", "mul", "min", "max", "and", "or" or "square_add".
        group: The groups; by default all replicas are one.
        configure_output_for_replicated_tensor_sharding: Whether the result is a shard of `t`, whose shape
            becomes its meta-shape.

    Returns:
        The part, of one dimension.

    Raises:
        ValueError: There is no such reduction, or the grouping is not of these replicas.
        TypeError: `t` is no tensor, or `group` no grouping.
    """
    sharded = configure_output_for_replicated_tensor_sharding
    return _scatter(t, to_collective_op(op), group, sharded, "_reduce_scattered")


def replica_sharded_slice(t: Tensor, group: Optional[ReplicaGrouping] = None) -> Tensor:
    """The shard of a tensor for each replica of a group: its part as `replicated_reduce_scatter` cuts it.

    Args:
        t: The tensor, equal on all replicas of a group.
        group: The groups; by default all replicas are one.

    Returns:
        The shard, of one dimension, with `t.shape` as meta-shape.

    Raises:
        ValueError: The grouping is not of these replicas.
        TypeError: `t` is no tensor, or `group` no grouping.
    """
    return _scatter(t, "local", group, True, "_sharded_slice")


def replicated_slice(t: Tensor, axis: int = 0, group: Optional[ReplicaGrouping] = None) -> Tensor:
    """An equal slice of a tensor for each replica of a group: the first to the first of them, and so on.

    Its gradient is the slices' gradients gathered.

    Args:
        t: The tensor, equal on all replicas of a group.
        axis: The axis that is cut.
        group: The groups; by default all replicas are one.

    Returns:
        The slice. Where it has one element on the axis, the axis is dropped.

    Raises:
        ValueError: The axis is out of range or no multiple of the group size, or the grouping is not of
            these replicas.
        TypeError: `t` is no tensor, or `group` no grouping.
    """
    expect(t, Tensor, "t")
    grouping = grouping_of(group)
    axis = shared_axis_of(t, axis, grouping)
    flat, shape = flat_from(t, axis)
    part = _scatter(flat, "local", grouping, False, "_replicated_slice")
    size = shape[0]
    if size == grouping.group_size:
        return reshaped(part, shape[1:])
    return unflat_to(part, [size // grouping.group_size, *shape[1:]], axis)


def _scatter(t: Tensor, op: str, group: Optional[ReplicaGrouping], sharded: bool, suffix: str) -> Tensor:
    expect(t, Tensor, "t")
    attributes = {"op": op, "group": assignment_of(grouping_of(group)), "sharded": sharded}
    return one("replicated_reduce_scatter", (t,), attributes, False, (t.name + suffix,))
