"""Traffic with remote buffers."""

from typing import Optional, Union

from popxl import dtypes
from popxl.ops._build import expect, many, one
from popxl.ops.host_io import init
from popxl.remote_buffer import RemoteBuffer
from popxl.tensor import Tensor, constant


def _entry(offset: Union[int, Tensor]) -> Tensor:
    if isinstance(offset, Tensor):
        return offset
    made = constant(offset, dtypes.uint32, "offset")
    made._pb_tensor.mark_implicit()
    return made


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
        TypeError: `remote_buffer` is none.
        RuntimeError: No graph is entered.
        ValueError: When the program runs: the buffer has no such entry.
    """
    expect(remote_buffer, RemoteBuffer, "remote_buffer")
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
    expect(remote_buffer, RemoteBuffer, "remote_buffer")
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
    expect(remote_buffer, RemoteBuffer, "remote_buffer")
    expect(t, Tensor, "t")
    remote_buffer.validate_tensor_matches_buffer(t)
    many("remote_store", (t, _entry(offset)), {"remote_buffer": remote_buffer.remote_buffer_id})
