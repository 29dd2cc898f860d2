"""Checks and conversions that functions of this package and programs that add ops have in common."""

from typing import List, Optional, Tuple

from popxl.dtypes import dtype
from popxl.graph import Graph
from popxl.tensor import Tensor

__all__ = [
    "cast_if_needed",
    "check_in_graph",
    "check_tensor_ipu_and_tile_set",
    "convert_optional_dtype",
    "convert_optional_float",
    "convert_optional_int",
    "convert_optional_int64_list",
    "handle_negative_axis",
]


def cast_if_needed(t: Tensor, data_type: dtype) -> Tensor:
    """The tensor in a dtype.

    Args:
        t: A tensor.
        data_type: The dtype.

    Returns:
        `t` itself where it has the dtype, else a cast of it.
    """
    if t.dtype == data_type:
        return t
    from popxl.ops.casting import cast

    converted = cast(t, data_type)
    converted._pb_tensor.mark_implicit()
    return converted


def check_in_graph(graph: Graph, *args: Tensor, **tensors: Tensor) -> None:
    """Checks that tensors belong to a graph.

    Args:
        graph: The graph.
        args: None; the names of keywords are needed for the message.
        tensors: The tensors by the names that the message is to use.

    Raises:
        TypeError: Something is no tensor, or is given without a name.
        ValueError: A tensor is in another graph.
    """
    if args:
        raise TypeError(
            "check_in_graph takes tensors by keyword: the keyword names the tensor in the message."
        )
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"`{name}` must be a popxl.Tensor; it is {tensor!r} of type {type(tensor)}.")
        if tensor not in graph:
            raise ValueError(
                f"`{name}`, tensor {tensor.id}, is not in graph {graph.name or 'main'}; pass it to the graph "
                f"as an input."
            )


def check_tensor_ipu_and_tile_set(*args: Tensor, **tensors: Tensor) -> None:
    """Checks that tensors lie on one IPU and one set of tiles; where that is undefined, anything fits.

    Args:
        args: None; the names of keywords are needed for the message.
        tensors: The tensors by the names that the message is to use.

    Raises:
        TypeError: A tensor is given without a name.
        ValueError: Two tensors lie on different IPUs or tile sets.
    """
    if args:
        raise TypeError(
            "check_tensor_ipu_and_tile_set takes tensors by keyword: it names the tensor in the message."
        )
    ipus: List[Tuple[str, int]] = []
    tile_sets: List[Tuple[str, str]] = []
    for name, tensor in tensors.items():
        ipu, tile_set = tensor._get_ipu_and_tile_set(
            raise_on_undefined_tile_set=False, raise_on_undefined_ipu=False
        )
        if ipu >= 0:
            ipus.append((name, ipu))
        if tile_set != "undefined":
            tile_sets.append((name, tile_set))
    for what, places in (("IPUs", ipus), ("tile sets", tile_sets)):
        for name, place in places[1:]:
            if place != places[0][1]:
                raise ValueError(
                    f"`{places[0][0]}` and `{name}` are on different {what}, {places[0][1]} and {place}; "
                    f"copy one of them "
                    "with `ops.ipu_copy` or `ops.io_tile_copy` first."
                )


def handle_negative_axis(t: Tensor, axis: int) -> int:
    """An axis counted from the first dimension.

    Args:
        t: A tensor.
        axis: One of its axes; a negative one counts from the end.

    Returns:
        The axis, not negative if it was at least minus the rank.
    """
    return axis + t.rank if axis < 0 else axis


def convert_optional_float(v: Optional[float]) -> Optional[float]:
    """A number as the core takes it; None stays None.

    Args:
        v: The number.
    """
    return None if v is None else float(v)


def convert_optional_int(v: Optional[int]) -> Optional[int]:
    """An integer as the core takes it; None stays None.

    Args:
        v: The integer.
    """
    return None if v is None else int(v)


def convert_optional_dtype(dt: Optional[dtype]) -> Optional[dtype]:
    """A dtype as the core takes it; None stays None.

    Args:
        dt: The dtype.
    """
    return dt


def convert_optional_int64_list(l: Optional[List[int]]) -> Optional[List[int]]:  # noqa: E741  (the name is public)
    """Integers as the core takes them; None stays None.

    Args:
        l: The integers.
    """
    return None if l is None else [int(v) for v in l]
