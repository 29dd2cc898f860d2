"""Conversions of data on the host."""

from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np

from popxl import dtypes
from popxl.fp8_utils import _as_array, host_pow2scale_cast_to_fp8

if TYPE_CHECKING:
    from popart.device import DeviceInfo
    from popxl.tensor import HostScalarTensor, Variable

#: What 64-bit data becomes when no dtype is asked for.
downcast_np_dtypes = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}
_FLOAT8 = (dtypes.float8_143, dtypes.float8_152)
_MEMMAP = "When passing a memory-mapped NumPy array, "


def to_numpy(
    x: "HostScalarTensor",
    dtype: Optional[dtypes.dtype] = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> np.ndarray:
    """Makes a C-contiguous array of data on the host.

    Args:
        x: A number, nested lists, an array or a PyTorch tensor.
        dtype: Element type of the result; by default that of the data.
        downcast: Without `dtype`, 64-bit data becomes 32-bit.
        copy: Whether the result must not share memory with `x`. If False it is `x`'s own memory where that is
            possible; for a `np.memmap` it must be possible, and the result is `x` itself.
        log2_scale: For float8 only: the data is multiplied by 2**log2_scale first.
        nan_on_overflow: For float8 only: what is too large becomes NaN (default) instead of the largest
            number.

    Returns:
        The array; float8 is a structured dtype (`popxl.dtypes.np_dtype_float8_143`).

    Raises:
        ValueError: A `np.memmap` would have to be copied.
        TypeError: Data for float8 is not of a float type, or `dtype` is none of `popxl.dtypes`.
        RuntimeError: `log2_scale` or `nan_on_overflow` is given and `dtype` is not float8.
    """
    if isinstance(x, np.memmap):
        _check_memmap(x, dtype)
        return np.array(x) if copy else x
    if dtype is not None:
        dtypes._check_dtype(dtype)
    if dtype in _FLOAT8:
        return _to_float8(x, dtype, copy, log2_scale, nan_on_overflow)
    if log2_scale is not None or nan_on_overflow is not None:
        raise RuntimeError(
            f"log2_scale and nan_on_overflow are for float8 dtypes only; the dtype is {dtype}."
        )
    array = _as_array(x)
    wanted = array.dtype if dtype is None else dtype.as_numpy()
    if dtype is None and downcast:
        wanted = downcast_np_dtypes.get(wanted, wanted)
    if not copy:
        return np.asarray(array, dtype=wanted, order="C")
    if array.size > 1 and not any(array.strides) and not any(array.flat[0].tobytes()):
        return np.zeros(array.shape, wanted)  # takes no memory until it is written
    return np.array(array, dtype=wanted, order="C")


def _check_memmap(x: np.memmap, dtype: Optional[dtypes.dtype]) -> None:
    if dtype is not None and dtype.as_numpy() != x.dtype:
        raise ValueError(
            _MEMMAP
            + f"the `dtype` parameter must be None or the same as the array's: {x.dtype}, not {dtype}."
        )
    if not (x.flags.c_contiguous and x.flags.aligned):
        raise ValueError(
            _MEMMAP + "it must already be in C-ordered and aligned form, because it is not copied."
        )
    if x.dtype in downcast_np_dtypes:
        raise ValueError(
            _MEMMAP + f"the dtype {dtype} is not supported, as it requires downcasting {x.dtype} into a copy."
        )


def _to_float8(
    x: Any, dtype: dtypes.dtype, copy: bool, log2_scale: Optional[int], nan_on_overflow: Optional[bool]
) -> np.ndarray:
    array = np.asarray(_as_array(x), order="C")
    if array.dtype == dtype.as_numpy():
        return array.copy() if copy else array
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"Data of type {array.dtype} can't become {dtype}; use float16, float32 or float64.")
    overflow = True if nan_on_overflow is None else nan_on_overflow
    return host_pow2scale_cast_to_fp8(array, dtype, log2_scale or 0, overflow)


def _popxl_to_numpy(t: "Variable") -> np.ndarray:
    """The host's copy of a variable or constant: an array over the same memory; the user's own array for a
    memmap."""
    memmap = t.ir._memmaps.get(t._pb_tensor)
    if memmap is not None:
        return memmap
    shape = t.shape
    groups = t._pb_tensor.num_groups
    return t._pb_tensor.data().view(t.dtype.as_numpy()).reshape(shape if groups == 1 else (groups, *shape))


def _to_device_info(device_type: str, num_ipus: int = 1, use_popdist: bool = False) -> "DeviceInfo":
    """The device of a kind.

    Args:
        device_type: "cpu", "ipu_model" or "ipu_hw".
        num_ipus: Number of devices.
        use_popdist: Not used: every instance has its own device.

    Raises:
        ValueError: There is no such kind, or it can't have as many devices.
    """
    from popart.device import DeviceInfo

    if device_type not in ("cpu", "ipu_model", "ipu_hw"):
        raise ValueError(f"A device is one of `ipu_hw`, `ipu_model` and `cpu`, not {device_type!r}.")
    return DeviceInfo(device_type, num_ipus)


def table_to_string(rows: Sequence[Sequence[Any]], delimiter: str = " | ", header: bool = True) -> str:
    """Lays out rows as a table.

    Args:
        rows: The rows, all of one length; the values are converted with `str`.
        delimiter: Put between columns.
        header: Whether to underline the first row.

    Returns:
        One line a row, each ended by a newline.
    """
    cells = [[str(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [delimiter.join(cell.ljust(width) for cell, width in zip(row, widths)) for row in cells]
    if header and len(lines) > 1:
        lines.insert(1, "-" * (len(lines[0]) + 1))
    return "".join(line + "\n" for line in lines)
