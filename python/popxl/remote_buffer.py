"""Storage off the device."""

from typing import Any, Optional, Tuple

from popxl.context import gcg
from popxl.dtypes import _BY_CODE, _check_dtype, _check_shape, dtype
from popxl.tensor import Tensor


class RemoteBuffer:
    """Storage off the device for tensors of one shape and dtype, addressed by entry."""

    def __init__(self, tensor_shape: Tuple[int, ...], tensor_dtype: dtype, entries: int) -> None:
        """Makes a buffer in the current Ir.

        Args:
            tensor_shape: Shape of the tensors in it.
            tensor_dtype: Element type of the tensors in it.
            entries: How many tensors it holds.

        Raises:
            TypeError: The shape is no sequence of integers, or the dtype none of `popxl.dtypes`.
            ValueError: `entries` is not positive.
            RuntimeError: No graph is entered.
        """
        _check_entries(entries)
        self._current_ir = gcg().ir._pb_ir
        self._meta_shape: Tuple[int, ...] = ()
        self._shards: Optional[int] = None  # in how many a value is kept here, where that is known
        self._remote_buffer_id = self._current_ir.add_remote_buffer(
            _check_shape(tensor_shape), _check_dtype(tensor_dtype), entries
        )

    def set_remote_buffer_info(
        self, tensor_dtype: dtype, tensor_shape: Tuple[int, ...], entries: int
    ) -> None:
        """Changes what the buffer holds.

        Args:
            tensor_dtype: Element type of the tensors in it.
            tensor_shape: Shape of the tensors in it.
            entries: How many tensors it holds.

        Raises:
            ValueError: `entries` is not positive.
        """
        _check_entries(entries)
        self._current_ir.set_remote_buffer(self._remote_buffer_id, tensor_shape, tensor_dtype, entries)

    def validate_tensor_matches_buffer(self, t: Tensor, num_shards: int = 1) -> None:
        """Checks that a tensor can be stored in the buffer.

        Args:
            t: The tensor.
            num_shards: Number of parts that the tensor is stored in; with more than one its shape is compared
                with `meta_shape`.

        Raises:
            ValueError: Shape or dtype differ.
        """
        shape = self.tensor_shape if num_shards == 1 else self._meta_shape
        if t.shape != shape or t.dtype != self.tensor_dtype:
            raise ValueError(
                f"Tensor {t.id} does not match buffer. Remote buffer {self._remote_buffer_id} holds "
                f"{self.tensor_dtype} "
                f"of shape {shape}; the tensor is {t.dtype} of shape {t.shape}."
            )

    @property
    def remote_buffer_id(self) -> int:
        """Number of the buffer in its Ir, from 1 up."""
        return self._remote_buffer_id

    @property
    def tensor_shape(self) -> Tuple[int, ...]:
        """Shape of the tensors in it."""
        return self._current_ir.remote_buffer(self._remote_buffer_id)[0]

    @tensor_shape.setter
    def tensor_shape(self, _: Any) -> None:
        raise AttributeError("can't set attribute 'tensor_shape'")

    @property
    def tensor_dtype(self) -> dtype:
        """Element type of the tensors in it."""
        return _BY_CODE[self._current_ir.remote_buffer(self._remote_buffer_id)[1]]

    @tensor_dtype.setter
    def tensor_dtype(self, _: Any) -> None:
        raise AttributeError("can't set attribute 'tensor_dtype'")

    @property
    def entries(self) -> int:
        """How many tensors it holds. Setting a value that is not positive is a ValueError."""
        return self._current_ir.remote_buffer(self._remote_buffer_id)[2]

    @entries.setter
    def entries(self, _entries: int) -> None:
        self.set_remote_buffer_info(self.tensor_dtype, self.tensor_shape, _entries)

    @property
    def meta_shape(self) -> Tuple[int, ...]:
        """Shape of the whole of what is stored here in shards; () when it is not sharded."""
        return self._meta_shape

    @meta_shape.setter
    def meta_shape(self, shape: Tuple[int, ...]) -> None:
        self._meta_shape = tuple(shape)

    def __hash__(self) -> int:
        return hash((self._current_ir.id, self._remote_buffer_id))

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, RemoteBuffer)
            and self._current_ir.id == other._current_ir.id
            and self._remote_buffer_id == other._remote_buffer_id
        )


def _check_entries(entries: int) -> None:
    if entries < 1:
        raise ValueError(f"Entries must be a non-zero, positive integer. Got {entries}.")


def remote_buffer(tensor_shape: Tuple[int, ...], tensor_dtype: dtype, entries: int = 1) -> RemoteBuffer:
    """Makes a remote buffer in the current Ir.

    Args:
        tensor_shape: Shape of the tensors in it.
        tensor_dtype: Element type of the tensors in it.
        entries: How many tensors it holds.

    Raises:
        TypeError: The shape is no sequence of integers, or the dtype none of `popxl.dtypes`.
        ValueError: `entries` is not positive.
        RuntimeError: No graph is entered.
    """
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
