"""Casts between dtypes."""

from popxl import dtypes
from popxl.ops._build import expect, one
from popxl.tensor import Tensor

_FLOAT8 = (dtypes.float8_143, dtypes.float8_152)


def cast(t: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Every element converted to another dtype.

    Args:
        t: A tensor.
        data_type: The dtype of the result.

    Returns:
        A tensor named after `t` and the dtype.

    Raises:
        TypeError: `data_type` is a float8 type, to which `pow2scale_cast_to_fp8` converts, or no dtype.
    """
    if not isinstance(data_type, dtypes.dtype):
        raise TypeError(f"cast needs a dtype of this package, such as popxl.float32, not {data_type!r}.")
    if data_type in _FLOAT8:
        raise TypeError(
            f"cast can't convert to {data_type}; use pow2scale_cast_to_fp8 or pow2scale_cast_from_fp8."
        )
    return one("cast", (t,), {"data_type": data_type}, False, (f"{t.name}_{data_type.name}",))


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Every element times 2**log2_scale, as float8.

    Args:
        t: A tensor of float16, float32 or float64.
        log2_scale: An int32 scalar, in [-32, 32) when the program runs.
        data_type: The dtype of the result, a float8 type.

    Returns:
        A tensor named after `t` and the dtype.

    Raises:
        TypeError: `data_type` is no float8 type, or `log2_scale` is not int32.
        ValueError: `log2_scale` is no scalar.
    """
    expect(t, Tensor, "t")
    if data_type not in _FLOAT8:
        raise TypeError(f"pow2scale_cast_to_fp8 converts to float8_143 or float8_152, not to {data_type!r}.")
    check_log2_scale(log2_scale)
    name = f"{t.name}_{data_type.name}"
    return one("pow2scale_cast_to_fp8", (t, log2_scale), {"data_type": data_type}, False, (name,))


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Every element converted from float8, then multiplied by 2**log2_scale.

    Args:
        t: A tensor of a float8 type.
        log2_scale: An int32 scalar, in [-32, 32) when the program runs.
        data_type: The dtype of the result, float16 or float32.

    Returns:
        A tensor named after `t` and the dtype.

    Raises:
        TypeError: `data_type` is another type, or `log2_scale` is not int32.
        ValueError: `log2_scale` is no scalar.
    """
    expect(t, Tensor, "t")
    if data_type not in (dtypes.float16, dtypes.float32):
        raise TypeError(f"pow2scale_cast_from_fp8 converts to float16 or float32, not to {data_type!r}.")
    check_log2_scale(log2_scale)
    name = f"{t.name}_{data_type.name}"
    return one("pow2scale_cast_from_fp8", (t, log2_scale), {"data_type": data_type}, False, (name,))


def check_float8_operands(lhs: Tensor, rhs: Tensor, log2_scale: Tensor) -> None:
    """Checks the operands of a product that is scaled by a power of two.

    Args:
        lhs: The first factor.
        rhs: The second factor.
        log2_scale: The exponent.

    Raises:
        TypeError: A factor is no float8 tensor, or `log2_scale` is not int32.
        ValueError: `log2_scale` is no scalar.
    """
    expect(lhs, Tensor, "lhs")
    expect(rhs, Tensor, "rhs")
    if lhs.dtype not in _FLOAT8 or rhs.dtype not in _FLOAT8:
        raise TypeError(
            f"A product scaled by a power of two needs operands of dtype popxl.float8_143 or "
            f"popxl.float8_152; they are "
            f"{lhs.dtype} and {rhs.dtype}."
        )
    check_log2_scale(log2_scale)


def check_log2_scale(log2_scale: Tensor) -> None:
    """Checks an exponent of two.

    Args:
        log2_scale: The exponent.

    Raises:
        TypeError: It is not int32.
        ValueError: It is no scalar.
    """
    expect(log2_scale, Tensor, "log2_scale")
    if log2_scale.rank > 0:
        raise ValueError(
            f"`log2_scale` must be a scalar tensor; {log2_scale.id} has shape {log2_scale.shape}."
        )
    if log2_scale.dtype != dtypes.int32:
        raise TypeError(f"`log2_scale` must be of type popxl.int32; {log2_scale.id} is {log2_scale.dtype}.")
