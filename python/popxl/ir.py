"""The class at the centre: a whole program."""

import inspect
import os
import reprlib
import typing
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple, Union

import numpy as np

from popxl import _core, _live
from popxl.graph import Graph
from popxl.module import Module
from popxl.replica_grouping import ReplicaGrouping
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Tensor, TensorByRef, TensorSpec, graph_input, graph_output

_SHAPED = (Tensor, TensorSpec)


class Ir:
    """A program: its main graph, the graphs that this calls, streams, remote buffers and options."""

    #: All Irs in use, by `id`.
    _ir_cache = _live.irs

    def __init__(self, replication: Union[int, str] = 1) -> None:
        """Makes an empty program.

        Args:
            replication: Number of replicas that run it, or "popdist": as the launcher of this process says.

        Raises:
            ValueError: The number is not positive, or `replication` is another string.
        """
        self._setup(_core.Ir.create())
        options = self._pb_ir.getSessionOptions()
        options.virtualGraphMode = _core.VirtualGraphMode.Manual
        options.useHostCopyOps = True
        options.aliasZeroCopy = True
        options.enableExplicitMainLoops = True
        options.explicitRecomputation = True
        options.enableInplaceAmbiguityChecking = True
        options.enableVariablesCaching = False
        options.decomposeGradSum = True
        cache = os.environ.get("POPXL_CACHE_DIR") or os.environ.get("POPART_CACHE_DIR")
        if cache:
            options.enableEngineCaching = True
            options.cachePath = cache
        if isinstance(replication, str):
            if replication != "popdist":
                raise ValueError(f'The replication of an Ir is a number or "popdist", not {replication!r}.')
            import popdist

            popdist.configureSessionOptions(options)
            self._use_popdist = True
        else:
            self.replication_factor = replication

    def _setup(self, pb_ir: "_core.Ir") -> None:
        self._pb_ir = pb_ir
        self._use_popdist = False
        self._has_read_only_memmap = False
        self._graph_cache: Dict[int, Graph] = {}
        self._groupings: Dict["_core.Tensor", ReplicaGrouping] = {}
        self._memmaps: Dict["_core.Tensor", np.memmap] = {}
        self._remote_locations: Dict["_core.Tensor", Tuple[int, int, bool]] = {}
        self._sessions: "weakref.WeakSet[Any]" = weakref.WeakSet()
        _live.irs[pb_ir.id] = self

    @classmethod
    def _wrap(cls, pb_ir: "_core.Ir") -> "Ir":
        """An object for an Ir that the core has made."""
        self = object.__new__(cls)
        self._setup(pb_ir)
        return self

    @classmethod
    def _from_pb(cls, pb_ir: "_core.Ir") -> "Ir":
        self = _live.irs.get(pb_ir.id)
        if self is None:
            raise RuntimeError(f"Ir {pb_ir.id} is no longer in use; was its popxl.Ir garbage collected?")
        return self

    def to_text(self, locations: bool = True, elide_data_above: Optional[int] = None) -> str:
        """The program as text that `from_text` reads.

        Args:
            locations: Whether ops say where in the user's program they were made.
            elide_data_above: Bytes above which the data of a variable or constant is named by its size only;
                such a text is for reading, `from_text` refuses it.
        """
        limit = 2**63 - 1 if elide_data_above is None else elide_data_above
        return _core.to_text(self._pb_ir, locations, limit)

    @classmethod
    def from_text(cls, text: str) -> "Ir":
        """The program that a text describes (docs/ir.md).

        Raises:
            ValueError: The text is not well formed; the message shows line, column and what was expected.
            popart_exception: An op in it does not accept its operands.
        """
        return cls._wrap(_core.from_text(text))

    @property
    def id(self) -> int:
        """Number of the Ir, unique in the process."""
        return self._pb_ir.id

    @property
    def main_graph(self) -> Graph:
        """The graph that a session runs."""
        return Graph._from_pb(self._pb_ir.getMainGraph())

    def create_graph(
        self,
        fn: Union[Callable[..., Union[None, Tensor, Iterable[Tensor]]], Module],
        *args: Any,
        **kwargs: Any,
    ) -> Graph:
        """Makes a graph from a function or a `Module`.

        The function is called once, with the new graph as current graph. Where `args` and `kwargs` hold a
        tensor or a `TensorSpec`, it gets an input of the graph of the same shape and dtype, named after the
        parameter; by reference if the parameter is annotated with `TensorByRef`. Lists, tuples, `*args` and
        `**kwargs` of tensors give an input for each, and lists arrive as lists. Everything else arrives as it
        is. Inputs come in the order of the signature, then those that the function makes with `graph_input`.

        Args:
            fn: The function or Module; it returns None, a tensor or an iterable of tensors, the graph's
                outputs.
            args: Positional arguments for it.
            kwargs: Keyword arguments for it.

        Returns:
            The graph, named after the function.

        Raises:
            TypeError: `fn` is neither a function nor a Module, or a list holds tensors beside other values.
            ValueError: The arguments do not match the signature, or the function returns something else.

        Examples:
            >>> def linear(x, w, scale: float):
            ...     return x @ w * scale
            >>> x, w = popxl.TensorSpec((4, 3), popxl.float32), popxl.TensorSpec((3, 2), popxl.float32)
            >>> graph = ir.create_graph(linear, x, w, scale=0.5)
            >>> [(t.name, t.shape) for t in graph.inputs], graph.outputs[0].shape
            ([('x', (4, 3)), ('w', (3, 2))], (4, 2))
        """
        signature, qualname = _signature_of(fn)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(
                f"The arguments do not match the signature of {qualname}{signature}: {error}."
            ) from error
        bound.apply_defaults()
        graph = Graph._from_pb(self._pb_ir.create_graph(qualname.replace(".<locals>", "")))
        try:
            with graph:
                for name, value in bound.arguments.items():
                    parameter = signature.parameters[name]
                    bound.arguments[name] = _as_inputs(name, value, parameter, _annotation_of(parameter, fn))
                for out in _outputs_of(fn(*bound.args, **bound.kwargs), qualname):
                    graph_output(out)
        except BaseException:
            self._pb_ir.erase_graph(graph._pb_graph)
            del self._graph_cache[graph._pb_graph.key]
            raise
        return graph

    def create_empty_graph(self, name: Optional[str] = None) -> Graph:
        """Makes a graph without inputs, outputs and ops.

        Args:
            name: Its name, made unique; "graph" by default.
        """
        return Graph._from_pb(self._pb_ir.create_graph((name or "graph").replace(".<locals>", "")))

    def dot_checkpoint(self, check: str, save_dir: Optional[Union[Path, str]] = None) -> None:
        """Writes the program in the Graphviz format, if the checkpoint is active.

        Active are those that the environment variable POPART_DOT_CHECKS (names joined by ":") and the option
        `dotChecks` name; "ALL" stands for all. Where neither is set, this activates all.

        Args:
            check: Name of the checkpoint.
            save_dir: Folder for the files of this and all later checkpoints; it is made if needed.
        """
        from popxl._dot import write_checkpoint

        options = self._pb_ir.getSessionOptions()
        if save_dir is not None:
            Path(save_dir).mkdir(parents=True, exist_ok=True)
            options.logDir = str(save_dir)
        if "POPART_DOT_CHECKS" not in os.environ and not options.dotChecks:
            options.dotChecks = {"ALL"}
        write_checkpoint(self, check)

    def get_all_d2h_streams(self) -> Set[DeviceToHostStream]:
        """The streams to the host that some `host_store` of the program writes."""
        streams = self._pb_ir.used_streams(_core.StreamDirection.DeviceToHost)
        return {DeviceToHostStream._from_tensor(Tensor._from_pb_tensor(t)) for t in streams}

    def get_all_h2d_streams(self) -> Set[HostToDeviceStream]:
        """The streams from the host that some `host_load` of the program reads."""
        streams = self._pb_ir.used_streams(_core.StreamDirection.HostToDevice)
        return {HostToDeviceStream._from_tensor(Tensor._from_pb_tensor(t)) for t in streams}

    @property
    def num_host_transfers(self) -> int:
        """How many tensors each stream transfers in one run of a session, 1 by default. Set it before making
        a session."""
        return self._pb_ir.host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise ValueError(f"num_host_transfers must be a positive integer, not {value!r}.")
        self._pb_ir.host_transfers = value

    @property
    def replication_factor(self) -> int:
        """Number of replicas, over all instances.

        Setting it is a RuntimeError once a session was made, or there are collectives or variables of several groups.
        """
        return self._pb_ir.replication_factor

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._pb_ir.session_made:
            raise RuntimeError(
                f"The replication factor of Ir {self.id} can't change once a session was made of it."
            )
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise ValueError(f"The replication factor must be a positive integer, not {value!r}.")
        if value != self.replication_factor and self._pb_ir.depends_on_replicas():
            raise RuntimeError(
                f"The replication factor of Ir {self.id} can't change from {self.replication_factor} to {value} once "
                "there are collectives or variables of several groups; set it first."
            )
        options = self._pb_ir.getSessionOptions()
        options.enableReplicatedGraphs = value > 1
        options.replicatedGraphCount = int(value)

    @property
    def instance_replication_factor(self) -> int:
        """Number of replicas of this process."""
        return self._pb_ir.instance_replication_factor

    def replica_grouping(self, stride: int = 1, group_size: Optional[int] = None) -> ReplicaGrouping:
        """Groups the replicas.

        Args:
            stride: Distance between the members of a group.
            group_size: Number of replicas in a group; by default replication_factor // stride.

        Returns:
            The grouping; for 8 replicas, stride 2 and group size 4 the groups of the replicas are
            [0, 1, 0, 1, 0, 1, 0, 1].

        Raises:
            ValueError: The groups do not partition the replicas.
        """
        return ReplicaGrouping._from_params(self, stride, group_size)

    def replica_grouping_from_assignments(self, assignment: List[int]) -> ReplicaGrouping:
        """Groups the replicas as a list says.

        Args:
            assignment: The group of each replica. Groups have one size and are numbered in order of first
                appearance.

        Raises:
            ValueError: The list does not meet that.
        """
        return ReplicaGrouping._from_assignment(self, assignment)

    def _repr_html_(self) -> str:
        from popxl._dot import to_html

        return to_html(self.to_text(locations=False, elide_data_above=64), self._pb_ir.getAllGraphs())

    def __repr__(self) -> str:
        return f"Ir[id={self.id}]"

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, value: Any) -> bool:
        """Whether it is the same Ir.

        Raises:
            TypeError: `value` is no Ir.
        """
        if not isinstance(value, Ir):
            raise TypeError(f"A popxl.Ir can't be compared with {value!r} of type {type(value)}.")
        return self.id == value.id


