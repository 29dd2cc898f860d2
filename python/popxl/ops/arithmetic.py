"""Arithmetic that takes numbers beside tensors."""

from typing import Union

from popxl.ops._build import one
from popxl.ops._generated import div, log
from popxl.tensor import Tensor, TensorLike, constant


def log2(t: Tensor) -> Tensor:
    """Logarithm to base two of every element.

    Args:
        t: A tensor.

    Returns:
        A tensor of the same shape.
    """
    return div(log(t), log(constant(2, t.dtype)))


def pow(t: Tensor, e: Union[float, int, TensorLike]) -> Tensor:
    """One tensor to the power of another, with NumPy broadcasting.

    Args:
        t: The base.
        e: The exponent; what is no tensor becomes a constant of the dtype of `t`.

    Returns:
        A tensor of both shapes broadcast.

    Raises:
        popart_exception: The dtypes differ or the shapes do not broadcast.
    """
    return one("pow", (t, e if isinstance(e, Tensor) else t._ensure_tensor(e)))


def _scaled(X: Tensor, Y: Tensor, a: Union[float, Tensor], b: Union[float, Tensor], inplace: bool) -> Tensor:
    operands = (X, Y, a if isinstance(a, Tensor) else None, b if isinstance(b, Tensor) else None)
    attributes = {
        "a_value": None if isinstance(a, Tensor) else a,
        "b_value": None if isinstance(b, Tensor) else b,
    }
    return one("scaled_add", operands, attributes, inplace)


def scaled_add(X: Tensor, Y: Tensor, a: Union[float, Tensor] = 1.0, b: Union[float, Tensor] = 1.0) -> Tensor:
    """a X + b Y for tensors of one shape.

    Args:
        X: A tensor.
        Y: A tensor of its shape.
        a: Scale of X, a number or a scalar tensor.
        b: Scale of Y, a number or a scalar tensor.

    Returns:
        The sum.

    Raises:
        popart_exception: The shapes differ, or a scale is no scalar.
    """
    return _scaled(X, Y, a, b, False)


def scaled_add_(X: Tensor, Y: Tensor, a: Union[float, Tensor] = 1.0, b: Union[float, Tensor] = 1.0) -> Tensor:
    """Like `scaled_add`; the result takes over the memory of X.

    Args:
        X: A tensor.
        Y: A tensor of its shape.
        a: Scale of X, a number or a scalar tensor.
        b: Scale of Y, a number or a scalar tensor.

    Returns:
        The sum.

    Raises:
        popart_exception: The shapes differ, or a scale is no scalar.
    """
    return _scaled(X, Y, a, b, True)
