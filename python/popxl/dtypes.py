"""Element types of tensors."""

import builtins
import operator
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

_STR_TO_POPXL: Dict[str, "dtype"] = {}
_NP_TO_POPXL: Dict[np.dtype, "dtype"] = {}
_PY_TO_POPXL: Dict[Any, "dtype"] = {}
#: By the code that the core uses.
_BY_CODE: List["dtype"] = []

#: NumPy has no float8: one byte in a structured dtype stands for it.
np_dtype_float8_143 = np.dtype([("float8_143", "u1")])
np_dtype_float8_152 = np.dtype([("float8_152", "u1")])


class dtype:
    """An element type. The instances are names of this module and of `popxl`: `popxl.float32`, `popxl.int8`,
    ..."""

    __slots__ = ("_name", "_kind", "_signed", "_np_type", "_torch_name", "_code", "__weakref__")

    def __init__(self) -> None:
        """Raises TypeError: the element types exist already."""
        raise TypeError(
            f"Cannot create {self.__module__}.dtype instances; use popxl.float32, popxl.int32 and so on."
        )

    @property
    def is_complex(self) -> builtins.bool:
        """Whether this is a complex type."""
        return self._kind == "complex"

    @property
    def is_int(self) -> builtins.bool:
        """Whether this is an integer type, signed or not; bool is none."""
        return self._kind == "int"

    @property
    def is_floating_point(self) -> builtins.bool:
        """Whether this is a floating-point type, float8 included."""
        return self._kind == "float"

    @property
    def is_signed(self) -> builtins.bool:
        """Whether the type has negative values."""
        return self._signed

    @property
    def name(self) -> str:
        """The name: "float32", "float8_143", "bool", ..."""
        return self._name

    @property
    def _pb_dtype(self) -> Any:
        from popxl import _core

        return _core.DataType(self._code)

    @classmethod
    def as_dtype(cls, type_value: Any) -> "dtype":
        """The type that something stands for.

        Args:
            type_value: A dtype, its name, a Python type (bool, int, float), a NumPy dtype, scalar type or
                array, or a PyTorch dtype.

        Returns:
            The dtype; int gives int64 and float gives float32.

        Raises:
            ValueError: Nothing corresponds to the value.
        """
        if isinstance(type_value, cls):
            return type_value
        if isinstance(type_value, np.ndarray):
            type_value = type_value.dtype
        if isinstance(type_value, str) and type_value in _STR_TO_POPXL:
            return _STR_TO_POPXL[type_value]
        if isinstance(type_value, type) and type_value in _PY_TO_POPXL:
            return _PY_TO_POPXL[type_value]
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(type_value, getattr(torch, "dtype", ())):
            name = str(type_value).removeprefix("torch.")
            if name in _STR_TO_POPXL:
                return _STR_TO_POPXL[name]
        name = getattr(type_value, "name", None)
        if isinstance(name, str) and type(type_value).__name__ == "DataType":
            return _BY_CODE[type_value.value]
        try:
            return _NP_TO_POPXL[np.dtype(type_value)]
        except (TypeError, KeyError):
            raise ValueError(f"There is no popxl.dtype for {type_value!r}.") from None

    @classmethod
    def from_name(cls, name: str) -> "dtype":
        """The type of a name.

        Raises:
            ValueError: There is no such type.
        """
        if name not in _STR_TO_POPXL:
            raise ValueError(f"There is no popxl.dtype named {name!r}; there are {', '.join(_STR_TO_POPXL)}.")
        return _STR_TO_POPXL[name]

    def as_numpy(self) -> np.dtype:
        """The NumPy dtype; a structured one for float8."""
        return self._np_type

    def as_torch(self) -> Any:
        """The PyTorch dtype.

        Raises:
            TypeError: PyTorch has none.
            ModuleNotFoundError: PyTorch is not installed.
        """
        import torch

        if self._torch_name is None:
            raise TypeError(f"{self!r} does not have a corresponding PyTorch dtype.")
        return getattr(torch, self._torch_name)

    def __repr__(self) -> str:
        return f"{self.__module__}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


def _check_dtype(value: Any) -> dtype:
    """The value, once it is known to be a dtype.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, dtype):
        raise TypeError(f"`dtype` must be a dtype of this package, such as popxl.float32, not {value!r}.")
    return value


def _check_shape(value: Any, name: str = "shape") -> Tuple[int, ...]:
    """The value as a tuple, once it is known to be a shape.

    Raises:
        TypeError: It is no sequence of integers.
    """
    try:
        return tuple(operator.index(size) for size in value)
    except TypeError:
        raise TypeError(f"`{name}` must be a sequence of integers, such as (2, 3) or (), not {value!r}.") from None


def _define(name: str, kind: str, signed: builtins.bool, np_type: Any, torch_name: Optional[str]) -> dtype:
    """Makes the one instance of a type; the order of these calls is that of the core's codes."""
    made = object.__new__(dtype)
    made._name = name
    made._kind = kind
    made._signed = signed
    made._np_type = np.dtype(np_type)
    made._torch_name = torch_name
    made._code = len(_BY_CODE)
    _BY_CODE.append(made)
    _STR_TO_POPXL[name] = made
    _NP_TO_POPXL[made._np_type] = made
    return made


float8_143 = _define("float8_143", "float", True, np_dtype_float8_143, None)
float8_152 = _define("float8_152", "float", True, np_dtype_float8_152, None)
float16 = _define("float16", "float", True, "float16", "float16")
float32 = _define("float32", "float", True, "float32", "float32")
float64 = _define("float64", "float", True, "float64", "float64")
int8 = _define("int8", "int", True, "int8", "int8")
int16 = _define("int16", "int", True, "int16", "int16")
int32 = _define("int32", "int", True, "int32", "int32")
int64 = _define("int64", "int", True, "int64", "int64")
uint8 = _define("uint8", "int", False, "uint8", "uint8")
uint16 = _define("uint16", "int", False, "uint16", None)
uint32 = _define("uint32", "int", False, "uint32", None)
uint64 = _define("uint64", "int", False, "uint64", None)
bool = _define("bool", "bool", False, "bool", "bool")
complex64 = _define("complex64", "complex", True, "complex64", "complex64")
complex128 = _define("complex128", "complex", True, "complex128", "complex128")

_PY_TO_POPXL.update({builtins.bool: bool, builtins.int: int64, builtins.float: float32})

half = float16
float = float32
double = float64


def __getattr__(name: str) -> Any:
    # The map of PyTorch's types is made when asked for, so that importing this package never imports PyTorch.
    if name != "_PT_TO_POPXL":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import torch
    except ModuleNotFoundError:
        return {}
    return {getattr(torch, t._torch_name): t for t in _BY_CODE if t._torch_name is not None}
