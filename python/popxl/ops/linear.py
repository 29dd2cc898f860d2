"""Matrix products."""

from typing import Optional

from popxl import dtypes
from popxl.context import get_current_context
from popxl.ops._build import one
from popxl.ops.casting import check_float8_operands
from popxl.tensor import Tensor

_PARTIALS = {"": "float", "float": "float", "half": "half"}


def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: Optional[float] = None,
    output_type: Optional[dtypes.dtype] = None,
    partials_type: Optional[dtypes.dtype] = None,
) -> Tensor:
    """Matrix product as `numpy.matmul`.

    Leading dimensions broadcast; one dimension is a row on the left and a column on the right.

    Args:
        lhs: The left factor.
        rhs: The right factor.
        available_memory_proportion: Accepted for compatibility; it has no effect.
        output_type: Dtype of the result; by default that of the factors.
        partials_type: float16 or float32, by default what the session options say. Sums are float32 at least
            in any case.

    Returns:
        The product.

    Raises:
        ValueError: `partials_type`, or the session option for it, is something else.
        popart_exception: The shapes do not fit.
    """
    if partials_type is None:
        option = get_current_context().ir._pb_ir.getSessionOptions().partialsTypeMatMuls
        partials = _PARTIALS.get(option.lower())
        if partials is None:
            raise ValueError(
                f"The session option partialsTypeMatMuls is {option!r}; it must be 'float' or 'half'."
            )
    elif partials_type in (dtypes.float16, dtypes.float32):
        partials = "half" if partials_type == dtypes.float16 else "float"
    else:
        raise ValueError(f"The partials_type of a matmul must be float16 or float32, not {partials_type}.")
    attributes = {
        "available_memory_proportion": available_memory_proportion,
        "output_type": output_type,
        "partials_type": partials,
    }
    return one("matmul", (lhs, rhs), attributes)


def matmul_pow2scaled(
    lhs: Tensor, rhs: Tensor, log2_scale: Tensor, available_memory_proportion: Optional[float] = None
) -> Tensor:
    """Matrix product of float8 tensors, times 2**log2_scale.

    Args:
        lhs: The left factor, float8.
        rhs: The right factor, float8.
        log2_scale: An int32 scalar, in [-32, 32) when the program runs.
        available_memory_proportion: Accepted for compatibility; it has no effect.

    Returns:
        The product, float16.

    Raises:
        TypeError: A factor is not float8, or `log2_scale` is not int32.
        ValueError: `log2_scale` is no scalar.
    """
    check_float8_operands(lhs, rhs, log2_scale)
    attributes = {
        "available_memory_proportion": available_memory_proportion,
        "output_type": dtypes.float16,
        "partials_type": "half",
    }
    return one("matmul", (lhs, rhs, log2_scale), attributes)
