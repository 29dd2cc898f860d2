"""Float8 data on the host: conversions, and the choice of a scale."""

import math
import sys
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np

from popxl import _core
from popxl.dtypes import (
    dtype as dtype_,
    float8_143,
    float8_152,
    float16,
    float32,
    float64,
    np_dtype_float8_143,
    np_dtype_float8_152,
)

#: Scales that float8 data can have are 2**min_scaling_bias to 2**max_scaling_bias.
max_scaling_bias = 31
min_scaling_bias = -31


class FpDef(NamedTuple):
    """A floating-point format."""

    num_exp_bits: int  #: Bits of the exponent.
    num_mantissa_bits: int  #: Bits of the mantissa.
    fix_exponent_bias: int  #: What is subtracted from the stored exponent.
    include_denorm: bool  #: Whether denormals count.
    has_nans: bool  #: Whether the largest exponent is kept for infinity and NaN.


ieee_fp32_no_denorms = FpDef(8, 23, 127, False, True)
ieee_fp16_denorms = FpDef(5, 10, 15, True, True)
float8_143_def = FpDef(4, 3, 8, True, False)
float8_152_def = FpDef(5, 2, 16, True, False)

_FORMATS = {float8_143: float8_143_def, float8_152: float8_152_def}
_VALUES = {}  # decoded values by format, made on first use


def _as_array(src: Any) -> np.ndarray:
    """An array of a PyTorch tensor, an array, a number or nested lists. PyTorch is never imported for it."""
    if src is None:
        raise TypeError("Data is expected: a number, nested lists, an array or a PyTorch tensor, not None.")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(src, torch.Tensor):
        return src.detach().cpu().numpy()
    return np.asarray(src)


def find_exponential_range(fp_def: FpDef) -> Tuple[int, int]:
    """The powers of two that a format has.

    Args:
        fp_def: The format.

    Returns:
        Exponents of its smallest and its largest power of two.
    """
    smallest = 1 - fp_def.fix_exponent_bias
    if fp_def.include_denorm:
        smallest -= fp_def.num_mantissa_bits
    largest = 2**fp_def.num_exp_bits - 1 - int(fp_def.has_nans) - fp_def.fix_exponent_bias
    return smallest, largest


def log_histogram(src: np.ndarray, ftype: FpDef) -> Tuple[np.ndarray, List[float]]:
    """Counts values by their power of two.

    Args:
        src: The values.
        ftype: Format whose powers of two are used.

    Returns:
        Counts and limits: count 0 is of values below limits[0], count i of values in [limits[i-1], 2 *
        limits[i-1]), the last of all from the last limit on.
    """
    smallest, largest = find_exponential_range(ftype)
    limits = [2.0**exponent for exponent in range(smallest, largest)]
    magnitude = np.abs(np.asarray(src, dtype=np.float64).reshape(-1))
    magnitude = magnitude[~np.isnan(magnitude)]
    exponents = np.frexp(magnitude)[1].astype(np.int64) - smallest
    exponents[magnitude < limits[0]] = 0
    exponents[magnitude >= limits[-1]] = len(limits)
    return np.bincount(exponents, minlength=len(limits) + 1).astype(np.float64), limits


class CandidateConfig:
    """A float8 format as a target for data of another format: what it covers at each scale."""

    def __init__(self, format: dtype_, src_ftype: FpDef, dest_ftype: FpDef, src_type: Any) -> None:
        """Describes the target.

        Args:
            format: The float8 dtype.
            src_ftype: Format whose powers of two the histogram counts.
            dest_ftype: The float8 format.
            src_type: NumPy dtype of the data.
        """
        self.format = format
        self.exponent_size = dest_ftype.num_exp_bits
        self.mantissa_size = dest_ftype.num_mantissa_bits
        self.fix_exponent_bias = dest_ftype.fix_exponent_bias
        source = ieee_fp32_no_denorms if src_type == np.float32 else ieee_fp16_denorms
        self.quantisation_error = 2.0 ** (-2.0 * (source.num_mantissa_bits - dest_ftype.num_mantissa_bits))
        src_smallest, src_largest = find_exponential_range(src_ftype)
        smallest, largest = find_exponential_range(dest_ftype)
        self.format_span = largest - smallest + 1
        self.min_src_exp_index = max(0, smallest + min_scaling_bias - src_smallest)
        self.max_src_exp_index = min(smallest + max_scaling_bias, src_largest) - src_smallest
        self.num_exp_src = self.max_src_exp_index - self.min_src_exp_index + 1


