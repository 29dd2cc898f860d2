# Written by popxl-gen from the op table; edit src/ops instead.
"""Ops whose Python function needs nothing but the op table."""
from typing import Iterable, Optional, Tuple

from popxl import dtypes
from popxl.dtypes import dtype
from popxl.ops._build import Axis, axes_of, many, one
from popxl.tensor import Tensor

__all__ = ["ceil", "floor", "sign", "abs", "negate", "sqrt", "sin", "cos", "exp", "exp_", "log", "tanh",
           "relu", "relu_", "gelu", "gelu_", "geluerf", "geluerf_", "swish", "swish_", "clip", "isnan",
           "isinf", "increment_mod", "increment_mod_", "add", "add_", "sub", "mul", "div", "fmod", "maximum",
           "equal", "greater", "sum", "mean", "sumsquare", "l1", "l2", "logsum", "logsumexp", "max", "min",
           "prod", "detach", "detach_", "average_pool", "max_pool", "interpolate", "roi_align",
           "batch_norm_inference", "softmax", "nll_loss", "gather", "tied_gather", "groupedgather", "scatter",
           "dynamic_slice", "dynamic_update", "dynamic_update_", "onehot", "argmax", "argmin", "topk",
           "histogram", "random_normal", "random_uniform", "dropout", "shaped_dropout", "lamb_square"]


def ceil(t: Tensor) -> Tensor:
    """Smallest integer that is not less than the element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("ceil", (t,))


def floor(t: Tensor) -> Tensor:
    """Largest integer that is not greater than the element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("floor", (t,))


def sign(t: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of the element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("sign", (t,))


def abs(t: Tensor) -> Tensor:
    """Absolute value of every element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("abs", (t,))


def negate(t: Tensor) -> Tensor:
    """Every element with the opposite sign.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("negate", (t,))


def sqrt(t: Tensor) -> Tensor:
    """Square root of every element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("sqrt", (t,))


def sin(t: Tensor) -> Tensor:
    """Sine of every element, in radians.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("sin", (t,))


def cos(t: Tensor) -> Tensor:
    """Cosine of every element, in radians.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("cos", (t,))


def exp(t: Tensor) -> Tensor:
    """e to the power of every element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("exp", (t,))


def exp_(t: Tensor) -> Tensor:
    """e to the power of every element. The result takes over the memory of `t`.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("exp", (t,), inplace=True)


def log(t: Tensor) -> Tensor:
    """Natural logarithm of every element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("log", (t,))


def tanh(t: Tensor) -> Tensor:
    """Hyperbolic tangent of every element.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("tanh", (t,))


def relu(t: Tensor) -> Tensor:
    """The element where it is positive, else 0.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("relu", (t,))


def relu_(t: Tensor) -> Tensor:
    """The element where it is positive, else 0. The result takes over the memory of `t`.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("relu", (t,), inplace=True)


def gelu(t: Tensor) -> Tensor:
    """Gaussian error linear unit in its tanh form, x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3))).

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("gelu", (t,))


def gelu_(t: Tensor) -> Tensor:
    """Gaussian error linear unit in its tanh form, x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3))). The result
    takes over the memory of `t`.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("gelu", (t,), inplace=True)


def geluerf(t: Tensor) -> Tensor:
    """Gaussian error linear unit in its exact form, x/2 (1 + erf(x / sqrt(2))).

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("geluerf", (t,))


def geluerf_(t: Tensor) -> Tensor:
    """Gaussian error linear unit in its exact form, x/2 (1 + erf(x / sqrt(2))). The result takes over the
    memory of `t`.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("geluerf", (t,), inplace=True)


def swish(t: Tensor) -> Tensor:
    """x times the logistic function of x.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("swish", (t,))


def swish_(t: Tensor) -> Tensor:
    """x times the logistic function of x. The result takes over the memory of `t`.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("swish", (t,), inplace=True)


def clip(t: Tensor, min: float = float("-inf"), max: float = float("inf")) -> Tensor:
    """Every element moved to the nearest one of the range [min, max].

    Args:
        t: A tensor (floats, ints).
        min: Lower end of the range.
        max: Upper end of the range.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("clip", (t,), {"min": min, "max": max})


