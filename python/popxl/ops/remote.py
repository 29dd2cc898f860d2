"""Traffic with remote buffers."""

from typing import Optional, Union

import numpy as np

from popxl import dtypes
from popxl.context import gcg
from popxl.ops._build import expect, many, one
from popxl.ops.host_io import init
from popxl.remote_buffer import RemoteBuffer
from popxl.tensor import Tensor, constant


def _entry(offset: Union[int, Tensor]) -> Tensor:
    if isinstance(offset, Tensor):
        return offset
    if isinstance(offset, bool) or not isinstance(offset, (int, np.integer)):
        raise TypeError(
            f"`offset` must be an integer or a popxl.Tensor; it is {offset!r} of type {type(offset)}."
        )
    if not 0 <= offset < 2**32:
        raise ValueError(f"`offset` is {offset}; the entries of a remote buffer lie in [0, 2**32).")
    made = constant(offset, dtypes.uint32, "offset")
    made._pb_tensor.mark_implicit()
    return made


def _check_buffer(buffer: RemoteBuffer) -> None:
    expect(buffer, RemoteBuffer, "remote_buffer")
    if buffer._current_ir.id != gcg().ir._pb_ir.id:
        raise ValueError(
            f"Remote buffer {buffer.remote_buffer_id} belongs to another Ir than the current graph."
        )


def remote_load(
    remote_buffer: RemoteBuffer, offset: Union[int, Tensor], name: Optional[str] = None
) -> Tensor:
    """An entry of a remote buffer.

    Nothing but `popxl.in_sequence` orders loads and stores.

    Args:
        remote_buffer: The buffer.
        offset: The entry: a number, or a tensor of one integer that may differ from run to run.
        name: Name of the result.

    Returns:
        The value, of the buffer's `tensor_shape` and `tensor_dtype`.

    Raises:
        TypeError: `remote_buffer` is none, or `offset` neither a tensor nor an integer.
        RuntimeError: No graph is entered.
        ValueError: The buffer belongs to another Ir; when the program runs: it has no such entry.
    """
    _check_buffer(remote_buffer)
    place = init(
        remote_buffer.tensor_shape,
        remote_buffer.tensor_dtype,
        None if name is None else name + "_init",
        "undef",
        remote_buffer.meta_shape,
    )
    attributes = {"remote_buffer": remote_buffer.remote_buffer_id}
    return one("remote_load", (place, _entry(offset)), attributes, False, (name,))


def remote_load_(remote_buffer: RemoteBuffer, offset: Union[int, Tensor], t: Tensor) -> Tensor:
    """Loads an entry of a remote buffer into a tensor.

    Nothing but `popxl.in_sequence` orders loads and stores.

    Args:
        remote_buffer: The buffer.
        offset: As for `remote_load`.
        t: The tensor, which is written.

    Returns:
        `t` with the value of the entry.

    Raises:
        TypeError: `remote_buffer` is none, or `t` no tensor.
        ValueError: Shape or dtype of `t` differ from the buffer's.
    """
    _check_buffer(remote_buffer)
    expect(t, Tensor, "t")
    remote_buffer.validate_tensor_matches_buffer(t)
    attributes = {"remote_buffer": remote_buffer.remote_buffer_id}
    return one("remote_load", (t, _entry(offset)), attributes, True)


def remote_store(remote_buffer: RemoteBuffer, offset: Union[int, Tensor], t: Tensor) -> None:
    """Makes a tensor an entry of a remote buffer.

    Nothing but `popxl.in_sequence` orders loads and stores.

    Args:
        remote_buffer: The buffer.
        offset: As for `remote_load`.
        t: The tensor.

    Raises:
        TypeError: `remote_buffer` is none, or `t` no tensor.
        ValueError: Shape or dtype of `t` differ from the buffer's.
    """
    _check_buffer(remote_buffer)
    expect(t, Tensor, "t")
    remote_buffer.validate_tensor_matches_buffer(t)
    many("remote_store", (t, _entry(offset)), {"remote_buffer": remote_buffer.remote_buffer_id})