def _signature_of(fn: Any) -> Tuple[inspect.Signature, str]:
    if isinstance(fn, Module):
        return inspect.signature(fn.build), type(fn).__qualname__
    if isinstance(fn, type) and issubclass(fn, Module):
        raise TypeError(
            f"A graph is made from an object of a popxl.Module: {fn.__name__}(...), not {fn.__name__}."
        )
    if not callable(fn) or not hasattr(fn, "__qualname__"):
        raise TypeError(
            f"A graph is made from a function or a popxl.Module, not from {fn!r} of type {type(fn)}."
        )
    return inspect.signature(fn, follow_wrapped=True), fn.__qualname__


def _annotation_of(parameter: inspect.Parameter, fn: Any) -> Any:
    """The annotation itself, also where it was written or kept as text."""
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    function = inspect.unwrap(fn.build if isinstance(fn, Module) else fn)
    try:
        return eval(annotation, getattr(function, "__globals__", {}))  # what the interpreter would have done
    except Exception:  # a name that exists for type checkers only
        return annotation


def _as_inputs(name: str, value: Any, parameter: inspect.Parameter, annotation: Any) -> Any:
    """What the graph's function gets for an argument: graph inputs in place of tensors."""
    if isinstance(value, _SHAPED):
        return _make_input(name, value, annotation is TensorByRef)
    variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    if isinstance(value, dict) and variadic:
        return _inputs_of_items(name, value, annotation is TensorByRef, value)
    if isinstance(value, (list, tuple)):
        in_list = typing.get_origin(annotation) in (list, tuple) and typing.get_args(annotation)[:1] == (
            TensorByRef,
        )
        named = {f"{name}_{i}": item for i, item in enumerate(value)}
        made = _inputs_of_items(name, named, annotation is TensorByRef if variadic else in_list, value)
        return value if made is named else list(made.values())
    return value


