"""Arrays that the host passes to a run of a session."""

from typing import Any, NamedTuple, Tuple

import numpy as np

from popxl import dtypes
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import HostScalarTensor
from popxl.utils import to_numpy

FLOAT8 = (dtypes.float8_143, dtypes.float8_152)


class Port(NamedTuple):
    """A stream that a compiled program uses, and the array that a run takes for it."""

    stream: Any
    tensor_id: str
    dtype: np.dtype
    shape: Tuple[int, ...]
    transfers: int

    def fits(self, array: Any) -> bool:
        """Whether the array can be used as it is, without any conversion."""
        return type(array) is np.ndarray and array.dtype == self.dtype and array.shape == self.shape


def to_input(stream: Any, data: HostScalarTensor, downcast: bool) -> np.ndarray:
    """The data of an input as an array of the stream's dtype."""
    if not isinstance(stream, HostToDeviceStream):
        return np.asarray(data)  # reported with the other streams that are not expected
    wanted = stream.dtype.as_numpy()
    if stream.dtype in FLOAT8:
        array = np.asarray(data) if not isinstance(data, np.ndarray) else data
        if array.dtype not in (wanted, np.uint8):
            raise TypeError(
                f"The data for stream {stream.tensor_id} must be {stream.dtype}, not {array.dtype}; "
                "convert it with "
                "popxl.fp8_utils.host_pow2scale_cast_to_fp8."
            )
        return array.view(wanted)
    array = data if isinstance(data, np.memmap) else to_numpy(data, downcast=downcast, copy=False)
    if array.dtype == wanted or converts(data, array, wanted):
        return array.astype(wanted, copy=False)
    raise TypeError(f"The data for stream {stream.tensor_id} must be {stream.dtype}, not {array.dtype}.")


def converts(data: HostScalarTensor, array: np.ndarray, wanted: np.dtype) -> bool:
    """Whether an input may be converted: to a dtype of its kind, or where no value changes."""
    if array.dtype.kind != "b" and np.can_cast(array.dtype, wanted, "same_kind"):
        return True
    literal = not isinstance(data, np.ndarray) and not hasattr(data, "detach")
    if array.dtype.kind not in ("biuf" if literal else "biu") or wanted.kind not in (
        "biuf" if literal else "biu"
    ):
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.array_equal(array.astype(wanted).astype(array.dtype), array))


def check_output(stream: DeviceToHostStream, array: Any) -> None:
    """Raises unless the array can be filled from the stream."""
    wanted = stream.dtype.as_numpy()
    if array.dtype != wanted and not (stream.dtype in FLOAT8 and array.dtype == np.uint8):
        raise TypeError(f"The array for stream {stream.tensor_id} must be {wanted}, not {array.dtype}.")
    if not array.flags.writeable:
        raise ValueError(f"The array for stream {stream.tensor_id} is read-only and can't be filled.")
