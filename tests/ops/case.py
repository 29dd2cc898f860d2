"""One row of the op test table, and the inputs that rows are made of."""

import dataclasses
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

Builder = Callable[[np.random.Generator], np.ndarray]
FLOATS = ("float64", "float32", "float16")
SIGNED = ("int32", "int16", "int8")
INTS = (*SIGNED, "int64", "uint64", "uint32", "uint16", "uint8")
NUMERIC = (*FLOATS, *INTS)
EVERY = (*NUMERIC, "bool")


@dataclasses.dataclass
class Bad:
    """A wrong use in the main graph of a program, the exception, and a piece of its message."""

    call: Callable[[], Any]
    error: Any
    text: str


@dataclasses.dataclass
class Case:
    """How an op is called and what it has to give.

    Inputs that come as float64 are converted to each dtype of the row; others keep theirs. The reference
    gets the converted values back in float64. Outputs of the reference that are float64 are expected in the
    input's dtype, others in theirs.
    """

    op: str  #: Name in the op table.
    call: Callable[..., Any]  #: Takes tensors, returns one or more.
    inputs: Sequence[Builder]
    reference: Optional[Callable[..., Any]] = None
    label: str = ""
    dtypes: Sequence[str] = FLOATS
    result_dtype: str = ""  #: Instead of the input's.
    tolerance: float = 1.0  #: Factor on what the dtype allows.
    grad: Sequence[int] = ()  #: Inputs with a gradient.
    inplace: Optional[Callable[..., Any]] = None
    modifies: bool = True  #: Whether the in-place op changes its operand (a view does not).
    strided: bool = True  #: Whether inputs may come as transposed views: not where they must be constants.
    check: Optional[Callable[[List[np.ndarray], List[np.ndarray]], None]] = None  #: Instead of a reference.
    big: Optional[Sequence[Builder]] = None  #: Inputs that are cut into pieces for several threads.
    constants: Sequence[int] = ()  #: Inputs given as constants.
    elementwise: bool = False  #: Whether inputs may have any shapes that broadcast.
    special: bool = True  #: Whether the op treats zeros, infinities and NaN as its reference does.
    #: Its like in PyTorch, for the table of bench/: a dotted name, or a function of the module and the inputs.
    peer: Union[str, Callable[..., Any], None] = None
    size: Optional[Sequence[Builder]] = None  #: Inputs for that table, where not `big` or elementwise.
    updates: bool = False  #: Whether the op writes its first input, a variable.
    #: Above 1, replicas that each have their own inputs: those, and what the reference takes and gives, have a
    #: first dimension for the replicas.
    replicas: int = 1
    bad: Sequence[Bad] = ()

    @property
    def name(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    def sized(self, elements: Tuple[int, ...]) -> Sequence[Builder]:
        """Inputs for the table of bench/; those of an elementwise row all have the shape `elements`."""
        if self.size is not None:
            return self.size
        if not self.elementwise:
            assert self.big is not None, f"{self.name} has a peer but no size"
            return self.big
        return [lambda rng, builder=builder: np.resize(builder(rng), elements) for builder in self.inputs]


def real(*shape: int, low: float = -3, high: float = 3) -> Builder:
    return lambda rng: rng.uniform(low, high, shape)


def positive(*shape: int) -> Builder:
    return real(*shape, low=1, high=5)


def away(*shape: int, gap: float = 0.3) -> Builder:
    """Values that are not near 0, where a derivative may jump."""
    return lambda rng: rng.choice([-1.0, 1.0], shape) * rng.uniform(gap, 3, shape)


def distinct(*shape: int) -> Builder:
    """Values of which no two are close."""
    return lambda rng: (rng.permutation(int(np.prod(shape))).reshape(shape) - np.prod(shape) // 2).astype(
        "float64"
    )


def numbers(*shape: int, high: int, low: int = 0, dtype: str = "int32") -> Builder:
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def fixed(value: Any, dtype: str) -> Builder:
    return lambda rng: np.asarray(value, dtype)


def flags(*shape: int) -> Builder:
    return lambda rng: rng.integers(0, 2, shape).astype(bool)


def converted(arrays: Sequence[np.ndarray], dtype: str) -> List[np.ndarray]:
    """The inputs of a row in one of its dtypes."""
    out = []
    for array in arrays:
        if array.dtype != np.float64:
            out.append(array)
        elif dtype == "bool":
            out.append(array > 0)
        elif np.issubdtype(np.dtype(dtype), np.unsignedinteger):
            out.append(np.abs(np.rint(array)).astype(dtype))
        elif np.issubdtype(np.dtype(dtype), np.integer):
            out.append(np.rint(array).astype(dtype))
        else:
            out.append(array.astype(dtype))
    return out


def limits(dtype: str) -> Tuple[float, float]:
    """Relative and absolute error that is allowed."""
    return {"float64": (1e-11, 1e-12), "float32": (4e-6, 2e-6), "float16": (2e-3, 2e-3)}.get(dtype, (0, 0))
