"""Traffic with the host: streams in and out, printing; and new tensors."""

from typing import Iterable, Optional

from popxl import dtypes
from popxl.ops._build import expect, many, one
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Tensor


def init(
    shape: Iterable[int],
    dtype: dtypes.dtype,
    name: Optional[str] = None,
    init_type: str = "zero",
    meta_shape: Optional[Iterable[int]] = None,
) -> Tensor:
    """A new tensor.

    Args:
        shape: Its shape.
        dtype: Its element type.
        name: Its name; made unique.
        init_type: "zero", or "undef" for any content.
        meta_shape: For a shard, shape of the whole.

    Returns:
        The tensor.

    Raises:
        TypeError: The shape is no sequence of integers, or the dtype none of `popxl.dtypes`.
        ValueError: `init_type` is something else.
    """
    attributes = {
        "shape": dtypes._check_shape(shape),
        "dtype": dtypes._check_dtype(dtype),
        "init_type": init_type,
        "meta_shape": tuple(meta_shape) if meta_shape else None,
    }
    return one("init", (), attributes, False, (name,))


def host_load(h2d_stream: HostToDeviceStream, name: Optional[str] = None) -> Tensor:
    """The next value of a stream from the host.

    Args:
        h2d_stream: The stream.
        name: Stem of the result's name; by default that of the stream.

    Returns:
        The value.

    Raises:
        TypeError: `h2d_stream` is no such stream.
        RuntimeError: No graph is entered.
    """
    expect(h2d_stream, HostToDeviceStream, "h2d_stream")
    stem = h2d_stream._stream_tensor.name if name is None else name
    place = init(h2d_stream.shape, h2d_stream.dtype, f"{stem}_init", "undef")
    stream = h2d_stream._stream_tensor.name
    return one("host_load", (place,), {"stream": stream}, False, (f"{stem}_hostload",))


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Hands the value of a tensor to a stream to the host.

    Args:
        d2h_stream: The stream.
        t: A tensor of its shape and dtype.

    Raises:
        ValueError: Shape or dtype differ.
        TypeError: `d2h_stream` is no such stream, or `t` no tensor.
        RuntimeError: No graph is entered.

    Examples:
        >>> source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        >>> ops.host_store(sink, ops.host_load(source) * 2)
        >>> with popxl.Session(ir, "cpu") as session:
        ...     session.run({source: [1, 2]})[sink]
        array([2., 4.], dtype=float32)
    """
    expect(d2h_stream, DeviceToHostStream, "d2h_stream")
    expect(t, Tensor, "t")
    if d2h_stream.dtype != t.dtype or d2h_stream.shape != t.shape:
        raise ValueError(
            f"Stream {d2h_stream.tensor_id} carries {d2h_stream.dtype} of shape {d2h_stream.shape}; tensor "
            f"{t.id} is "
            f"{t.dtype} of shape {t.shape}."
        )
    many("host_store", (t,), {"stream": d2h_stream._stream_tensor.name})


def print_tensor(
    t: Tensor,
    title: Optional[str] = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """Prints a tensor each time that the op runs.

    Args:
        t: A tensor.
        title: Text before the values; by default "print_" and the name of `t`.
        print_self: Whether to print the tensor.
        print_gradient: Whether to print its gradient, with the title and "_gradient".
        summarise_threshold: Number of elements from which the middle of an axis is left out.
        edge_items: How many entries stay at both ends of a shortened axis.
        max_line_width: Characters after which a line is broken.
        digits: Digits after the decimal point.
        float_format: "auto", "fixed", "scientific" or "none".
        separator: One character between two entries.
        open_bracket: One character before the entries of an axis.
        close_bracket: One character after the entries of an axis.

    Returns:
        The same values; use them, so that the op is part of the program's result.

    Raises:
        ValueError: A separator or bracket is not one character, or the format is unknown.
    """
    expect(t, Tensor, "t")
    for what, text in (
        ("separator", separator),
        ("open_bracket", open_bracket),
        ("close_bracket", close_bracket),
    ):
        if len(text) != 1:
            raise ValueError(f"`{what}` must be one character, not {text!r}.")
    if float_format not in FLOAT_FORMAT_MAP:
        raise ValueError(
            f"`float_format` must be one of {', '.join(FLOAT_FORMAT_MAP)}, not {float_format!r}."
        )
    attributes = {
        "title": f"print_{t.name}" if title is None else title,
        "print_self": print_self,
        "print_gradient": print_gradient,
        "summarise_threshold": summarise_threshold,
        "edge_items": edge_items,
        "max_line_width": max_line_width,
        "digits": digits,
        "float_format": float_format,
        "separator": separator,
        "open_bracket": open_bracket,
        "close_bracket": close_bracket,
    }
    return one("print_tensor", (t,), attributes)


#: What the argument `float_format` may be, with the names of the formats.
FLOAT_FORMAT_MAP = {"auto": "Auto", "fixed": "Fixed", "scientific": "Scientific", "none": "None"}
