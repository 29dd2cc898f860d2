"""Convolutions."""

from typing import Any, Dict, Iterable, List, Optional, Tuple

from popxl.ops._build import one
from popxl.ops.casting import check_float8_operands
from popxl.tensor import Tensor

#: The type of the argument `pad_type`: "not_set", "same_upper", "same_lower" or "valid".
PadType = str

def multi_conv_options(
    sess_opts: Dict[str, Any],
    attr_param: Dict[str, Any],
    available_memory_proportions: Optional[List[float]],
    partials_types: Optional[List[str]],
    enable_conv_dithering: Optional[List[int]],
) -> Dict[str, Any]:
    """The options of a convolution. They describe how an IPU uses its memory and change nothing here.

    Args:
        sess_opts: Options for all convolutions.
        attr_param: Options for this one.
        available_memory_proportions: Share of the memory that it may use.
        partials_types: Types of partial sums.
        enable_conv_dithering: Whether it may start on another tile.

    Returns:
        All options by name; those given last win.
    """
    given = {
        "available_memory_proportions": available_memory_proportions,
        "partials_types": ",".join(partials_types) if partials_types else None,
        "enable_conv_dithering": enable_conv_dithering,
    }
    return {**sess_opts, **attr_param, **{name: value for name, value in given.items() if value}}


def _convolution(
    name: str,
    operands: Tuple[Tensor, ...],
    geometry: Tuple[Iterable[int], Iterable[int], Iterable[int], int, PadType],
    options: Tuple[Optional[List[float]], Optional[List[str]], Optional[List[int]]],
    **more: Iterable[int],
) -> Tensor:
    names = ("stride", "padding", "dilation", "groups", "pad_type")
    attributes = {**dict(zip(names, geometry)), **more, **multi_conv_options({}, {}, *options)}
    return one(name, operands, attributes)


def conv(
    t: Tensor,
    weight: Tensor,
    stride: Optional[Tuple[int]] = (1, 1),
    padding: Optional[Tuple[int]] = (0, 0, 0, 0),
    dilation: Optional[Tuple[int]] = (1, 1),
    groups: Optional[int] = 1,
    pad_type: Optional[PadType] = "not_set",
    available_memory_proportions: Optional[List[float]] = None,
    partials_types: Optional[List[str]] = None,
    enable_conv_dithering: Optional[List[int]] = None,
) -> Tensor:
    """Convolution over 1 to 3 spatial dimensions, as ONNX defines it.

    Args:
        t: Samples, channels, then the spatial dimensions.
        weight: Output channels, channels of a group, then the window.
        stride: Distance of windows on each spatial dimension.
        padding: Zeros before each spatial dimension, then after each.
        dilation: Distance of the elements of a window.
        groups: Groups of channels that do not mix.
        pad_type: "not_set": as `padding` says; "same_upper" or "same_lower": so that the sizes stay, divided
            by the stride; "valid": none.
        available_memory_proportions: Accepted for compatibility; it has no effect.
        partials_types: Accepted for compatibility; sums are float32 at least.
        enable_conv_dithering: Accepted for compatibility; it has no effect.

    Returns:
        Samples, output channels, then the spatial dimensions.

    Raises:
        ValueError: The pad type is unknown.
        popart_exception: The shapes do not fit.
    """
    return _convolution(
        "conv",
        (t, weight),
        (stride, padding, dilation, groups, pad_type),
        (available_memory_proportions, partials_types, enable_conv_dithering),
    )


def conv_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Optional[Tuple[int]] = (1, 1),
    padding: Optional[Tuple[int]] = (0, 0, 0, 0),
    dilation: Optional[Tuple[int]] = (1, 1),
    groups: Optional[int] = 1,
    pad_type: Optional[PadType] = "not_set",
    available_memory_proportions: Optional[List[float]] = None,
    enable_conv_dithering: Optional[List[int]] = None,
) -> Tensor:
    """Convolution of float8 tensors, times 2**log2_scale.

    Args:
        t: As for `conv`, float8.
        weight: As for `conv`, float8.
        log2_scale: An int32 scalar, in [-32, 32) when the program runs.
        stride: As for `conv`.
        padding: As for `conv`.
        dilation: As for `conv`.
        groups: As for `conv`.
        pad_type: As for `conv`.
        available_memory_proportions: As for `conv`.
        enable_conv_dithering: As for `conv`.

    Returns:
        As for `conv`, float16.

    Raises:
        TypeError: An operand is not float8, or `log2_scale` is not int32.
        ValueError: `log2_scale` is no scalar, or as for `conv`.
    """
    check_float8_operands(t, weight, log2_scale)
    return _convolution(
        "conv",
        (t, weight, log2_scale),
        (stride, padding, dilation, groups, pad_type),
        (available_memory_proportions, ["half"], enable_conv_dithering),
    )


