"""Accumulation into a variable."""

from typing import Optional, Tuple, Union

from popxl import dtypes
from popxl.ops._build import one
from popxl.tensor import Tensor

_Number = Union[float, Tensor]


def as_operand(value: Optional[_Number]) -> Tuple[Optional[Tensor], Optional[float]]:
    """A number that an op takes as a tensor or as an attribute.

    Args:
        value: A tensor, a number or None.

    Returns:
        The operand and the attribute; one of them at least is None.
    """
    return (value, None) if isinstance(value, Tensor) else (None, value)


def _accumulate(t: Tensor, X: Tensor, f: Optional[_Number], mode: str, name: str) -> Tensor:
    operand, factor = as_operand(f)
    return one(
        "accumulate_", (t, X, operand), {"mode": mode, "factor": factor}, False, (f"{name}__{t.name}",)
    )


def accumulate_(t: Tensor, X: Tensor, f: Optional[_Number] = None) -> Tensor:
    """t becomes t + f X.

    Args:
        t: The variable.
        X: A tensor of its shape.
        f: The factor; by default 1.

    Returns:
        The variable after the update.
    """
    return _accumulate(t, X, f, "add", "accumulate")


def accumulate_square_(t: Tensor, X: Tensor, f: _Number = 1.0) -> Tensor:
    """t becomes t + f X^2.

    Args:
        t: The variable.
        X: A tensor of its shape.
        f: The factor.

    Returns:
        The variable after the update.
    """
    return _accumulate(t, X, f, "add_square", "accumulate_square")


def accumulate_mean_(t: Tensor, X: Tensor, step: _Number) -> Tensor:
    """t, the mean of `step` values, becomes the mean of these and X: step / (step + 1) t + 1 / (step + 1) X.

    Args:
        t: The variable.
        X: A tensor of its shape.
        step: How many values t is the mean of; a number becomes a float32 constant.

    Returns:
        The variable after the update.
    """
    return _accumulate(t, X, t._ensure_tensor(step, dtype=dtypes.float32), "mean", "accumulate_mean")


def accumulate_moving_average_(t: Tensor, X: Tensor, f: _Number) -> Tensor:
    """t becomes f t + (1 - f) X.

    Args:
        t: The variable.
        X: A tensor of its shape.
        f: The share of t.

    Returns:
        The variable after the update.
    """
    return _accumulate(t, X, f, "moving_average", "accumulate_moving_avg")


def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: _Number) -> Tensor:
    """t becomes f t + (1 - f) X^2.

    Args:
        t: The variable.
        X: A tensor of its shape.
        f: The share of t.

    Returns:
        The variable after the update.
    """
    return _accumulate(t, X, f, "moving_average_square", "accumulate_moving_avg_square")


def accumulator_scale_(t: Tensor, f: _Number) -> Tensor:
    """t becomes f t.

    Args:
        t: The variable.
        f: The factor; the number 0 sets every element to 0.

    Returns:
        The variable after the update.
    """
    operand, factor = as_operand(f)
    attributes = {"factor": 0.0 if factor is None else factor}  # programs read 0 where the factor is a tensor
    return one("accumulator_scale_", (t, operand), attributes, False, (f"accumulator_scale__{t.name}",))


def accumulator_zero_(t: Tensor) -> Tensor:
    """t becomes 0.

    Args:
        t: The variable.

    Returns:
        The variable after the update.
    """
    return accumulator_scale_(t, 0.0)


def sparse_accumulate_(
    t: Tensor, X: Tensor, indices: Tensor, axis: int = 0, f: Optional[_Number] = None, W: Optional[Tensor] = None
) -> Tensor:
    """The slices of t that indices pick on an axis become themselves + f X.

    It adds the gradient of `gather` without a tensor of the shape of t in between. A slice that is picked
    several times gets all its terms.

    Args:
        t: The variable.
        X: A tensor of the shape of `ops.gather(t, indices, axis)`.
        indices: Integers of any shape.
        axis: The axis of t.
        f: The factor; by default 1.
        W: Kept for compatibility; has no effect.

    Returns:
        The variable after the update.
    """
    operand, factor = as_operand(f)
    attributes = {"axis": axis, "factor": 0.0 if operand is not None else factor}
    return one(
        "sparse_accumulate_",
        (t, X, indices, operand, W),
        attributes,
        False,
        (f"sparse_accumulate__{t.name}",),
    )


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:
    """t becomes X.

    Args:
        t: The variable.
        X: A tensor of its shape and dtype.

    Returns:
        The variable after the update.
    """
    return one("copy_var_update_", (t, X), names=(f"updated__{t.name}",))