def _inputs_of_items(name: str, items: Dict[str, Any], by_ref: bool, given: Any) -> Dict[str, Any]:
    """Inputs for the values if all are tensors; the dict itself if none is."""
    shaped = [isinstance(item, _SHAPED) for item in items.values()]
    if not any(shaped):
        return items
    if not all(shaped):
        raise TypeError(
            f"Argument {name} mixes tensors with other values, which a graph can't be made of: {given!r}."
        )
    return {key: _make_input(key, item, by_ref) for key, item in items.items()}


def _make_input(name: str, like: Union[Tensor, TensorSpec], by_ref: bool) -> Tensor:
    return graph_input(like.shape, like.dtype, name, by_ref=by_ref, meta_shape=like.meta_shape)


def _outputs_of(returned: Any, qualname: str) -> List[Tensor]:
    if returned is None:
        return []
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, typing.Iterable) and not isinstance(returned, (str, bytes)):
        outputs = list(returned)
        if all(isinstance(out, Tensor) for out in outputs):
            return outputs
    raise ValueError(
        f"The function {qualname} of a graph must return None, a tensor or an iterable of tensors, not "
        f"{reprlib.repr(returned)} of type {type(returned)}. Arguments that should be inputs of the graph "
        "are passed as tensors or as popxl.TensorSpec; all others reach the function as they are."
    )
