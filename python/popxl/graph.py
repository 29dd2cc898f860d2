"""Graphs: lists of ops over tensors, with inputs and outputs."""

from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Set, Tuple

from popxl import _core
from popxl.context import _CURRENT_CONTEXT, _run_hooks
from popxl.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from popxl.ir import Ir

_VARIABLE = _core.TensorKind.Variable.value
_CONSTANT = _core.TensorKind.Constant.value


class Graph:
    """A graph of an Ir: its main graph, or one that others call.

    Made with `Ir.create_graph` and `Ir.create_empty_graph`. Inside `with graph:` ops are added to it.
    """

    __slots__ = ("_pb_graph", "_ir", "_by_ref_inputs", "_hooks", "_core_hook", "_next_hook", "__weakref__")

    def __init__(self) -> None:
        """Raises TypeError: graphs are made by an Ir."""
        raise TypeError(
            f"Cannot create {self.__module__}.Graph instances using the constructor; use `ir.create_graph`."
        )

    @classmethod
    def _from_pb(cls, pb_graph: "_core.Graph") -> "Graph":
        from popxl.ir import Ir

        ir = Ir._from_pb(pb_graph.getIr())
        key = pb_graph.key
        self = ir._graph_cache.get(key)
        if self is None:
            self = object.__new__(cls)
            self._pb_graph = pb_graph
            self._ir = ir
            self._by_ref_inputs: Set[Tensor] = {
                Tensor._from_pb_tensor(t) for t in pb_graph.inputs if t.by_ref
            }
            self._hooks: Dict[int, Callable[[Any], Any]] = {}
            self._core_hook: Optional[int] = None
            self._next_hook = 0
            ir._graph_cache[key] = self
        return self

    @property
    def name(self) -> str:
        """Name of the graph; empty for the main graph."""
        return self._pb_graph.id

    @property
    def id(self) -> str:
        """Name of the graph, unique in its Ir; empty for the main graph."""
        return self._pb_graph.id

    @property
    def ir(self) -> "Ir":
        """The Ir that the graph belongs to."""
        return self._ir

    @property
    def main_graph(self) -> "Graph":
        """The main graph of its Ir."""
        return self._ir.main_graph

    @property
    def inputs(self) -> Tuple[Tensor, ...]:
        """The input tensors, in order."""
        return tuple(Tensor._from_pb_tensor(t) for t in self._pb_graph.inputs)

    @property
    def inputs_by_name(self) -> Dict[str, Tensor]:
        """The input tensors by name."""
        return {t.name: t for t in self.inputs}

    @property
    def outputs(self) -> Tuple[Tensor, ...]:
        """The output tensors, in order."""
        return tuple(Tensor._from_pb_tensor(t) for t in self._pb_graph.outputs)

    @property
    def tensors(self) -> Tuple[Tensor, ...]:
        """All tensors, in order of creation."""
        return tuple(Tensor._from_pb_tensor(t) for t in self._pb_graph.getTensors())

    @property
    def variables(self) -> Tuple[Variable, ...]:
        """All variables."""
        return tuple(Tensor._from_pb_tensor(t) for t in self._pb_graph.tensors_of_kind(_VARIABLE))

    @property
    def constants(self) -> Tuple[Constant, ...]:
        """All constants."""
        return tuple(Tensor._from_pb_tensor(t) for t in self._pb_graph.tensors_of_kind(_CONSTANT))

    @property
    def called_graphs(self) -> Tuple["Graph", ...]:
        """The graphs that its ops call, each once."""
        return tuple(Graph._from_pb(g) for g in self._pb_graph.getCalledGraphs())

    def get_tensor(self, tensor_id: str) -> Tensor:
        """The tensor with an id.

        Args:
            tensor_id: Name of the graph and of the tensor, as `Tensor.id`.

        Raises:
            KeyError: There is none.
        """
        return Tensor._from_pb_tensor(self._pb_graph.getTensor(tensor_id))

    def _create_tensor_id(self, name: Optional[str] = None) -> str:
        """A free id for a tensor of this graph, with the name scopes in force."""
        unique = self._pb_graph.unique_name(_core.scoped_name(name or "t"))
        return f"{self.id}/{unique}" if self.id else unique

    def __contains__(self, value: Tensor) -> bool:
        """Whether a tensor is in this graph.

        Raises:
            TypeError: `value` is no tensor.
        """
        if not isinstance(value, Tensor):
            raise TypeError(f"A popxl.Tensor is looked up in a graph, not {value!r} of type {type(value)}.")
        return not value._pb_tensor.erased and value._pb_tensor.getGraph() == self._pb_graph

    def __eq__(self, value: Any) -> bool:
        """Whether it is the same graph.

        Raises:
            TypeError: `value` is no graph.
        """
        if not isinstance(value, Graph):
            raise TypeError(f"A popxl.Graph can't be compared with {value!r} of type {type(value)}.")
        return self._pb_graph == value._pb_graph

    def __hash__(self) -> int:
        return hash(self._pb_graph)

    def to_text(self) -> str:
        """The graph as it stands in the text of its Ir."""
        return _core.graph_to_text(self._pb_graph)

    def _repr_html_(self) -> str:
        from popxl._dot import to_html

        return to_html(_core.graph_to_text(self._pb_graph, False, 64), [self._pb_graph])

    def __repr__(self) -> str:
        return f"Graph[id={self.id} name={self.name}]"

    def __enter__(self) -> "Graph":
        """Makes this the current graph.

        Raises:
            RuntimeError: A graph of another Ir is entered.
        """
        _CURRENT_CONTEXT.push_graph(self)
        return self

    def __exit__(self, *exc: Any) -> bool:
        """Makes the graph before it current again."""
        _CURRENT_CONTEXT.pop_graph()
        return False

    def register_op_created_hook(self, fn: Callable[[Any], Any]) -> int:
        """Calls `fn` with every op made in this graph from now on.

        Args:
            fn: Takes the op.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        if self._core_hook is None:
            self._core_hook = _core.add_hook(self._pb_graph, _run_hooks)
        handle = self._next_hook
        self._next_hook += 1
        self._hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends what `register_op_created_hook` began.

        Args:
            handle: What that returned.

        Raises:
            ValueError: The handle is unknown.
        """
        if handle not in self._hooks:
            raise ValueError(f"Graph {self.id or 'main'} has no op created hook {handle}.")
        del self._hooks[handle]
        if not self._hooks:
            _core.remove_hook(self._pb_graph, self._core_hook)
            self._core_hook = None