def calculate_metric_mse(
    histogram: np.ndarray,
    limits: List[float],
    src_bias_starting_indices: np.ndarray,
    candidate: CandidateConfig,
) -> Tuple[float, int]:
    """The scaling bias with the least mean square error.

    Args:
        histogram: Shares of values as `log_histogram` counts them.
        limits: Its limits.
        src_bias_starting_indices: For each bias from `min_scaling_bias` up, the first limit that the format
            covers.
        candidate: The format.

    Returns:
        Error and bias; of several equally good ones the middle one.
    """
    span, noise = candidate.format_span, candidate.quantisation_error
    shares = [(i, power, share) for i, (power, share) in enumerate(zip(limits, histogram[1:])) if share != 0]

    def error_from(start: int) -> float:
        end = min(start + span, len(limits))
        # Exact sums: the terms differ by many orders of magnitude, and equally good scales must give equal
        # errors.
        return math.fsum(
            share
            * (power**2 if i < start else power**2 * noise if i < end else (power - limits[end - 1]) ** 2)
            for i, power, share in shares
        )

    errors = [error_from(int(start)) for start in src_bias_starting_indices]
    lowest = min(errors)
    best = [i for i, error in enumerate(errors) if error == lowest]
    return lowest, best[len(best) // 2] + min_scaling_bias


def calculate_candidate_metric(
    hist_norm: np.ndarray, limits: List[float], candidate: CandidateConfig, metric_type: Optional[str] = None
) -> Tuple[float, int]:
    """The best scaling bias of a format.

    Args:
        hist_norm: Shares of values as `log_histogram` counts them.
        limits: Its limits.
        candidate: The format.
        metric_type: "MSE".

    Returns:
        Error and bias.

    Raises:
        RuntimeError: The metric is another one.
    """
    if metric_type != "MSE":
        raise RuntimeError(f'The metric must be "MSE", not {metric_type!r}.')
    starts = np.arange(candidate.min_src_exp_index, candidate.min_src_exp_index + candidate.num_exp_src)
    return calculate_metric_mse(hist_norm, limits, starts, candidate)


def host_fp8_mse_scale(src: np.ndarray, dtype: Optional[dtype_] = None) -> Tuple[float, int]:
    """Chooses the scale with which data loses least as float8: `cast(src * 2**scale, dtype)`.

    Args:
        src: float16 or float32 data; an array or a PyTorch tensor.
        dtype: popxl.float8_143 or popxl.float8_152.

    Returns:
        The mean square error that is expected, and the scale, an integer in [-31, 31].

    Raises:
        RuntimeError: The data or the target has another dtype, or there are no numbers in it.
    """
    array = _as_array(src)
    _check_float8(dtype)
    if array.dtype not in (np.float16, np.float32):
        raise RuntimeError(f"The scale of data of type {array.dtype} can't be found; use float16 or float32.")
    histogram, limits = log_histogram(array, ieee_fp32_no_denorms)
    count = histogram.sum()
    if count == 0:
        raise RuntimeError("There is no number in the data to find a scale for.")
    candidate = CandidateConfig(dtype, ieee_fp32_no_denorms, _FORMATS[dtype], array.dtype)
    error, bias = calculate_candidate_metric(histogram / count, limits, candidate, "MSE")
    return error, -bias


def host_fp8_mse_scale_pb(src: np.ndarray, dtype: Optional[dtype_] = None) -> int:
    """The scale that `host_fp8_mse_scale` chooses, without the error.

    Args:
        src: float16 or float32 data.
        dtype: popxl.float8_143 or popxl.float8_152.

    Raises:
        RuntimeError: As for `host_fp8_mse_scale`.
    """
    return host_fp8_mse_scale(src, dtype)[1]


def _check_float8(dtype: Optional[dtype_]) -> None:
    if dtype not in _FORMATS:
        raise RuntimeError(f"The dtype must be popxl.float8_143 or popxl.float8_152, not {dtype}.")


def host_pow2scale_cast_to_fp8(
    src: np.ndarray, dtype: Optional[dtype_] = None, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray:
    """Converts data to float8: `cast(src * 2**log2_scale, dtype)`, rounded once, to nearest even.

    Args:
        src: float16, float32 or float64 data; an array, a PyTorch tensor, a number or nested lists.
        dtype: popxl.float8_143 or popxl.float8_152.
        log2_scale: An integer in [-32, 32).
        nan_on_overflow: What is too large becomes NaN, else the largest number; infinity becomes NaN in any
            case.

    Returns:
        An array of the data's shape with the structured dtype of the format.

    Raises:
        RuntimeError: The data or the target has another dtype.
    """
    array = _as_array(src)
    _check_float8(dtype)
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise RuntimeError(
            f"Data of type {array.dtype} can't become {dtype}; use float16, float32 or float64."
        )
    flat = np.ascontiguousarray(array, dtype=np.float64).reshape(-1)
    encoded = _core.to_float8(flat, dtype, log2_scale, nan_on_overflow)
    return encoded.view(dtype.as_numpy()).reshape(array.shape)


def host_pow2scale_cast_from_fp8(
    src: np.ndarray, dtype: Optional[dtype_] = None, log2_scale: int = 0
) -> np.ndarray:
    """Converts float8 data: `cast(src, dtype) * 2**log2_scale`.

    Args:
        src: An array with the structured dtype of a float8 format.
        dtype: popxl.float16, popxl.float32 or popxl.float64.
        log2_scale: An integer in [-32, 32).

    Returns:
        An array of the data's shape.

    Raises:
        RuntimeError: The data is not float8, or the target has another dtype.
    """
    if src.dtype not in (np_dtype_float8_143, np_dtype_float8_152):
        raise RuntimeError(
            f"Data of type {src.dtype} is not float8: it needs one of the structured dtypes of popxl.dtypes."
        )
    if dtype not in (float16, float32, float64):
        raise RuntimeError(f"The dtype must be popxl.float16, popxl.float32 or popxl.float64, not {dtype}.")
    values = _VALUES.get(src.dtype)
    if values is None:
        values = _VALUES[src.dtype] = np.array(
            _core.float8_values(dtype_.as_dtype(src.dtype)), dtype=np.float64
        )
    bits = np.ascontiguousarray(src).view(np.uint8).reshape(src.shape)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(values[bits], log2_scale)).astype(dtype.as_numpy())