def isnan(t: Tensor) -> Tensor:
    """Whether an element is not a number.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A bool tensor of the shape of `t`.
    """
    return one("isnan", (t,))


def isinf(t: Tensor) -> Tensor:
    """Whether an element is infinite.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A bool tensor of the shape of `t`.
    """
    return one("isinf", (t,))


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Remainder of (element + increment) divided by the modulus.

    Args:
        t: A tensor (floats, ints).
        increment: What is added.
        modulus: The divisor.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("increment_mod", (t,), {"increment": increment, "modulus": modulus})


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Remainder of (element + increment) divided by the modulus. The result takes over the memory of `t`.

    Args:
        t: A tensor (floats, ints).
        increment: What is added.
        modulus: The divisor.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("increment_mod", (t,), {"increment": increment, "modulus": modulus}, True)


def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Sum of two tensors with NumPy broadcasting.

    Args:
        lhs: A tensor (floats, ints).
        rhs: A tensor (floats, ints).

    Returns:
        A tensor of the shapes broadcast, of the operands' dtype.
    """
    return one("add", (lhs, rhs))


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Sum of two tensors with NumPy broadcasting. The result takes over the memory of `lhs`.

    Args:
        lhs: A tensor (floats, ints).
        rhs: A tensor (floats, ints).

    Returns:
        A tensor of the shapes broadcast, of the operands' dtype.
    """
    return one("add", (lhs, rhs), inplace=True)


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Difference of two tensors with NumPy broadcasting.

    Args:
        lhs: A tensor (floats, ints).
        rhs: A tensor (floats, ints).

    Returns:
        A tensor of the shapes broadcast, of the operands' dtype.
    """
    return one("sub", (lhs, rhs))


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Product of two tensors with NumPy broadcasting.

    Args:
        lhs: A tensor (floats, ints).
        rhs: A tensor (floats, ints).

    Returns:
        A tensor of the shapes broadcast, of the operands' dtype.
    """
    return one("mul", (lhs, rhs))


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Quotient of two tensors with NumPy broadcasting; of integers it is truncated.

    Args:
        lhs: A tensor (floats, ints).
        rhs: A tensor (floats, ints).

    Returns:
        A tensor of the shapes broadcast, of the operands' dtype.
    """
    return one("div", (lhs, rhs))


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Remainder of a truncated division with NumPy broadcasting; it has the sign of `lhs`.

    Args:
        lhs: A tensor (floats, ints).
        rhs: A tensor (floats, ints).

    Returns:
        A tensor of the shapes broadcast, of the operands' dtype.
    """
    return one("fmod", (lhs, rhs))


def maximum(*ts: Tensor) -> Tensor:
    """Largest of the elements of several tensors with NumPy broadcasting.

    Args:
        ts: A tensor (floats, ints). One or more tensors.

    Returns:
        A tensor of the shapes broadcast, of the operands' dtype.
    """
    return one("maximum", (*ts,))


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Whether two elements are equal, with NumPy broadcasting.

    Args:
        lhs: A tensor (floats, ints, bool).
        rhs: A tensor (floats, ints, bool).

    Returns:
        A bool tensor of the shapes broadcast.
    """
    return one("equal", (lhs, rhs))


def greater(input: Tensor, other: Tensor) -> Tensor:
    """Whether `input` is greater than `other`, with NumPy broadcasting.

    Args:
        input: A tensor (floats, ints, bool).
        other: A tensor (floats, ints, bool).

    Returns:
        A bool tensor of the shapes broadcast.
    """
    return one("greater", (input, other))


def sum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("sum", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def mean(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("mean", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def sumsquare(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of squares over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("sumsquare", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def l1(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of absolute values over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("l1", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def l2(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Square root of the sum of squares over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("l2", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def logsum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("logsum", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def logsumexp(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials over axes.

    Args:
        t: A tensor (floats).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("logsumexp", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def max(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("max", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def min(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("min", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def prod(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Product over axes.

    Args:
        t: A tensor (floats, ints).
        axis: Axes to reduce; negative counts from the last, empty reduces all.
        keepdims: Whether reduced axes stay with size 1.

    Returns:
        The reduced tensor, of the dtype of `t`.
    """
    return one("prod", (t,), {"axes": axes_of(axis), "keepdims": keepdims})


