"""How the functions of this package add ops to the current graph."""

import reprlib
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple, Type, Union

import numpy as np

from popxl import _core
from popxl.tensor import Tensor

_add_op = _core.add_op
_wrap = Tensor._from_pb_tensor
_NO_ATTRIBUTES: Dict[str, Any] = {}

#: Axes of a reduction: one, several, or None for all.
Axis = Optional[Union[int, Iterable[int]]]


def axes_of(axis: Axis) -> Tuple[int, ...]:
    """The axes of a reduction as its op takes them.

    Args:
        axis: The axes as programs give them.

    Returns:
        The axes; none at all for all.
    """
    if axis is None:
        return ()
    return (axis,) if isinstance(axis, int) else tuple(axis)


def one(
    name: str,
    operands: Iterable[Optional[Tensor]],
    attributes: Mapping[str, Any] = _NO_ATTRIBUTES,
    inplace: bool = False,
    names: Iterable[Optional[str]] = (),
) -> Tensor:
    """Adds an op to the current graph.

    Args:
        name: Name of the op in the table.
        operands: Its operands, None for an absent one.
        attributes: Its attributes by name; None for an absent one.
        inplace: Whether to make its in-place variant.
        names: Names of its results, made unique.

    Returns:
        Its first result.
    """
    return _wrap(_add_op(name, operands, attributes, inplace, names)[0])


def many(
    name: str,
    operands: Iterable[Optional[Tensor]],
    attributes: Mapping[str, Any] = _NO_ATTRIBUTES,
    inplace: bool = False,
    names: Iterable[Optional[str]] = (),
) -> Tuple[Tensor, ...]:
    """Like `one`.

    Args:
        name: Name of the op in the table.
        operands: Its operands, None for an absent one.
        attributes: Its attributes by name; None for an absent one.
        inplace: Whether to make its in-place variant.
        names: Names of its results, made unique.

    Returns:
        All its results.
    """
    return tuple(map(_wrap, _add_op(name, operands, attributes, inplace, names)))


def expect(value: Any, kind: Type[Any], name: str) -> None:
    """Checks an argument that no op of the table checks.

    Args:
        value: The argument.
        kind: The class that it has to be of.
        name: The name of the argument, for the message.

    Raises:
        TypeError: It is of another class.
    """
    if not isinstance(value, kind):
        shown = reprlib.repr(value)
        raise TypeError(f"`{name}` must be a popxl.{kind.__name__}; it is {shown} of type {type(value)}.")


def integers(values: Any, name: str) -> Tuple[int, ...]:
    """A list of integers as an op takes it.

    Args:
        values: What a program gave.
        name: The name of the argument, for the message.

    Raises:
        TypeError: It is no sequence of integers.
    """
    sequence = isinstance(values, (list, tuple, np.ndarray))
    if not sequence or any(isinstance(v, bool) or not isinstance(v, (int, np.integer)) for v in values):
        raise TypeError(f"`{name}` must be a sequence of integers; it is {values!r}.")
    return tuple(map(int, values))
