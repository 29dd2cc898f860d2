"""What the collectives share: reductions, groups of replicas, and the order of elements."""

from typing import List, Literal, Optional, Sequence, Tuple, get_args

from popxl.ops._build import one
from popxl.replica_grouping import ReplicaGrouping, grouping_of
from popxl.tensor import Tensor

from popart.variable_settings import CommGroup, CommGroupType  # isort: skip

CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]

#: Reductions by the names that programs use, as the op table names them.
OP_MAP = {name: name for name in get_args(CollectiveOps)}


def to_collective_op(op: CollectiveOps) -> str:
    """The op table's name of a reduction.

    Args:
        op: One of `CollectiveOps`.

    Raises:
        ValueError: There is no such reduction.
    """
    if not isinstance(op, str) or op not in OP_MAP:
        raise ValueError(f"There is no reduction {op!r} of replicas; use one of {', '.join(OP_MAP)}.")
    return op


def assignment_of(group: ReplicaGrouping) -> Tuple[int, ...]:
    """A grouping as the ops' attribute: the group of each replica; nothing for one group of all.

    Args:
        group: The grouping.
    """
    return () if group.num_groups == 1 else tuple(group.assignment)


def axis_of(t: Tensor, axis: int) -> int:
    """An axis of a tensor, counted from the front.

    Args:
        t: The tensor.
        axis: The axis, from the end if negative.

    Raises:
        ValueError: It is no integer, or out of range.
    """
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise ValueError(f"`axis` must be an int; it is {axis!r} of type {type(axis)}.")
    if not -t.rank <= axis < t.rank:
        raise ValueError(f"`axis` {axis} is out of range: tensor {t.id} has {t.rank} dimensions.")
    return axis % t.rank


def shared_axis_of(t: Tensor, axis: int, grouping: ReplicaGrouping) -> int:
    """An axis, counted from the front, of which every replica of a group has an equal part.

    Args:
        t: The tensor.
        axis: The axis, from the end if negative.
        grouping: The groups.

    Raises:
        ValueError: It is no integer, out of range, or no multiple of the group size.
    """
    axis = axis_of(t, axis)
    if t.shape[axis] % grouping.group_size != 0:
        raise ValueError(
            f"Axis {axis} of tensor {t.id} has {t.shape[axis]} elements, which {grouping.group_size} replicas "
            "can't share equally."
        )
    return axis


def reshaped(t: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor of another shape of as many elements, of none too.

    Args:
        t: The tensor.
        shape: The shape.
    """
    return one("reshape", (t,), {"shape": tuple(shape)}, False, (t.name + "_reshaped",))


def flat_from(t: Tensor, axis: int) -> Tuple[Tensor, List[int]]:
    """A tensor with `axis` brought to the front, flat, and its shape before that.

    Args:
        t: The tensor.
        axis: The axis, counted from the front.
    """
    if axis > 0:
        t = t.transpose([axis, *(a for a in range(t.rank) if a != axis)])
    return reshaped(t, (t.nelms,)), list(t.shape)


def unflat_to(t: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    """The inverse of `flat_from`.

    Args:
        t: A flat tensor.
        shape: Its shape with the axis in front.
        axis: Where the axis goes.
    """
    t = reshaped(t, shape)
    if axis > 0:
        t = t.transpose([*range(1, axis + 1), 0, *range(axis + 1, t.rank)])
    return t


__all__ = ["CollectiveOps", "CommGroup", "CommGroupType", "OP_MAP", "grouping_of", "to_collective_op"]
