"""Elements combined at places on an axis."""

from typing import Optional

from popxl.ops._build import one
from popxl.tensor import Tensor


def scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: Optional[Tensor] = None,
    axis: int = 0,
    axis_size: Optional[int] = None,
    enable_index_broadcast: bool = True,
    available_memory_proportion: Optional[float] = None,
) -> Tensor:
    """Elements combined at places on an axis of a new tensor, or onto initial values.

    Args:
        data: The elements; but for the axis their coordinates stay.
        indices: Places on the axis, for each element or, as a vector, for each slice. Elements out of range
            are dropped.
        reduction: "sum", "max", "min", or "none": of several elements for one place the last counts.
        initial_values: What the elements are combined with. Without it places at which nothing arrives are 0.
        axis: The axis; negative counts from the last.
        axis_size: Its size in the result; needed without `initial_values`.
        enable_index_broadcast: Whether `indices` are broadcast to the shape of `data`. Otherwise only the
            elements that their shape covers take part.
        available_memory_proportion: Accepted for compatibility; it has no effect.

    Returns:
        A tensor like `initial_values`, or like `data` with another size of the axis.

    Raises:
        ValueError: The reduction is unknown, or neither `initial_values` nor `axis_size` is given.
        popart_exception: The shapes or dtypes do not fit.
    """
    attributes = {
        "reduction": reduction,
        "axis": axis,
        "axis_size": axis_size,
        "enable_index_broadcast": enable_index_broadcast,
        "available_memory_proportion": available_memory_proportion,
    }
    return one("scatter_reduce", (data, indices, initial_values), attributes)
