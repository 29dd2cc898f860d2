"""Tensors of a graph, and how they are made."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Optional, Tuple, Type, Union

import numpy as np

from popxl import _core, _live, dtypes
from popxl.errors import UndefinedValue
from popxl.fp8_utils import _as_array
from popxl.typing_ import NewAliasAnnotation

if TYPE_CHECKING:
    from popxl.ir import Ir
    from popxl.replica_grouping import ReplicaGrouping

#: A number that a tensor is made of.
ScalarType = Union[int, float, bool]
#: Data on the host that a tensor is made of: an array, a PyTorch tensor, or nested lists or tuples of
#: numbers.
HostTensor = Union[np.ndarray, Iterable[Any]]
host_tensor_types: Tuple[type, ...] = (np.ndarray, list, tuple)
HostScalarTensor = Union[HostTensor, ScalarType]
TensorLike = Union["Tensor", HostScalarTensor]

TILE_SET_MAP = {
    _core.TileSet.Compute: "compute",
    _core.TileSet.IO: "io",
    _core.TileSet.Undefined: "undefined",
}


class TensorSpec(Mapping):
    """Shape and dtype of a tensor, to make a graph's inputs from."""

    __slots__ = ("shape", "dtype", "meta_shape")

    def __init__(self, shape: Tuple[int, ...], dtype: dtypes.dtype, meta_shape: Tuple[int, ...] = ()) -> None:
        """Describes a tensor.

        Args:
            shape: Its shape.
            dtype: Its element type.
            meta_shape: For a shard, shape of the whole.

        Raises:
            TypeError: The shape is no sequence of integers, or the dtype none of `popxl.dtypes`.
        """
        self.shape = dtypes._check_shape(shape)
        self.dtype = dtypes._check_dtype(dtype)
        self.meta_shape = dtypes._check_shape(meta_shape or (), "meta_shape")

    def to_dict(self) -> Dict[str, Any]:
        """Keyword arguments for `popxl.graph_input`."""
        return {"shape": self.shape, "dtype": self.dtype, "meta_shape": self.meta_shape}

    def to_tuple(self) -> Tuple[Tuple[int, ...], dtypes.dtype, Tuple[int, ...]]:
        """Shape, dtype and meta shape."""
        return self.shape, self.dtype, self.meta_shape

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __hash__(self) -> int:
        return hash(self.to_tuple())

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype}, meta_shape={self.meta_shape})"


def _holds_integers(value: Any) -> bool:
    array = _as_array(value)
    return array.dtype.kind != "f" or bool(np.all(array == np.trunc(array)))


def _implicit_constant(value: "HostScalarTensor", dtype: Optional[dtypes.dtype] = None) -> "Tensor":
    """A constant for the next op alone: it goes when that op fails."""
    made = constant(value, dtype)
    made._pb_tensor.mark_implicit()
    return made


