"""Gathers of the replicas' tensors."""

from typing import Literal, Optional

from popxl.ops._build import expect, one
from popxl.ops.collectives.collectives import (
    assignment_of,
    axis_of,
    flat_from,
    grouping_of,
    reshaped,
    unflat_to,
)
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor

_SHAPES = ("new_axis", "concat", "meta_shape", "auto")


def replicated_all_gather(
    t: Tensor,
    axis: int = 0,
    group: Optional[ReplicaGrouping] = None,
    output_shape: Literal["new_axis", "concat", "meta_shape", "auto"] = "auto",
) -> Tensor:
    """The tensors of a group's replicas as one, on each of them.

    The gradient of each replica's tensor is its part of the gradient of the result: the gradients are taken
    to be equal on all replicas, and are not summed.

    Args:
        t: The tensor.
        axis: For "concat" the axis on which the tensors follow each other.
        group: The groups; by default all replicas are one.
        output_shape: "new_axis": (group size, *t.shape). "concat": the tensors one after another on `axis`.
            "meta_shape": `t.meta_shape`, the whole of which `t` is a shard. "auto": "meta_shape" if the
            tensor has one, else "concat".

    Returns:
        The gathered tensors.

    Raises:
        ValueError: `axis` or `output_shape` is none, the tensor has no meta-shape, or the grouping is not of
            these replicas.
        TypeError: `t` is no tensor, or `group` no grouping.
    """
    expect(t, Tensor, "t")
    grouping = grouping_of(group)
    if output_shape not in _SHAPES:
        raise ValueError(f"`output_shape` must be one of {', '.join(_SHAPES)}, not {output_shape!r}.")
    axis = axis_of(t, axis) if t.rank > 0 else 0
    if output_shape == "auto":
        output_shape = "meta_shape" if t.meta_shape else "concat"
    if output_shape == "meta_shape":
        if not t.meta_shape:
            raise ValueError(f"Tensor {t.id} is no shard: it has no meta-shape to be gathered to.")
        return _gather(t, t.meta_shape, grouping)
    if output_shape == "new_axis":
        axis = 0
    flat, shape = flat_from(t, axis)
    gathered = _gather(flat, (grouping.group_size * t.nelms,), grouping)
    if output_shape == "new_axis":
        return reshaped(gathered, (grouping.group_size, *t.shape))
    shape = shape or [1]
    return unflat_to(gathered, [grouping.group_size * shape[0], *shape[1:]], axis)


def _gather(t: Tensor, shape: tuple, grouping: ReplicaGrouping) -> Tensor:
    attributes = {"shape": tuple(shape), "group": assignment_of(grouping)}
    return one("replicated_all_gather", (t,), attributes, False, (t.name + "_all_gathered",))