def detach(t: Tensor) -> Tensor:
    """The same values, through which no gradient passes.

    Args:
        t: A tensor (any).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("detach", (t,))


def detach_(t: Tensor) -> Tensor:
    """The same values, through which no gradient passes. The result is the memory of `t`, not a copy.

    Args:
        t: A tensor (any).

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("detach", (t,), inplace=True)


def average_pool(t: Tensor, kernel_size: Iterable[int], stride: Optional[Iterable[int]] = None,
                 padding: Optional[Iterable[int]] = None, out_pads: Optional[Iterable[int]] = None,
                 dilation: Optional[Iterable[int]] = None, in_dilations: Optional[Iterable[int]] = None,
                 auto_pad: str = "not_set", ceil_mode: bool = False) -> Tensor:
    """Mean of the elements of each window; padding is not counted.

    Args:
        t: A tensor (floats). Samples, channels, then 1 to 3 spatial dimensions.
        kernel_size: Size of the window.
        stride: Distance of windows on each spatial dimension; absent: 1.
        padding: Positions before each spatial dimension, then after each; absent: none.
        out_pads: Only 0 is supported.
        dilation: Distance of the elements of a window; absent: 1.
        in_dilations: Only 1 is supported.
        auto_pad: "not_set": as `padding` says; "same_upper", "same_lower", "valid".
        ceil_mode: Whether a last window may hang over the end.

    Returns:
        Samples, channels, then the number of windows on each spatial dimension; of the dtype of `t`.
    """
    return one("average_pool", (t,),
               {"kernel_size": kernel_size, "stride": stride, "padding": padding, "out_pads": out_pads, "dilation": dilation, "in_dilations": in_dilations, "auto_pad": auto_pad, "ceil_mode": ceil_mode})


def max_pool(t: Tensor, kernel_size: Iterable[int], stride: Optional[Iterable[int]] = None,
             padding: Optional[Iterable[int]] = None, out_pads: Optional[Iterable[int]] = None,
             dilation: Optional[Iterable[int]] = None, in_dilations: Optional[Iterable[int]] = None,
             auto_pad: str = "not_set", ceil_mode: bool = False, storage_order: str = "row") -> Tensor:
    """Largest element of each window.

    Args:
        t: A tensor (floats, ints). Samples, channels, then 1 to 3 spatial dimensions.
        kernel_size: Size of the window.
        stride: Distance of windows on each spatial dimension; absent: 1.
        padding: Positions before each spatial dimension, then after each; absent: none.
        out_pads: Only 0 is supported.
        dilation: Distance of the elements of a window; absent: 1.
        in_dilations: Only 1 is supported.
        auto_pad: "not_set": as `padding` says; "same_upper", "same_lower", "valid".
        ceil_mode: Whether a last window may hang over the end.
        storage_order: Kept for compatibility; has no effect.

    Returns:
        Samples, channels, then the number of windows on each spatial dimension; of the dtype of `t`.
    """
    return one("max_pool", (t,),
               {"kernel_size": kernel_size, "stride": stride, "padding": padding, "out_pads": out_pads, "dilation": dilation, "in_dilations": in_dilations, "auto_pad": auto_pad, "ceil_mode": ceil_mode, "storage_order": storage_order})


def interpolate(t: Tensor, scale_factor: Iterable[float] = (1.0, 1.0, 1.0, 1.0), mode: str = "nearest",
                nearest_mode: str = "round_prefer_floor",
                coordinate_transformation_mode: str = "half_pixel") -> Tensor:
    """A tensor resized by interpolation, as ONNX Resize: sizes are scaled and rounded down.

    Args:
        t: A tensor (floats, ints). Floating point unless `mode` is "nearest".
        scale_factor: Size of the result by that of the operand on each dimension.
        mode: "nearest", "linear" or "cubic".
        nearest_mode: Which element is the nearest: "round_prefer_floor", "round_prefer_ceil", "floor" or
            "ceil".
        coordinate_transformation_mode: Where an element of the result lies: "half_pixel",
            "pytorch_half_pixel", "align_corners", "asymmetric" or "tf_crop_and_resize".

    Returns:
        The resized tensor, of the dtype of `t`.
    """
    return one("interpolate", (t,),
               {"scale_factor": scale_factor, "mode": mode, "nearest_mode": nearest_mode, "coordinate_transformation_mode": coordinate_transformation_mode})