class Tensor:
    """A value in a graph: the result of an op, an input, a variable or a constant.

    Operators add ops to the current graph; an operand that is no tensor becomes a constant of this tensor's
    dtype.
    """

    # The Ir is held so that it lives as long as any of its tensors.
    __slots__ = ("_pb_tensor", "_ir", "__weakref__")
    _pb_tensor: "_core.Tensor"
    _ir: "Ir"
    _tensor_types: Dict[str, Type["Tensor"]] = {}

    # Without these Python would try the operators of sequences, and NumPy its own, on a tensor.
    __iter__ = None
    __contains__ = None
    __array_ufunc__ = None

    def __init__(self) -> None:
        """Raises RuntimeError: tensors are results of ops or made with `popxl.variable`, `popxl.constant`,
        ..."""
        raise RuntimeError(
            f"popxl.{type(self).__name__} cannot be constructed directly; use popxl.variable or "
            "popxl.constant."
        )

    def __init_subclass__(cls, tensor_type: Optional[str] = None, **kwargs: Any) -> None:
        """Registers a class for tensors of a kind.

        Args:
            tensor_type: "Variable" or "Const".
            kwargs: Passed on.
        """
        super().__init_subclass__(**kwargs)
        if tensor_type is not None:
            Tensor._tensor_types[tensor_type] = cls

    @staticmethod
    def _from_pb_tensor(pb_tensor: "_core.Tensor") -> "Tensor":
        self = object.__new__(_CLASS_OF_KIND[pb_tensor.kind])
        self._pb_tensor = pb_tensor
        self._ir = _live.irs[pb_tensor.ir_id]
        return self

    @property
    def id(self) -> str:
        """Name with the graph's name in front, unique in the Ir: "layer_subgraph(0)/x"."""
        return self._pb_tensor.id

    @property
    def name(self) -> str:
        """Name within the graph: "x"."""
        return self._pb_tensor.name

    @property
    def scope(self) -> str:
        """Name of the graph; empty for the main graph."""
        return self._pb_tensor.getGraph().id

    @property
    def dtype(self) -> dtypes.dtype:
        """Element type."""
        return dtypes._BY_CODE[self._pb_tensor.dtype_code]

    @property
    def shape(self) -> Tuple[int, ...]:
        """Size of each dimension."""
        return self._pb_tensor.shape

    @property
    def meta_shape(self) -> Tuple[int, ...]:
        """For a shard, shape of the whole; otherwise ()."""
        return self._pb_tensor.meta_shape

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and meta shape."""
        return TensorSpec(self.shape, self.dtype, self.meta_shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self._pb_tensor.rank

    @property
    def nelms(self) -> int:
        """Number of elements."""
        return self._pb_tensor.nelms

    @property
    def location_info(self) -> Any:
        """Where the tensor is stored: a `TensorLocation`."""
        from popxl.tensorlocation import ReplicatedTensorSharding, TensorLocation, TensorStorage

        remote = self._ir._remote_locations.get(self._pb_tensor)
        if remote is None:
            return TensorLocation()
        sharding = ReplicatedTensorSharding.On if remote[2] else ReplicatedTensorSharding.Off
        return TensorLocation(TensorStorage.OffChip, sharding)

    def strides(self, shape: Optional[Iterable[int]] = None) -> Tuple[int, ...]:
        """Distance in bytes between neighbours in each dimension, of the tensor laid out row by row.

        Args:
            shape: Shape to lay out instead of the tensor's.
        """
        step = self.dtype.as_numpy().itemsize
        out = []
        for size in reversed(self.shape if shape is None else tuple(shape)):
            out.append(step)
            step *= size
        return tuple(reversed(out))

    @property
    def T(self) -> "Tensor":
        """The tensor with its dimensions in reverse order."""
        return self.transpose()

    @property
    def T_(self) -> "Tensor":
        """The tensor with its dimensions in reverse order, in the same memory."""
        return self.transpose_()

    @property
    def ipu(self) -> int:
        """The IPU that holds the tensor.

        Raises:
            UndefinedValue: Nothing has determined it: no op makes the tensor and none reads it.
        """
        ipu = _placement(self._pb_tensor)[0]
        if ipu < 0:
            raise UndefinedValue(
                f"The IPU of tensor {self.id} is undefined: no op makes it and none uses it."
            )
        return ipu

    @property
    def tile_set(self) -> str:
        """The tiles that hold the tensor: "compute" or "io".

        Raises:
            UndefinedValue: Nothing has determined it.
        """
        tile_set = _placement(self._pb_tensor)[1]
        if tile_set == "undefined":
            raise UndefinedValue(
                f"The tile set of tensor {self.id} is undefined: no op makes it and none uses it."
            )
        return tile_set

    def _get_ipu_and_tile_set(
        self, raise_on_undefined_tile_set: bool = True, raise_on_undefined_ipu: bool = True
    ) -> Tuple[int, str]:
        ipu, tile_set = _placement(self._pb_tensor)
        if raise_on_undefined_tile_set and tile_set == "undefined":
            raise UndefinedValue(f"The tile set of tensor {self.id} is undefined.")
        if raise_on_undefined_ipu and ipu < 0:
            raise UndefinedValue(f"The IPU of tensor {self.id} is undefined.")
        return ipu, tile_set

    @property
    def ir(self) -> "Ir":
        """The Ir that the tensor belongs to."""
        return self._ir

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy of a variable is what a session last used. A tensor that is no variable
        always is."""
        return not any(session._host_is_behind for session in self._ir._sessions)

    def transpose(self, permutation: Optional[Iterable[int]] = None) -> "Tensor":
        """The tensor with its dimensions permuted: `ops.transpose`.

        Args:
            permutation: For each dimension of the result the dimension of this tensor; reversed by default.
        """
        return _ops.transpose(self, permutation)

    def transpose_(self, permutation: Optional[Iterable[int]] = None) -> "Tensor":
        """Like `transpose`, in the same memory."""
        return _ops.transpose_(self, permutation)

    def reshape(self, shape: Iterable[int]) -> "Tensor":
        """The tensor in another shape: `ops.reshape`.

        Args:
            shape: The shape; one dimension may be -1, to be found from the others.
        """
        return _ops.reshape(self, shape)

    def reshape_(self, shape: Iterable[int]) -> "Tensor":
        """Like `reshape`, in the same memory."""
        return _ops.reshape_(self, shape)

    def flatten(self) -> "Tensor":
        """The tensor in one dimension: `ops.flatten`."""
        return _ops.flatten(self)

    def flatten_(self) -> "Tensor":
        """Like `flatten`, in the same memory."""
        return _ops.flatten_(self)

    def detach(self) -> "Tensor":
        """The tensor, through which no gradient flows: `ops.detach`."""
        return _ops.detach(self)

    def detach_(self) -> "Tensor":
        """Like `detach`, in the same memory."""
        return _ops.detach_(self)

    def diag(self) -> "Tensor":
        """The diagonal of a matrix.

        Raises:
            ValueError: The tensor is no matrix.
        """
        if self.rank != 2:
            raise ValueError(
                f"The diagonal of tensor {self.id} of shape {self.shape} was asked for; it needs 2 "
                "dimensions."
            )
        return self.flatten()[:: self.shape[1] + 1]

    def copy_to_ipu(self, destination: int, source: Optional[int] = None) -> "Tensor":
        """A copy on another IPU: `ops.ipu_copy`.

        Args:
            destination: The IPU to copy to.
            source: The IPU to copy from; by default that of the op that makes the tensor.
        """
        return _ops.ipu_copy(self, destination, source)

    def _ensure_tensor(
        self, value: TensorLike, dtype: Optional[dtypes.dtype] = None, raise_on_empty: bool = True
    ) -> "Tensor":
        """`value` itself if it is a tensor, else a constant of `dtype`, by default of this tensor's.

        Raises:
            ValueError: The value has no elements, or has fractions and the dtype is an integer's.
        """
        if isinstance(value, Tensor):
            return value
        if raise_on_empty and not isinstance(value, (int, float)) and _as_array(value).size == 0:
            raise ValueError(
                f"An operand has 0 elements: {value!r} of type {type(value)}. If that is intended, make a "
                "tensor of it "
                "first, with popxl.constant or popxl.variable."
            )
        dtype = self.dtype if dtype is None else dtype
        if dtype.is_int and not _holds_integers(value):
            raise ValueError(
                f"The operand {value!r} would be rounded to {dtype}, the dtype of tensor {self.id}: cast the "
                "tensor first (`ops.cast`), or round the operand."
            )
        return _implicit_constant(value, dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.id} {self.dtype} {self.shape}]"

    def __hash__(self) -> int:
        return hash(self._pb_tensor)

    def __eq__(self, other: Any) -> bool:
        """Whether it is the same tensor; the values play no part."""
        return isinstance(other, Tensor) and self._pb_tensor == other._pb_tensor

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Raises TypeError: a tensor has a value only where a session runs."""
        raise TypeError(_NO_VALUE.format(self.id))

    def __bool__(self) -> bool:
        """Whether the first dimension is not empty, as for a sequence; the values play no part.

        Raises:
            ValueError: The tensor is a scalar, whose truth would be that of its value.
        """
        if not self.shape:
            raise ValueError(
                _NO_VALUE.format(self.id) + " To choose by it, use `ops.where` or `ops.conditional`."
            )
        return len(self) != 0

    def _no_order(self, other: Any) -> Any:
        """Raises TypeError: the operators <, <=, > and >= have no ops."""
        raise TypeError(
            f"Tensor {self.id} can't be compared with <, <=, > or >=: use `ops.greater(lhs, rhs)`, which "
            "makes a bool tensor; with its operands swapped for <, with `ops.logical_not` for the others."
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def __len__(self) -> int:
        """Size of the first dimension.

        Raises:
            ValueError: The tensor is a scalar.
        """
        shape = self.shape
        if not shape:
            raise ValueError(f"Tensor {self.id} is a scalar and has no length.")
        return shape[0]

    def __add__(self, other: TensorLike) -> "Tensor":
        """`ops.add(self, other)`."""
        return _ops.add(self, other if isinstance(other, Tensor) else self._ensure_tensor(other))

    def __radd__(self, other: TensorLike) -> "Tensor":
        """`ops.add(other, self)`."""
        return _ops.add(self._ensure_tensor(other), self)

    def __iadd__(self, other: TensorLike) -> "Tensor":
        """Adds to this tensor in place, with `ops.add_`, and returns this tensor."""
        _ops.add_(self, self._ensure_tensor(other))
        return self

    def __sub__(self, other: TensorLike) -> "Tensor":
        """`ops.sub(self, other)`."""
        return _ops.sub(self, self._ensure_tensor(other))

    def __rsub__(self, other: TensorLike) -> "Tensor":
        """`ops.sub(other, self)`."""
        return _ops.sub(self._ensure_tensor(other), self)

    def __mul__(self, other: TensorLike) -> "Tensor":
        """`ops.mul(self, other)`."""
        return _ops.mul(self, self._ensure_tensor(other))

    def __rmul__(self, other: TensorLike) -> "Tensor":
        """`ops.mul(other, self)`."""
        return _ops.mul(self._ensure_tensor(other), self)

    def __truediv__(self, other: TensorLike) -> "Tensor":
        """`ops.div(self, other)`."""
        return _ops.div(self, self._ensure_tensor(other))

    def __rtruediv__(self, other: TensorLike) -> "Tensor":
        """`ops.div(other, self)`."""
        return _ops.div(self._ensure_tensor(other), self)

    def __mod__(self, other: TensorLike) -> "Tensor":
        """`ops.fmod(self, other)`."""
        return _ops.fmod(self, self._ensure_tensor(other))

    def __rmod__(self, other: TensorLike) -> "Tensor":
        """`ops.fmod(other, self)`."""
        return _ops.fmod(self._ensure_tensor(other), self)

    def __pow__(self, other: TensorLike) -> "Tensor":
        """`ops.pow(self, other)`."""
        return _ops.pow(self, self._ensure_tensor(other))

    def __rpow__(self, other: TensorLike) -> "Tensor":
        """`ops.pow(other, self)`."""
        return _ops.pow(self._ensure_tensor(other), self)

    def __matmul__(self, other: TensorLike) -> "Tensor":
        """`ops.matmul(self, other)`."""
        return _ops.matmul(self, self._ensure_tensor(other))

    def __rmatmul__(self, other: TensorLike) -> "Tensor":
        """`ops.matmul(other, self)`."""
        return _ops.matmul(self._ensure_tensor(other), self)

    def __and__(self, other: TensorLike) -> "Tensor":
        """`ops.logical_and(self, other)`."""
        return _ops.logical_and(self, self._ensure_tensor(other))

    def __rand__(self, other: TensorLike) -> "Tensor":
        """`ops.logical_and(other, self)`."""
        return _ops.logical_and(self._ensure_tensor(other), self)

    def __or__(self, other: TensorLike) -> "Tensor":
        """`ops.logical_or(self, other)`."""
        return _ops.logical_or(self, self._ensure_tensor(other))

    def __ror__(self, other: TensorLike) -> "Tensor":
        """`ops.logical_or(other, self)`."""
        return _ops.logical_or(self._ensure_tensor(other), self)

    def __neg__(self) -> "Tensor":
        """`ops.negate(self)`."""
        return _ops.negate(self)

    def __invert__(self) -> "Tensor":
        """`ops.logical_not(self)`."""
        return _ops.logical_not(self)

    def __getitem__(self, key: Union[int, slice, Tuple[Union[int, slice], ...], TensorLike]) -> "Tensor":
        """A part of the tensor.

        Args:
            key: Integers and slices, one or a tuple: the part as NumPy defines it. A tensor, array or list of
                integers: the elements of the first dimension at these places, as `ops.gather`. One of bools:
                the tensor with zeros where it is False; the shape stays (NumPy would drop these elements).

        Raises:
            TypeError: The key is something else.
            IndexError: An integer is out of range.

        Examples:
            >>> t = popxl.constant(np.arange(6.0).reshape(2, 3))
            >>> run(t[1, ::2])
            array([3., 5.], dtype=float32)
            >>> run(t[[1, 1]]).tolist()
            [[3.0, 4.0, 5.0], [3.0, 4.0, 5.0]]
        """
        if isinstance(key, (bool, str)):
            raise TypeError(_BAD_KEY.format(self.id, key, type(key)))
        if isinstance(key, (int, slice)):
            return self._slice((key,))
        if isinstance(key, tuple) and all(
            isinstance(k, (int, slice)) and not isinstance(k, bool) for k in key
        ):
            return self._slice(key)
        if isinstance(key, (Tensor, *host_tensor_types)):
            kind = key.dtype.as_numpy().kind if isinstance(key, Tensor) else _as_array(key).dtype.kind
            if kind in "iub":
                index = key if isinstance(key, Tensor) else _implicit_constant(key)
                if kind != "b":
                    return _ops.gather(self, index)
                return _ops.where(condition=index, lhs=self, rhs=_implicit_constant(0, self.dtype))
        raise TypeError(_BAD_KEY.format(self.id, key, type(key)))

    def _slice(self, key: Tuple[Union[int, slice], ...]) -> "Tensor":
        """Slices with step 1 or -1, then keeps every n-th element, then drops the dimensions indexed by
        integers."""
        start, stop, step, every, dropped = [], [], [], [], []
        for axis, k in enumerate(key):
            if isinstance(k, slice):
                start.append(k.start)
                stop.append(k.stop)
                step.append(None if k.step is None else (1 if k.step > 0 else -1))
                every.append(1 if k.step is None else abs(k.step))
            else:
                if axis < self.rank and not -self.shape[axis] <= k < self.shape[axis]:
                    raise IndexError(
                        f"Index {k} is out of range for axis {axis} of tensor {self.id} of shape {self.shape}."
                    )
                start.append(k)
                # The last element is -1 from the end; the end itself is then left open.
                stop.append(None if k == -1 else k + 1)
                step.append(1)
                every.append(1)
                dropped.append(axis)
        out = _ops.slice(self, start, stop, step)
        if any(n != 1 for n in every):
            out = _ops.subsample(out, every)
        return _ops.squeeze(out, axes=dropped) if dropped else out


_NO_VALUE = (
    "Tensor {} has no value while the program is built; `ops.host_store` sends it to the host when a session "
    "runs, and `Session.get_tensor_data` reads a variable."
)
_BAD_KEY = (
    "Tensor {} can be indexed with integers, slices, and tensors, arrays and lists of integers or bools, not "
    "with {!r} of "
    "type {}."
)


class Variable(Tensor, tensor_type="Variable"):
    """A tensor whose value the host sets and reads and the program changes: a weight."""

    __slots__ = ()

    def __init__(self) -> None:
        """Raises RuntimeError: use `popxl.variable`."""
        super().__init__()

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:
        """A copy on another IPU: `ops.ipu_copy`.

        Args:
            dst: The IPU to copy to.
            src: The IPU to copy from.
        """
        return _ops.ipu_copy(self, dst, src)

    @property
    def replica_grouping(self) -> "ReplicaGrouping":
        """The groups of replicas that share a value."""
        return self._ir._groupings.get(self._pb_tensor) or self._ir.replica_grouping()

    @property
    def retrieval_mode(self) -> str:
        """What is read back: "one_per_group", a value for each group, or "all_replicas", one for each
        replica."""
        return "all_replicas" if self._pb_tensor.retrieves_all_replicas else "one_per_group"

    @property
    def shape_on_replica(self) -> Tuple[int, ...]:
        """Shape of the value of one replica."""
        return self.shape

    @property
    def shape_on_host(self) -> Tuple[int, ...]:
        """Shape of the values on the host: with more than one group, one value for each in a first
        dimension."""
        groups = self.replica_grouping.num_groups
        return self.shape if groups == 1 else (groups, *self.shape)

    @property
    def _memmap_arr(self) -> Optional[np.memmap]:
        return self._ir._memmaps.get(self._pb_tensor)


class Constant(Tensor, tensor_type="Const"):
    """A tensor whose value never changes."""

    __slots__ = ()

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:
        """A copy on another IPU: `ops.ipu_copy`.

        Args:
            dst: The IPU to copy to.
            src: The IPU to copy from.
        """
        return _ops.ipu_copy(self, dst, src)


_CLASS_OF_KIND = [Tensor] * len(_core.TensorKind)
_CLASS_OF_KIND[_core.TensorKind.Variable.value] = Variable
_CLASS_OF_KIND[_core.TensorKind.Constant.value] = Constant

#: Annotates a parameter of a graph's function: the input is passed by reference, so that what the graph does
#: to it
#: reaches the tensor that the caller passes.
TensorByRef = NewAliasAnnotation("TensorByRef", Tensor)


def _placement(pb_tensor: "_core.Tensor") -> Tuple[int, str]:
    """IPU (-1: undefined) and tile set of a tensor: where it is made, else where it is first used."""
    producer = pb_tensor.producer
    if producer is not None:
        return _placement_of_op(producer, "destination")
    for op, _ in pb_tensor.uses:
        ipu, tile_set = _placement_of_op(op, "source")
        if ipu >= 0:
            return ipu, tile_set
    return -1, "undefined"


def _placement_of_op(op: "_core.Op", end: str) -> Tuple[int, str]:
    settings = op.getSettings()
    tile_set = "io" if settings.tileSet == _core.TileSet.IO else "compute"
    if op.has_attr(end):  # a copy between IPUs
        return op.attr(end), tile_set
    if op.has_attr("to_io"):  # a copy between tile sets
        to_io = op.attr("to_io") if end == "destination" else not op.attr("to_io")
        tile_set = "io" if to_io else "compute"
    return settings.vgraphId, tile_set


class _Ops:
    """The package of ops, loaded when the first one is used: it imports this module."""

    def __getattr__(self, name: str) -> Any:
        from popxl import ops

        function = getattr(ops, name)
        setattr(self, name, function)
        return function


_ops = _Ops()

from popxl._make_tensors import (  # noqa: E402  (these functions make the classes above)
    constant,
    graph_input,
    graph_output,
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,
    replica_sharded_variable,
    variable,
)

__all__ = [
    "Constant",
    "HostScalarTensor",
    "HostTensor",
    "ScalarType",
    "Tensor",
    "TensorByRef",
    "TensorLike",
    "TensorSpec",
    "Variable",
    "constant",
    "graph_input",
    "graph_output",
    "host_tensor_types",
    "remote_replica_sharded_variable",
    "remote_variable",
    "replica_sharded_buffer",
    "replica_sharded_variable",
    "variable",
]
