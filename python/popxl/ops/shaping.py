"""Ops that give elements another place: reshape, transpose, slice, concat, split."""

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from popxl.ops._build import expect, many, one
from popxl.ops.utils import handle_negative_axis
from popxl.tensor import Tensor

_Range = Optional[Union[int, List[Optional[int]]]]

#: Ends of a slice that take everything.
INT_MIN = -(2**31)
INT_MAX = 2**31 - 1


def _check_shape(shape: Tuple[int, ...]) -> None:
    if any(size < -1 or size == 0 for size in shape):
        raise ValueError(
            f"Invalid shape value in reshape: {shape}. A size is positive, or -1 for the one to find."
        )
    if shape.count(-1) > 1:
        raise ValueError(f"Reshape shape can contain at most one '-1' value: {shape}.")


def reshape_handle_negative_axis(t: Tensor, shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """A shape with the one unknown size found.

    Args:
        t: The tensor to be reshaped.
        shape: The shape, with one -1 at most.

    Returns:
        The shape of as many elements as `t` has.
    """
    known = 1
    for size in shape:
        known *= abs(size)
    return tuple(t.nelms // known if size < 0 else size for size in shape)


def reshape(t: Tensor, shape: Tuple[int, ...]) -> Tensor:
    """The elements in row-major order in another shape.

    Args:
        t: A tensor.
        shape: The shape; one size may be -1 and is then found from the others.

    Returns:
        A tensor of that shape.

    Raises:
        ValueError: A size is 0 or less than -1, or more than one is -1.
        popart_exception: The shape has another number of elements.
    """
    shape = tuple(shape)
    _check_shape(shape)
    return one("reshape", (t,), {"shape": shape}, False, (f"{t.name}_reshaped",))


def reshape_(t: Tensor, shape: Tuple[int, ...]) -> Tensor:
    """Like `reshape`; the result is the memory of `t`, not a copy.

    Args:
        t: A tensor.
        shape: The shape; one size may be -1 and is then found from the others.

    Returns:
        A tensor of that shape.

    Raises:
        ValueError: A size is 0 or less than -1, or more than one is -1.
        popart_exception: The shape has another number of elements.
    """
    shape = tuple(shape)
    _check_shape(shape)
    return one("reshape", (t,), {"shape": shape}, True, (f"{t.name}_reshaped",))


def flatten(t: Tensor) -> Tensor:
    """The elements in row-major order in one dimension.

    Args:
        t: A tensor.

    Returns:
        A tensor of one dimension.
    """
    return reshape(t, (-1,))


def flatten_(t: Tensor) -> Tensor:
    """Like `flatten`; the result is the memory of `t`, not a copy.

    Args:
        t: A tensor.

    Returns:
        A tensor of one dimension.
    """
    return reshape_(t, (-1,))


def squeeze(t: Tensor, axes: Optional[Union[int, List[int]]] = None) -> Tensor:
    """The tensor without dimensions of size 1.

    Args:
        t: A tensor.
        axes: The dimension or dimensions to leave out; by default all of size 1.

    Returns:
        A tensor with the same elements.

    Raises:
        ValueError: An axis is given twice, does not exist or is not of size 1.
    """
    shape = t.shape
    if axes is None:
        return reshape(t, tuple(size for size in shape if size != 1))
    given = [axes] if isinstance(axes, int) else list(axes)
    dropped = [handle_negative_axis(t, axis) for axis in given]
    if len(set(dropped)) < len(dropped):
        raise ValueError(f"Axes contains duplicates: {given}.")
    for axis in dropped:
        if not 0 <= axis < len(shape):
            raise ValueError(f"Axis {axis} can't be squeezed: tensor {t.id} has {len(shape)} dimensions.")
        if shape[axis] != 1:
            raise ValueError(
                f"Axis {axis} can't be squeezed: tensor {t.id} has size {shape[axis]} there, not 1."
            )
    return reshape(t, tuple(size for axis, size in enumerate(shape) if axis not in dropped))


def _permutation(t: Tensor, permutation: Optional[Iterable[int]]) -> Tuple[int, ...]:
    rank = t.rank
    if permutation is None:
        return tuple(reversed(range(rank)))
    order = tuple(permutation)
    beyond = tuple(axis for axis in order if axis >= rank)
    if beyond:
        raise ValueError(
            f"Values in permutation must be less than the number of dimensions. Tensor {t.id} has rank "
            f"{rank}, "
            f"the permutation has {beyond}."
        )
    return order


def transpose(t: Tensor, permutation: Optional[Tuple[int, ...]] = None) -> Tensor:
    """The dimensions in another order.

    Args:
        t: A tensor.
        permutation: For each dimension of the result, the one that it is of `t`; by default they are
            reversed.

    Returns:
        The permuted tensor.

    Raises:
        ValueError: The permutation is none of the dimensions of `t`.
    """
    return one("transpose", (t,), {"permutation": _permutation(t, permutation)}, False, (f"{t.name}_T",))


def transpose_(t: Tensor, permutation: Optional[Tuple[int, ...]] = None) -> Tensor:
    """Like `transpose`; the result is the memory of `t`, not a copy.

    Args:
        t: A tensor.
        permutation: For each dimension of the result, the one that it is of `t`; by default they are
            reversed.

    Returns:
        The permuted tensor.

    Raises:
        ValueError: The permutation is none of the dimensions of `t`.
    """
    return one("transpose", (t,), {"permutation": _permutation(t, permutation)}, True, (f"{t.name}_T",))


def process_args(
    start: _Range = None,
    stop: _Range = None,
    step: _Range = None,
    axis: Optional[Union[int, List[int]]] = None,
) -> Tuple[List[int], List[int], List[int], List[int]]:
    """Completes the arguments of `slice`.

    Args:
        start: As for `slice`.
        stop: As for `slice`.
        step: As for `slice`.
        axis: As for `slice`.

    Returns:
        All four as lists of one length, without None.

    Raises:
        ValueError: The lengths differ.
    """
    given = {"start": start, "stop": stop, "step": step, "axis": axis}
    lists: Dict[str, List[Any]] = {
        name: [value] if isinstance(value, int) else list(value)
        for name, value in given.items()
        if value is not None
    }
    lengths = {name: len(value) for name, value in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The arguments of a slice must have one length; they have {lengths}.")
    count = next(iter(lengths.values()), 0)
    steps = [1 if s is None else s for s in lists.get("step", [None] * count)]
    starts = lists.get("start", [None] * count)
    stops = lists.get("stop", [None] * count)
    return (
        [(0 if by > 0 else -1) if s is None else s for s, by in zip(starts, steps)],
        [(INT_MAX if by > 0 else INT_MIN) if s is None else s for s, by in zip(stops, steps)],
        steps,
        lists.get("axis", list(range(count))),
    )


def _slice(t: Tensor, ranges: Tuple[_Range, _Range, _Range, Any], inplace: bool) -> Tensor:
    if all(part is None for part in ranges[:3]):
        return t
    start, stop, step, axis = process_args(*ranges)
    attributes = {"start": start, "stop": stop, "step": step, "axis": axis}
    return one("slice", (t,), attributes, inplace)


def slice(
    t: Tensor,
    start: _Range = None,
    stop: _Range = None,
    step: _Range = None,
    axis: Optional[Union[int, List[int]]] = None,
) -> Tensor:
    """A range of elements on one or more axes.

    `slice(t, 1, 3)` is `t[1:3]`, `slice(t, [1, 2], [4, 6])` is `t[1:4, 2:6]`.

    Args:
        t: A tensor.
        start: First element on each sliced axis; None is the first, or the last for a negative step.
        stop: End of the range on each sliced axis, not part of it; None goes to the end.
        step: 1 or, to run backwards, -1 for each sliced axis; None is 1.
        axis: The sliced axes; by default the first ones.

    Returns:
        The part, or `t` itself where start, stop and step are not given.

    Raises:
        ValueError: The arguments have different lengths.

    Examples:
        >>> t = popxl.constant(np.arange(6.0).reshape(2, 3))
        >>> run(ops.slice(t, 1, 3, axis=1)).tolist()
        [[1.0, 2.0], [4.0, 5.0]]
    """
    return _slice(t, (start, stop, step, axis), False)


def slice_(
    t: Tensor,
    start: _Range = None,
    stop: _Range = None,
    step: _Range = None,
    axis: Optional[Union[int, List[int]]] = None,
) -> Tensor:
    """Like `slice`; the result is part of the memory of `t`, not a copy.

    Args:
        t: A tensor.
        start: As for `slice`.
        stop: As for `slice`.
        step: As for `slice`.
        axis: As for `slice`.

    Returns:
        The part, or `t` itself where start, stop and step are not given.

    Raises:
        ValueError: The arguments have different lengths.
    """
    return _slice(t, (start, stop, step, axis), True)


def subsample(t: Tensor, strides: Union[int, Iterable[int]]) -> Tensor:
    """Every n-th element of each dimension.

    Args:
        t: A tensor.
        strides: The n of each dimension; 1 for those left out at the end.

    Returns:
        The elements taken.

    Raises:
        ValueError: There are more strides than dimensions.
        popart_exception: A stride is not positive.
    """
    steps = [strides] if isinstance(strides, int) else list(strides)
    if len(steps) > t.rank:
        raise ValueError(f"{len(steps)} strides are given; tensor {t.id} has {t.rank} dimensions.")
    return one("subsample", (t,), {"strides": steps + [1] * (t.rank - len(steps))})


def _concat(ts: Iterable[Tensor], axis: int, inplace: bool) -> Tensor:
    if isinstance(ts, Tensor):
        raise TypeError(f"`ts` must be a list of tensors, not one tensor, {ts.id}.")
    tensors = list(ts)
    for t in tensors:
        expect(t, Tensor, "ts")
    types = [t.dtype for t in tensors]
    if len(set(types)) > 1:
        raise TypeError(
            f"All inputs to a concat operation must have the same type: {types}. Cast them first."
        )
    return one("concat", tensors, {"axis": axis}, inplace)


def concat(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Tensors one after another on an axis.

    Args:
        ts: One or more tensors that differ at most on the axis.
        axis: The axis; negative counts from the last.

    Returns:
        The joint tensor.

    Raises:
        TypeError: The dtypes differ.
        popart_exception: The shapes differ beside the axis.
    """
    return _concat(ts, axis, False)


def concat_(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Like `concat`; the result counts as the memory of the tensors.

    Args:
        ts: One or more tensors that differ at most on the axis.
        axis: The axis; negative counts from the last.

    Returns:
        The joint tensor.

    Raises:
        TypeError: The dtypes differ.
        popart_exception: The shapes differ beside the axis.
    """
    return _concat(ts, axis, True)


def split(t: Tensor, splits: Union[int, List[int]], axis: int = 0) -> List[Tensor]:
    """Consecutive pieces of a tensor on an axis.

    Args:
        t: A tensor.
        splits: Number of pieces of one size, or the size of each.
        axis: The axis; negative counts from the last.

    Returns:
        The pieces.

    Raises:
        ValueError: The number does not divide the size of the axis.
        popart_exception: The sizes do not add up to that of the axis.
    """
    axis = handle_negative_axis(t, axis)
    sizes: Sequence[int]
    if isinstance(splits, int):
        size = t.shape[axis]
        if splits < 1 or size % splits != 0:
            raise ValueError(
                f"Axis {axis} of tensor {t.id} has size {size}, which can't be split into {splits} equal "
                f"pieces."
            )
        sizes = [size // splits] * splits
    else:
        sizes = list(splits)
    names = [f"{t.name}_split_{i}" for i in range(len(sizes))]
    return list(many("split", (t,), {"splits": sizes, "axis": axis}, False, names))


def identity(t: Tensor, output_name: Optional[str] = None) -> Tensor:
    """The same values under another name.

    Args:
        t: A tensor.
        output_name: Name of the result; by default it is made from that of `t`.

    Returns:
        The renamed tensor.
    """
    return one("identity", (t,), names=(output_name or f"identity_{t.name}",))


rename = identity
