"""Rows of float8 arithmetic: casts with a power of two as scale, and products."""

import numpy as np

import popxl
from ops import references as ref
from ops.case import Bad, Case, fixed, real
from popxl import ops


def float8(*shape, dtype=popxl.float8_143):
    """Float8 numbers of both signs, none of them NaN."""
    return lambda rng: (
        (rng.integers(0x20, 0x50, shape) + 0x80 * rng.integers(0, 2, shape))
        .astype("u1")
        .view(dtype.as_numpy())
    )


def _all_bits(dtype):
    return fixed(np.arange(256, dtype="u1").view(dtype.as_numpy()), dtype.as_numpy())


def _ones(*shape):
    return popxl.variable(np.ones(shape))


_SCALE = fixed(2, "int32")


def _product(op, call, inputs, reference, **more):
    return Case(
        op,
        call,
        [*map(lambda shape: float8(*shape), inputs), _SCALE],
        lambda a, b, s: reference(ref.float8(a), ref.float8(b)) * 4,
        "float8",
        ("float16",),
        strided=False,
        **more,
    )


_PRODUCTS = [
    _product(
        "matmul",
        ops.matmul_pow2scaled,
        [(4, 5), (5, 3)],
        np.matmul,
        bad=(Bad(lambda: ops.matmul_pow2scaled(_ones(2), _ones(2), _ones(2)), TypeError, "float8"),),
    ),
    _product(
        "conv",
        lambda x, w, s: ops.conv_pow2scaled(x, w, s, (1, 2)),
        [(2, 3, 5, 6), (4, 3, 3, 2)],
        lambda x, w: ref.conv(x, w, (1, 2), (0, 0, 0, 0), (1, 1)),
        bad=(Bad(lambda: ops.conv_pow2scaled(_ones(2), _ones(2), _ones(2)), TypeError, "float8"),),
    ),
    _product(
        "conv_transpose",
        lambda x, w, s: ops.conv_transpose_pow2scaled(x, w, s, (1, 2)),
        [(2, 3, 5, 6), (3, 4, 3, 2)],
        lambda x, w: ref.conv_transpose(x, w, (1, 2), (0, 0, 0, 0), (1, 1)),
        bad=(Bad(lambda: ops.conv_transpose_pow2scaled(_ones(2), _ones(2), _ones(2)), TypeError, "float8"),),
    ),
]

# Every binade of the formats, subnormals and ties, what is too large, and what is no number.
_NUMBERS = np.concatenate([np.ldexp(np.linspace(1, 2, 33), exponent) for exponent in range(-22, 19)])
_WIDE = np.concatenate([_NUMBERS, -_NUMBERS, [0.0, -0.0, np.nan, np.inf, -np.inf]])


def _to(dtype, scale):
    return Case(
        "pow2scale_cast_to_fp8",
        lambda t, s: ops.pow2scale_cast_to_fp8(t, s, dtype),
        [lambda rng: _WIDE, fixed(scale, "int32")],
        lambda x, s: ref.to_float8(np.ldexp(x, s), dtype.name).view(dtype.as_numpy()),
        f"{dtype.name} {scale}",
        bad=(
            Bad(
                lambda: ops.pow2scale_cast_to_fp8(_ones(2), popxl.constant(1, popxl.int32), popxl.float16),
                TypeError,
                "float16",
            ),
            Bad(lambda: ops.pow2scale_cast_to_fp8(_ones(2), _ones(2), dtype), ValueError, "scalar tensor"),
            Bad(lambda: ops.pow2scale_cast_to_fp8(_ones(2), _ones(), dtype), TypeError, "popxl.int32"),
        ),
    )


def _from(dtype, wanted, scale):
    return Case(
        "pow2scale_cast_from_fp8",
        lambda t, s: ops.pow2scale_cast_from_fp8(t, s, wanted),
        [_all_bits(dtype), fixed(scale, "int32")],
        lambda x, s: np.ldexp(ref.float8(x), s),
        f"{dtype.name} {wanted.name} {scale}",
        (wanted.name,),
        bad=(
            Bad(
                lambda: ops.pow2scale_cast_from_fp8(_ones(2), popxl.constant(1, popxl.int32), popxl.int32),
                TypeError,
                "int32",
            ),
        ),
    )


_FORMATS = (popxl.float8_143, popxl.float8_152)
_CASTS = [
    *[_to(dtype, scale) for dtype in _FORMATS for scale in (0, -3, 7)],
    *[
        _from(dtype, wanted, scale)
        for dtype in _FORMATS
        for wanted, scale in ((popxl.float32, 0), (popxl.float32, 31), (popxl.float16, -4))
    ],
]

CASES = _PRODUCTS + _CASTS
