"""Reductions over axes, and running sums."""

from typing import Iterable, Optional, Tuple, Union

from popxl import dtypes
from popxl.ops._build import one
from popxl.tensor import Tensor, constant

_Axis = Optional[Union[int, Iterable[int]]]


def _axes(axis: _Axis) -> Tuple[int, ...]:
    if axis is None:
        return ()
    return (axis,) if isinstance(axis, int) else tuple(axis)


def l1(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of absolute values over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("l1", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def l2(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Square root of the sum of squares over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("l2", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def logsum(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Natural logarithm of the sum over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("logsum", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def logsumexp(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Natural logarithm of the sum of exponentials over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("logsumexp", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def max(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("max", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def mean(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Mean over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("mean", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def median(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
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
    return one("median", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def min(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("min", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def prod(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Product over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("prod", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def sum(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("sum", (t,), {"axes": _axes(axis), "keepdims": keepdims})


def sumsquare(t: Tensor, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of squares over axes.

    Args:
        t: A tensor.
        axis: One axis or several; negative counts from the last. By default all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor.

    Raises:
        ValueError: An axis does not exist or is given twice.
    """
    return one("sumsquare", (t,), {"axes": _axes(axis), "keepdims": keepdims})


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