def roi_align(t: Tensor, rois: Tensor, batch_index: Tensor, output_size: Iterable[int], spatial_scale: float,
              sampling_ratio: int) -> Tensor:
    """Regions of images, each as the means of bilinear samples in a fixed number of bins.

    Args:
        t: A tensor (floats). Images, channels, rows, columns.
        rois: A tensor (floats). X1, y1, x2, y2 of each region.
        batch_index: A tensor (ints). The image of each region; one that does not exist is all 0.
        output_size: Rows and columns of bins.
        spatial_scale: Elements of `t` per unit of the coordinates.
        sampling_ratio: Sample points in each direction of a bin.

    Returns:
        Regions, channels, rows of bins, columns of bins; of the dtype of `t`.
    """
    return one("roi_align", (t, rois, batch_index),
               {"output_size": output_size, "spatial_scale": spatial_scale, "sampling_ratio": sampling_ratio})


def batch_norm_inference(t: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor,
                         epsilon: float = 1e-05, momentum: float = 0.9) -> Tensor:
    """Normalises each channel by a given mean and variance, then scales and shifts it.

    Args:
        t: A tensor (floats). Samples, channels, then any dimensions.
        scale: A tensor (floats). Scale of each channel.
        bias: A tensor (floats). Shift of each channel.
        mean: A tensor (floats). Mean of each channel.
        var: A tensor (floats). Variance of each channel.
        epsilon: Added to the variance.
        momentum: Kept for compatibility; has no effect.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("batch_norm_inference", (t, scale, bias, mean, var),
               {"epsilon": epsilon, "momentum": momentum})


def softmax(t: Tensor, axis: int) -> Tensor:
    """Exponentials of an axis divided by their sum.

    Args:
        t: A tensor (floats).
        axis: The axis; negative counts from the last.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("softmax", (t,), {"axis": axis})


def nll_loss(probs: Tensor, labels: Tensor, ignore_index: Optional[int] = None, reduction: str = "mean",
             log_prob: bool = False) -> Tensor:
    """Negative log likelihood of labels under probabilities.

    Args:
        probs: A tensor (floats). Probabilities, the classes in the last dimension.
        labels: A tensor (floats, ints). The true class of each row.
        ignore_index: Rows with this label do not count.
        reduction: "mean", "sum" or "none".
        log_prob: Whether `probs` are logarithms.

    Returns:
        A scalar, or with reduction "none" a loss for each row; of the dtype of `probs`.
    """
    return one("nll_loss", (probs, labels),
               {"ignore_index": ignore_index, "reduction": reduction, "log_prob": log_prob})


def gather(t: Tensor, indices: Tensor, axis: int = 0, available_memory_proportion: Optional[float] = None,
           zero_OOR: bool = False) -> Tensor:
    """Slices of an axis picked by indices, as numpy.take.

    Args:
        t: A tensor (any).
        indices: A tensor (ints). Indices into the axis, of any shape.
        axis: The axis; negative counts from the last.
        available_memory_proportion: Kept for compatibility; has no effect.
        zero_OOR: Whether an index out of range gives zeros; otherwise it is moved to the nearest valid one.

    Returns:
        The shape of `t` with that of `indices` in place of the axis; the dtype of `t`.
    """
    return one("gather", (t, indices),
               {"axis": axis, "available_memory_proportion": available_memory_proportion, "zero_OOR": zero_OOR})


def tied_gather(t: Tensor, indices: Tensor, axis: int = 0,
                available_memory_proportion: Optional[float] = None, zero_OOR: bool = False) -> Tensor:
    """Slices of an axis picked by indices, for a table that a matrix product uses too.

    Args:
        t: A tensor (any).
        indices: A tensor (ints). Indices into the axis, of any shape.
        axis: The axis; negative counts from the last.
        available_memory_proportion: Kept for compatibility; has no effect.
        zero_OOR: Whether an index out of range gives zeros; otherwise it is moved to the nearest valid one.

    Returns:
        The shape of `t` with that of `indices` in place of the axis; the dtype of `t`.
    """
    return one("tied_gather", (t, indices),
               {"axis": axis, "available_memory_proportion": available_memory_proportion, "zero_OOR": zero_OOR})


