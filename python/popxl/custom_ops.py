"""Ops of a program's own: functions on arrays or compositions of ops, and shared libraries of them."""

import inspect
import os
import types
import typing
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from popxl import _core, context, dtypes
from popxl.graph import Graph
from popxl.ir import Ir
from popxl.ops._build import many
from popxl.tensor import Tensor, TensorSpec

_Spec = Tuple[Tuple[int, ...], str]
_Attributes = Dict[str, Any]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: What the annotation of an attribute, or the class of its default, says about its type.
_ATTRIBUTE_TYPES = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    dtypes.dtype: "dtype",
    Tuple[int, ...]: "ints",
    Tuple[float, ...]: "floats",
}


def custom_op(
    name: str,
    *,
    forward: Optional[Callable[..., Any]] = None,
    compose: Optional[Callable[..., Any]] = None,
    infer: Optional[Callable[..., Any]] = None,
    gradient: Optional[Callable[..., Any]] = None,
    compose_gradient: Optional[Callable[..., Any]] = None,
    results: Sequence[str] = ("out",),
) -> Callable[..., Any]:
    """Makes an op of your own known, for the life of the process (docs/custom-ops.md).

    The parameters of `forward`, or of `compose`, are what the op takes: positional ones are operands, those
    after `*` are attributes, with a default or an annotation (int, float, bool, str, popxl.dtype,
    Tuple[int, ...] or Tuple[float, ...]). The functions depend on their arguments only.

    Args:
        name: Name of the op: small letters, digits and `_`.
        forward: Takes read-only arrays and returns the result, a new array, or a tuple of several.
        compose: Takes tensors and returns tensors, made with `popxl.ops`. Either this or `forward`.
        infer: Takes a `TensorSpec` for each operand and returns one for each result; raises for operands that
            do not fit. By default that of a composition is what it gives, else each result is like the first
            operand.
        gradient: Returns the gradients of the floating-point operands, one or a tuple, None for one that is
            zero. Its positional parameters say what it reads: `grad` (or `grad_` and the name of a result),
            operands and results.
        compose_gradient: The same with tensors. The gradient of a composition is found without.
        results: Names of the results.

    Returns:
        The function that adds the op to the current graph.

    Raises:
        ValueError: The description makes no op, or the name is taken.
        TypeError: A parameter of a function is of no known kind or type.
    """
    main = forward if compose is None else compose
    if main is None:
        raise ValueError(f"op `{name}` needs `forward`, a function on arrays, or `compose`, made of ops.")
    operands, attributes = _parameters(main)
    kinds = {attribute: kind for attribute, kind, _ in attributes}
    backward = gradient if compose_gradient is None else compose_gradient
    reads = [] if backward is None else _reads(backward, results)
    _core.register_op(
        name,
        (inspect.getdoc(main) or "").split("\n\n")[0].replace("\n", " "),
        operands,
        attributes,
        list(results),
        infer and _on_specs(infer, kinds),
        forward and _on_arrays(forward, kinds, is_gradient=False),
        compose and _on_tensors(compose, kinds),
        reads,
        gradient and _on_arrays(gradient, kinds, is_gradient=True),
        compose_gradient and _on_tensors(compose_gradient, kinds),
    )
    return _function(name)


def load_ops(path: Union[str, "os.PathLike[str]"]) -> types.SimpleNamespace:
    """Loads ops from a shared library that was built against the C++ headers (docs/custom-ops.md).

    Args:
        path: The library; one without a folder in front is looked for where the system keeps libraries.

    Returns:
        An object with one function for each op.

    Raises:
        ValueError: It is no such library, or one of another version; an op's name is taken.
    """
    return types.SimpleNamespace(**{name: _function(name) for name in _core.load_ops(os.fspath(path))})


def _parameters(function: Callable[..., Any]) -> Tuple[List[str], List[Tuple[str, str, Any]]]:
    """Operands, and attributes with type and default, as the signature of a function says."""
    hints = typing.get_type_hints(function)
    operands, attributes = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in _POSITIONAL:
            operands.append(parameter.name)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            kind = _attribute_type(parameter, hints.get(parameter.name))
            default = None if parameter.default is parameter.empty else parameter.default
            attributes.append((parameter.name, kind, default))
        else:
            raise TypeError(
                f"parameter `{parameter.name}` of {function}: an op takes no *args and no **kwargs."
            )
    return operands, attributes


def _attribute_type(parameter: inspect.Parameter, hint: Any) -> str:
    """The type of an attribute, as its annotation says, else its default."""
    if parameter.default is None:
        raise TypeError(
            f"attribute `{parameter.name}` has the default None, but an attribute always has a value: give it a "
            "default of its type, or none if callers have to give the value."
        )
    if hint is None and parameter.default is not parameter.empty:
        hint = type(parameter.default)
        if hint is tuple and parameter.default:
            holds_integers = all(type(element) is int for element in parameter.default)
            hint = Tuple[int, ...] if holds_integers else Tuple[float, ...]
    elif typing.get_origin(hint) is tuple:
        hint = Tuple[typing.get_args(hint)]  # also of tuple[int, ...]
    if hint not in _ATTRIBUTE_TYPES:
        known = ", ".join(str(getattr(kind, "__name__", kind)) for kind in _ATTRIBUTE_TYPES)
        raise TypeError(
            f"attribute `{parameter.name}` needs an annotation that is one of {known}; it has {hint}."
        )
    return _ATTRIBUTE_TYPES[hint]


