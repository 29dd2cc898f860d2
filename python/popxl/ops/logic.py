"""Logic and selection."""

from popxl import dtypes
from popxl.ops._build import one
from popxl.ops._generated import isinf, isnan
from popxl.ops.shaping import identity
from popxl.ops.utils import cast_if_needed
from popxl.tensor import Tensor


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Whether both elements are true, with NumPy broadcasting.

    Args:
        lhs: A tensor; anything but bool is cast to bool first.
        rhs: A tensor; anything but bool is cast to bool first.

    Returns:
        A bool tensor.
    """
    return one("logical_and", (cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool)))


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Whether one or both elements are true, with NumPy broadcasting.

    Args:
        lhs: A tensor; anything but bool is cast to bool first.
        rhs: A tensor; anything but bool is cast to bool first.

    Returns:
        A bool tensor.
    """
    return one("logical_or", (cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool)))


def logical_not(t: Tensor) -> Tensor:
    """Whether the element is false.

    Args:
        t: A tensor; anything but bool is cast to bool first.

    Returns:
        A bool tensor.
    """
    return one("logical_not", (cast_if_needed(t, dtypes.bool),))


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Elements of one tensor where a condition is true and of another elsewhere, with NumPy broadcasting.

    Args:
        condition: A tensor; anything but bool is cast to bool first.
        lhs: The elements where it is true.
        rhs: The elements where it is false, of the same dtype.

    Returns:
        A tensor of the three shapes broadcast.

    Raises:
        popart_exception: The dtypes differ or the shapes do not broadcast.
    """
    return one("where", (cast_if_needed(condition, dtypes.bool), lhs, rhs))


def isfinite(t: Tensor) -> Tensor:
    """Whether an element is a number and not infinite.

    Args:
        t: A tensor.

    Returns:
        A bool tensor.
    """
    return identity(logical_not(logical_or(isnan(t), isinf(t))), "isfinite_out")
