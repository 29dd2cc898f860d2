"""What is in force while a program is built: the current graph, scopes, IPU, tile set and order of ops."""

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Tuple, TypeVar, Union

import numpy as np

from popxl import _core

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir

_Function = TypeVar("_Function", bound=Callable[..., Any])
_NO_GRAPH = (
    "No graph is entered. Put the code inside `with ir.main_graph:` (or another graph), or into a function "
    "that is "
    "passed to `ir.create_graph`."
)
_MODES = {
    True: _core.SequenceMode.Ordered,
    False: _core.SequenceMode.Unordered,
    "pass": _core.SequenceMode.Pass,
}


class _Entered(threading.local):
    """The graphs that this thread has entered; the core keeps the same stack, this one keeps them alive."""

    def __init__(self) -> None:
        self.graphs: List["Graph"] = []


_entered = _Entered()


class Context:
    """The state in force in the current thread."""

    def __init__(self) -> None:
        self._hooks: dict = {}

    @property
    def graph(self) -> "Graph":
        """The current graph.

        Raises:
            RuntimeError: No graph is entered.
        """
        if not _entered.graphs:
            raise RuntimeError(_NO_GRAPH)
        return _entered.graphs[-1]

    @property
    def main_graph(self) -> "Graph":
        """The main graph of the current Ir.

        Raises:
            RuntimeError: No graph is entered.
        """
        return self.ir.main_graph

    @property
    def ir(self) -> "Ir":
        """The current Ir.

        Raises:
            RuntimeError: No graph is entered.
        """
        return self.graph.ir

    @property
    def ipu_id(self) -> Optional[int]:
        """The IPU of ops made now; None when undefined."""
        ipu = _core.current_ipu()
        return None if ipu < 0 else ipu

    @property
    def io_tile_set(self) -> bool:
        """Whether ops made now run on IO tiles."""
        return _core.current_tile_set() == _core.TileSet.IO

    @property
    def name_scopes(self) -> List[str]:
        """The name scopes in force, outermost first."""
        return _core.scopes()

    @property
    def in_sequence(self) -> Optional[bool]:
        """True or False inside `in_sequence` of that mode, None outside and in mode "pass"."""
        mode = _core.current_sequence()
        return {_core.SequenceMode.Ordered: True, _core.SequenceMode.Unordered: False}.get(mode)

    def push_graph(self, g: "Graph") -> None:
        """Enters a graph.

        Raises:
            RuntimeError: A graph of another Ir is entered.
        """
        _core.push_graph(g._pb_graph)
        _entered.graphs.append(g)

    def pop_graph(self) -> "Graph":
        """Leaves the graph that was entered last, and returns it."""
        _core.pop_graph()
        return _entered.graphs.pop()

    def push_name_scope(self, name: str) -> None:
        """Enters a name scope."""
        _core.push_scope(name)

    def pop_name_scope(self) -> str:
        """Leaves the innermost name scope, and returns its name."""
        name = _core.scopes()[-1]
        _core.pop_scope()
        return name

    def register_op_created_hook(self, fn: Callable[[Any], Any]) -> int:
        """Calls `fn` with every op made in the current graph from now on.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        graph = self.graph
        handle = graph.register_op_created_hook(fn)
        self._hooks[handle] = graph
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends what `register_op_created_hook` began.

        Raises:
            ValueError: The handle is unknown.
        """
        if handle not in self._hooks:
            raise ValueError(f"There is no op created hook {handle}.")
        self._hooks.pop(handle).remove_op_created_hook(handle)

    def _get_op_settings(self, name: str) -> Tuple[str, Any]:
        return name, _core.current_execution()


_CURRENT_CONTEXT = Context()