def _reads(gradient: Callable[..., Any], results: Sequence[str]) -> List[str]:
    """What a gradient reads, by the names of its positional parameters."""
    parameters = inspect.signature(gradient).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    return [f"grad_{results[0]}" if name == "grad" and len(results) == 1 else name for name in names]


def _keywords(function: Callable[..., Any], kinds: Dict[str, str]) -> Callable[[_Attributes], _Attributes]:
    """Picks those attributes that a function takes, as the values that it expects."""
    parameters = inspect.signature(function).parameters.values()
    wanted = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]

    def pick(attributes: _Attributes) -> _Attributes:
        picked = {}
        for name in wanted:
            value = attributes[name]
            if kinds[name] == "dtype":
                value = dtypes.dtype.as_dtype(value)
            picked[name] = tuple(value) if isinstance(value, list) else value
        return picked

    return pick


def _listed(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _on_specs(infer: Callable[..., Any], kinds: Dict[str, str]) -> Callable[..., List[_Spec]]:
    keywords = _keywords(infer, kinds)

    def run(operands: List[_Spec], attributes: _Attributes) -> List[_Spec]:
        specs = [TensorSpec(shape, dtypes.dtype.as_dtype(name)) for shape, name in operands]
        inferred = infer(*specs, **keywords(attributes))
        given = [inferred] if isinstance(inferred, TensorSpec) else list(inferred)
        return [(tuple(spec.shape), spec.dtype.name) for spec in given]

    return run


def _on_arrays(
    function: Callable[..., Any], kinds: Dict[str, str], is_gradient: bool
) -> Callable[..., List[np.ndarray]]:
    keywords = _keywords(function, kinds)

    def run(
        operands: List[Tuple[bytes, Tuple[int, ...], str]], results: List[_Spec], attributes: _Attributes
    ) -> List[np.ndarray]:
        arrays = [np.frombuffer(data, _numpy(name)).reshape(shape) for data, shape, name in operands]
        given = _listed(function(*arrays, **keywords(attributes)))
        if len(given) != len(results):
            raise ValueError(f"the function has to return {len(results)} arrays, it returned {len(given)}")
        if is_gradient:
            given = [np.zeros(spec[0], _numpy(spec[1])) if g is None else g for g, spec in zip(given, results)]
        return [_checked(i, value, *spec) for i, (value, spec) in enumerate(zip(given, results))]

    return run


def _numpy(name: str) -> np.dtype:
    return np.dtype(dtypes.dtype.as_dtype(name).as_numpy())


def _checked(index: int, value: Any, shape: Tuple[int, ...], dtype: str) -> np.ndarray:
    """A result of a function on arrays as memory of the type that it has to be of."""
    wanted = _numpy(dtype)
    if value is None:
        raise ValueError(f"result {index} of the function is None; it has to be an array (did it return one?)")
    array = np.asarray(value)
    if array.shape != shape or array.dtype != wanted:
        raise ValueError(
            f"result {index} of the function is {array.dtype} of shape {array.shape}; it has to be {wanted} "
            f"of shape {shape}"
        )
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _on_tensors(function: Callable[..., Any], kinds: Dict[str, str]) -> Callable[..., Iterable[Any]]:
    keywords = _keywords(function, kinds)

    def run(operands: List["_core.Tensor"], attributes: _Attributes) -> Iterable[Optional[Tensor]]:
        pb_graph = _core.current_graph()
        _ir = Ir._wrap(pb_graph.getIr())  # held until the function has returned
        outside, context._entered.graphs = context._entered.graphs, [Graph._from_pb(pb_graph)]
        try:
            tensors = [Tensor._from_pb_tensor(t) for t in operands]
            return _listed(function(*tensors, **keywords(attributes)))
        finally:
            context._entered.graphs = outside

    return run


def _function(name: str) -> Callable[..., Any]:
    """The function that adds an op of the table to the current graph."""
    doc, operands, attributes, results = _core.op_signature(name)
    parameters = [inspect.Parameter(operand, inspect.Parameter.POSITIONAL_OR_KEYWORD) for operand in operands]
    for attribute, default, required in attributes:
        empty = inspect.Parameter.empty
        parameters.append(
            inspect.Parameter(
                attribute, inspect.Parameter.KEYWORD_ONLY, default=empty if required else default
            )
        )
    signature = inspect.Signature(parameters)

    def add(*args: Any, **kwargs: Any) -> Union[Tensor, Tuple[Tensor, ...]]:
        given = signature.bind(*args, **kwargs).arguments
        made = many(name, [given.pop(operand) for operand in operands], given)
        return made[0] if results == 1 else made

    add.__name__ = add.__qualname__ = name
    add.__doc__ = doc
    add.__signature__ = signature  # type: ignore[attr-defined]
    return add