def conv_transpose(
    t: Tensor,
    weight: Tensor,
    stride: Optional[Tuple[int]] = (1, 1),
    padding: Optional[Tuple[int]] = (0, 0, 0, 0),
    dilation: Optional[Tuple[int]] = (1, 1),
    groups: Optional[int] = 1,
    pad_type: Optional[PadType] = "not_set",
    output_padding: Optional[Tuple[int]] = (),
    output_shape: Optional[Tuple[int]] = (),
    available_memory_proportions: Optional[List[float]] = None,
    partials_types: Optional[List[str]] = None,
    enable_conv_dithering: Optional[List[int]] = None,
) -> Tensor:
    """Transposed convolution over 1 to 3 spatial dimensions, as ONNX defines it.

    Args:
        t: Samples, channels, then the spatial dimensions.
        weight: Channels, output channels of a group, then the window.
        stride: Distance of windows on each spatial dimension of the result.
        padding: What is cut off before each spatial dimension of the result, then after each.
        dilation: Distance of the elements of a window.
        groups: Groups of channels that do not mix.
        pad_type: As for `conv`.
        output_padding: Added at the end of each spatial dimension of the result.
        output_shape: Spatial sizes of the result; the padding is then found from them.
        available_memory_proportions: As for `conv`.
        partials_types: As for `conv`.
        enable_conv_dithering: As for `conv`.

    Returns:
        Samples, output channels, then the spatial dimensions.

    Raises:
        ValueError: The pad type is unknown.
        popart_exception: The shapes do not fit.
    """
    return _convolution(
        "conv_transpose",
        (t, weight),
        (stride, padding, dilation, groups, pad_type),
        (available_memory_proportions, partials_types, enable_conv_dithering),
        output_padding=output_padding,
        output_shape=output_shape,
    )


def conv_transpose_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Optional[Tuple[int]] = (1, 1),
    padding: Optional[Tuple[int]] = (0, 0, 0, 0),
    dilation: Optional[Tuple[int]] = (1, 1),
    groups: Optional[int] = 1,
    pad_type: Optional[PadType] = "not_set",
    output_padding: Optional[Tuple[int]] = (),
    output_shape: Optional[Tuple[int]] = (),
    available_memory_proportions: Optional[List[float]] = None,
    enable_conv_dithering: Optional[List[int]] = None,
) -> Tensor:
    """Transposed convolution of float8 tensors, times 2**log2_scale.

    Args:
        t: As for `conv_transpose`, float8.
        weight: As for `conv_transpose`, float8.
        log2_scale: An int32 scalar, in [-32, 32) when the program runs.
        stride: As for `conv_transpose`.
        padding: As for `conv_transpose`.
        dilation: As for `conv_transpose`.
        groups: As for `conv_transpose`.
        pad_type: As for `conv_transpose`.
        output_padding: As for `conv_transpose`.
        output_shape: As for `conv_transpose`.
        available_memory_proportions: As for `conv_transpose`.
        enable_conv_dithering: As for `conv_transpose`.

    Returns:
        As for `conv_transpose`, float16.

    Raises:
        TypeError: An operand is not float8, or `log2_scale` is not int32.
        ValueError: `log2_scale` is no scalar, or as for `conv_transpose`.
    """
    check_float8_operands(t, weight, log2_scale)
    return _convolution(
        "conv_transpose",
        (t, weight, log2_scale),
        (stride, padding, dilation, groups, pad_type),
        (available_memory_proportions, ["half"], enable_conv_dithering),
        output_padding=output_padding,
        output_shape=output_shape,
    )