def _check_name(name: Optional[str], what: str = "tensor") -> Optional[str]:
    """The name, once it is known to be one.

    Raises:
        TypeError: It is neither a string nor None.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"The name of a {what} must be a string, not {name!r}.")
    return name


def get_current_context() -> Context:
    """The state in force."""
    return _CURRENT_CONTEXT


def get_current_graph() -> "Graph":
    """The graph to which ops are added now; also named `gcg`.

    Raises:
        RuntimeError: No graph is entered.
    """
    return _CURRENT_CONTEXT.graph


def get_main_graph() -> "Graph":
    """The main graph of the current Ir; also named `gmg`.

    Raises:
        RuntimeError: No graph is entered.
    """
    return _CURRENT_CONTEXT.main_graph


def get_ir() -> "Ir":
    """The current Ir; also named `gir`.

    Raises:
        RuntimeError: No graph is entered.
    """
    return _CURRENT_CONTEXT.ir


gcg = get_current_graph
gmg = get_main_graph
gir = get_ir


@contextlib.contextmanager
def ipu(ipu: Optional[int]) -> Iterator[Optional[int]]:
    """Puts the ops made inside on an IPU.

    Args:
        ipu: Number of the IPU; None leaves it undefined.

    Raises:
        ValueError: The number is negative or no integer.
    """
    if ipu is not None and (not isinstance(ipu, (int, np.integer)) or ipu < 0):
        raise ValueError(f"The number of an IPU is an integer from 0 up, or None, not {ipu!r}.")
    _core.push_ipu(ipu)
    try:
        yield ipu
    finally:
        _core.pop_ipu()


@contextlib.contextmanager
def in_sequence(mode: Union[bool, str] = True) -> Iterator[Union[bool, str]]:
    """Orders the ops made inside. Works as a `with` block and as a decorator.

    Args:
        mode: True: they run in the order in which they are made. False: they run in any order; inside a block
            of mode True they count as one op of that block. "pass": nothing is said about them.

    Raises:
        TypeError: `mode` is None.
        ValueError: `mode` is something else.

    Examples:
        >>> w = popxl.variable(1.0)
        >>> with popxl.in_sequence():
        ...     before = w * 10.0
        ...     w += 1.0  # after the product has read w
        >>> run(before)
        array(10., dtype=float32)
    """
    if mode is None:
        raise TypeError("`None` cannot be passed to `in_sequence`; use True, False or 'pass'.")
    if mode not in _MODES:
        raise ValueError(f"The mode of `in_sequence` must be True, False or 'pass', not {mode!r}.")
    _core.push_sequence(_MODES[mode])
    try:
        yield mode
    finally:
        _core.pop_sequence()


@contextlib.contextmanager
def io_tiles() -> Iterator[None]:
    """Puts the ops made inside on the IO tiles of their IPU."""
    _core.push_tile_set(_core.TileSet.IO)
    try:
        yield
    finally:
        _core.pop_tile_set()


@contextlib.contextmanager
def name_scope(name: str) -> Iterator[List[str]]:
    """Puts `name/` in front of the names of tensors made inside.

    Args:
        name: Name of the scope.

    Raises:
        TypeError: `name` is no string.
    """
    if _check_name(name, "scope") is None:
        raise TypeError("The name of a scope must be a string, not None.")
    _core.push_scope(name)
    try:
        yield _core.scopes()
    finally:
        _core.pop_scope()


@contextlib.contextmanager
def _execution_context(execution_context: _core.ExecutionContext) -> Iterator[_core.ExecutionContext]:
    """Puts the ops made inside in a part of the session: the transfer of weights, or its normal run."""
    _core.push_execution(execution_context)
    try:
        yield execution_context
    finally:
        _core.pop_execution()


@contextlib.contextmanager
def debug_context_frame_offset(i: int) -> Iterator[int]:
    """Accepted for functions that wrap ops; the user's line is found without it.

    Args:
        i: Number of frames between the user's code and the op.
    """
    yield i


def get_source_location(offset: int) -> Tuple[str, str, int]:
    """Where the user's program is now.

    Args:
        offset: Not used; the place is the innermost frame outside this package.

    Returns:
        Function, file and line.
    """
    file, function, line = _core.user_location()
    return function, file, line


def op_debug_context(name: Union[str, _Function]) -> Any:
    """Decorates a function that makes ops. Each op records its place by itself, so the function is returned
    as it is.

    Args:
        name: The function, or a name for it.
    """
    if callable(name):
        return name
    return lambda function: function


def _run_hooks(op: "_core.Op") -> None:
    """Calls the hooks of the op's graph. The core calls this; it keeps no function of the user's alive."""
    from popxl.graph import Graph

    for hook in list(Graph._from_pb(op.getGraph())._hooks.values()):
        hook(op)
