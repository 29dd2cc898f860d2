"""The median over axes, and running sums."""

from typing import Optional

from popxl import dtypes
from popxl.ops._build import Axis, axes_of, one
from popxl.tensor import Tensor, constant


def median(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Median over axes: the lower of the two middle elements where their number is even.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("median", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def cumsum(t: Tensor, dim: Optional[int] = 0) -> Tensor:
    """Sum of an element and all before it on an axis.

    Args:
        t: A tensor.
        dim: The axis; negative counts from the last.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: There is no such axis.
    """
    if not -t.rank <= dim < t.rank:
        raise ValueError(f"dim {dim} is out of range for a tensor of rank {t.rank}.")
    return one("cumsum", (t, constant(dim, dtypes.int64, "dim")))