def groupedgather(t: Tensor, indices: Tensor, axis: int = 0, group_size: int = 1,
                  available_memory_proportion: Optional[float] = None, zero_OOR: bool = False) -> Tensor:
    """Slices of an axis picked by indices, in groups.

    Args:
        t: A tensor (any).
        indices: A tensor (ints). Indices into the axis, of any shape.
        axis: The axis; negative counts from the last.
        group_size: Size of the first dimension of both operands, each entry of which is gathered on its own;
            1: they have no such dimension.
        available_memory_proportion: Kept for compatibility; has no effect.
        zero_OOR: Whether an index out of range gives zeros; otherwise it is moved to the nearest valid one.

    Returns:
        As for `gather`, behind the dimension of groups if there is one.
    """
    return one("groupedgather", (t, indices),
               {"axis": axis, "group_size": group_size, "available_memory_proportion": available_memory_proportion, "zero_OOR": zero_OOR})


def scatter(t: Tensor, indices: Tensor, values: Tensor, axis: int = 0,
            available_memory_proportion: Optional[float] = None) -> Tensor:
    """A tensor with elements replaced at places on an axis; of several for one place the last counts.

    Args:
        t: A tensor (any).
        indices: A tensor (ints). For every element of `values` its place on the axis; negative counts from
            the end.
        values: A tensor (any). The elements; their other coordinates are those that they have.
        axis: The axis; negative counts from the last.
        available_memory_proportion: Kept for compatibility; has no effect.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("scatter", (t, indices, values),
               {"axis": axis, "available_memory_proportion": available_memory_proportion})


def dynamic_slice(t: Tensor, index: Tensor, axes: Iterable[int], sizes: Iterable[int],
                  no_overlap: bool) -> Tensor:
    """A window of a tensor at a place that is read at run time.

    Args:
        t: A tensor (any).
        index: A tensor (ints). First element of the window on each of the axes.
        axes: The axes on which the window is placed.
        sizes: Its size on each of them.
        no_overlap: Kept for compatibility; has no effect.

    Returns:
        The window: the shape of `t` with `sizes` on the axes; the dtype of `t`.
    """
    return one("dynamic_slice", (t, index), {"axes": axes, "sizes": sizes, "no_overlap": no_overlap})


def dynamic_update(t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int],
                   no_overlap: bool) -> Tensor:
    """A tensor with a window replaced at a place that is read at run time.

    Args:
        t: A tensor (any).
        index: A tensor (ints). First element of the window on each of the axes.
        t_update: A tensor (any). The new content of the window.
        axes: The axes on which the window is placed.
        sizes: Its size on each of them.
        no_overlap: Kept for compatibility; has no effect.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("dynamic_update", (t, index, t_update),
               {"axes": axes, "sizes": sizes, "no_overlap": no_overlap})


