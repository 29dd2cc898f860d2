"""Streams between the host and the device."""

from typing import Any, Iterable, Optional, Tuple

from popxl import _core
from popxl.context import _check_name, gmg
from popxl.dtypes import _check_dtype, _check_shape, dtype as dtype_
from popxl.tensor import Tensor, TensorSpec


class Stream:
    """A stream of tensors of one shape and dtype between host and device."""

    __slots__ = ("_stream_tensor",)

    def __init__(self) -> None:
        """Raises NotImplementedError: streams are made with `h2d_stream` and `d2h_stream`."""
        raise NotImplementedError(
            "Cannot construct a popxl.Stream directly; use `popxl.h2d_stream` or `popxl.d2h_stream`."
        )

    @classmethod
    def _from_tensor(cls, tensor: Tensor) -> "Stream":
        self = object.__new__(cls)
        self._stream_tensor = tensor
        return self

    @property
    def dtype(self) -> dtype_:
        """Element type of its tensors."""
        return self._stream_tensor.dtype

    @property
    def shape(self) -> Tuple[int, ...]:
        """Shape of its tensors."""
        return self._stream_tensor.shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype of its tensors."""
        return self._stream_tensor.spec

    @property
    def tensor_id(self) -> str:
        """Identifier of the stream."""
        return self._stream_tensor.id

    def __hash__(self) -> int:
        return hash(self._stream_tensor)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Stream) and self._stream_tensor == other._stream_tensor

    def __str__(self) -> str:
        return f"{type(self).__name__} {self._stream_tensor}"

    __repr__ = __str__


class HostToDeviceStream(Stream):
    """A stream from the host, read with `ops.host_load` in any graph; each load takes the next tensor."""

    __slots__ = ()

    def __str__(self) -> str:
        return super().__str__()


class DeviceToHostStream(Stream):
    """A stream to the host, written with `ops.host_store` in any graph; each store fills the next tensor."""

    __slots__ = ()

    def __str__(self) -> str:
        return super().__str__()


def _make(shape: Iterable[int], dtype: dtype_, name: str, direction: Any) -> Tensor:
    unique = _core.scoped_name(_check_name(name, "stream"))
    made = gmg().ir._pb_ir.add_stream(unique, _check_shape(shape), _check_dtype(dtype), direction)
    return Tensor._from_pb_tensor(made)


def h2d_stream(shape: Iterable[int], dtype: dtype_, name: Optional[str] = None) -> HostToDeviceStream:
    """Makes a stream from the host to the device.

    Args:
        shape: Shape of its tensors.
        dtype: Element type of its tensors.
        name: Name of the stream; made unique.

    Raises:
        TypeError: The shape is no sequence of integers, or the dtype none of `popxl.dtypes`.
        RuntimeError: No graph is entered.
    """
    return HostToDeviceStream._from_tensor(
        _make(shape, dtype, name or "h2d_stream", _core.StreamDirection.HostToDevice)
    )


def d2h_stream(shape: Iterable[int], dtype: dtype_, name: Optional[str] = None) -> DeviceToHostStream:
    """Makes a stream from the device to the host.

    Args:
        shape: Shape of its tensors.
        dtype: Element type of its tensors.
        name: Name of the stream; made unique.

    Raises:
        TypeError: The shape is no sequence of integers, or the dtype none of `popxl.dtypes`.
        RuntimeError: No graph is entered.
    """
    return DeviceToHostStream._from_tensor(
        _make(shape, dtype, name or "d2h_stream", _core.StreamDirection.DeviceToHost)
    )