def dynamic_update_(t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int],
                    no_overlap: bool) -> Tensor:
    """A tensor with a window replaced at a place that is read at run time. The result takes over the memory
    of `t`.

    Args:
        t: A tensor (any).
        index: A tensor (ints). First element of the window on each of the axes.
        t_update: A tensor (any). The new content of the window.
        axes: The axes on which the window is placed.
        sizes: Its size on each of them.
        no_overlap: Kept for compatibility; has no effect.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("dynamic_update", (t, index, t_update),
               {"axes": axes, "sizes": sizes, "no_overlap": no_overlap}, True)


def onehot(t: Tensor, num_classes: Tensor, values: Tensor, axis: int) -> Tensor:
    """A new axis of classes with one value at the index and another one elsewhere.

    Args:
        t: A tensor (ints). The class of each position.
        num_classes: A tensor (ints). Number of classes, a constant.
        values: A tensor (any). Two elements: the value elsewhere and the value at the index.
        axis: Where the new axis is in the result; negative counts from the last.

    Returns:
        The shape of `t` with the new axis; the dtype of `values`.
    """
    return one("onehot", (t, num_classes, values), {"axis": axis})


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Index of the first largest element of an axis.

    Args:
        t: A tensor (floats, ints).
        dim: The axis; negative counts from the last.
        keepdim: Whether the axis stays with size 1.

    Returns:
        int32 indices, without the axis or with size 1 on it.
    """
    return one("argmax", (t,), {"dim": dim, "keepdim": keepdim})


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element of an axis.

    Args:
        t: A tensor (floats, ints).
        dim: The axis; negative counts from the last.
        keepdim: Whether the axis stays with size 1.

    Returns:
        int32 indices, without the axis or with size 1 on it.
    """
    return one("argmin", (t,), {"dim": dim, "keepdim": keepdim})


def topk(t: Tensor, k: int, axis: int, largest: bool, sorted: bool,
         available_memory_proportion: Optional[float] = None) -> Tuple[Tensor, ...]:
    """The largest or smallest elements of an axis, best first, and where they are.

    Args:
        t: A tensor (floats, ints).
        k: How many.
        axis: The axis; negative counts from the last.
        largest: Whether the largest are taken, or the smallest.
        sorted: Kept for compatibility; the result is sorted in any case.
        available_memory_proportion: Kept for compatibility; has no effect.

    Returns:
        The results. `values`: The elements, `k` on the axis, of the dtype of `t`. `indices`: int32 positions
            on the axis.
    """
    return many("topk", (t,),
                {"k": k, "axis": axis, "largest": largest, "sorted": sorted, "available_memory_proportion": available_memory_proportion})


def histogram(t: Tensor, levels: Iterable[float], absolute_of_input: bool) -> Tensor:
    """Number of elements in each of several intervals, of which the last includes its end.

    Args:
        t: A tensor (floats, ints).
        levels: Bounds of the intervals, increasing.
        absolute_of_input: Whether absolute values are counted.

    Returns:
        uint32 counts, one for each interval.
    """
    return one("histogram", (t,), {"levels": levels, "absolute_of_input": absolute_of_input})


def random_normal(seed_tensor: Tensor, shape: Iterable[int], mean: float = 0.0, std: float = 1.0,
                  dtype: dtype = dtypes.float32) -> Tensor:
    """Random numbers of a normal distribution.

    Args:
        seed_tensor: A tensor (uint32). Two numbers that decide all elements.
        shape: Shape of the result.
        mean: Mean.
        std: Standard deviation.
        dtype: Dtype of the result.

    Returns:
        A tensor of that shape and dtype.
    """
    return one("random_normal", (seed_tensor,), {"shape": shape, "mean": mean, "std": std, "dtype": dtype})


def random_uniform(seed_tensor: Tensor, shape: Iterable[int], low: float = 0.0, high: float = 1.0,
                   dtype: dtype = dtypes.float32) -> Tensor:
    """Random numbers of a uniform distribution on [low, high).

    Args:
        seed_tensor: A tensor (uint32). Two numbers that decide all elements.
        shape: Shape of the result.
        low: Lower end.
        high: Upper end.
        dtype: Dtype of the result.

    Returns:
        A tensor of that shape and dtype.
    """
    return one("random_uniform", (seed_tensor,), {"shape": shape, "low": low, "high": high, "dtype": dtype})


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Sets elements to 0 at random and scales the others by 1 / (1 - p).

    Args:
        t: A tensor (floats, ints).
        seed_tensor: A tensor (uint32). Two numbers that decide which elements are kept.
        p: Probability of 0.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("dropout", (t, seed_tensor), {"p": p})


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    """Sets parts of a tensor to 0 at random and scales the others by 1 / (1 - ratio).

    Args:
        t: A tensor (floats, ints).
        seed_tensor: A tensor (uint32). Two numbers that decide which parts are kept.
        shape: Shape that broadcasts to that of `t`: each element decides a part.
        ratio: Probability of 0.

    Returns:
        A tensor of the shape and dtype of `t`.
    """
    return one("shaped_dropout", (t, seed_tensor), {"shape": shape, "ratio": ratio})


def lamb_square(t: Tensor) -> Tensor:
    """Sum of the squares of all elements, in float32.

    Args:
        t: A tensor (floats, ints).

    Returns:
        A float32 scalar.
    """
    return one("lamb_square", (t,))
