"""Gradients of graphs."""

from enum import Enum
from typing import TYPE_CHECKING, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from popxl import _core
from popxl.graph import Graph
from popxl.tensor import Tensor

if TYPE_CHECKING:
    from popxl.ops.call import CallSiteInfo


class ExpectedConnectionType(Enum):
    """What an input or output of a gradient graph stands for."""

    Fwd = "Fwd"  #: A tensor of the forward graph.
    FwdGrad = "FwdGrad"  #: The gradient of a tensor of the forward graph.


class ExpectedConnection:
    """What one input or output of a gradient graph stands for."""

    __slots__ = ("_type", "_fwd_tensor")

    def __init__(self) -> None:
        """Raises TypeError: connections come from `autodiff`."""
        raise TypeError(
            "ExpectedConnection cannot be constructed directly; it comes with what `autodiff` returns."
        )

    @classmethod
    def _make(cls, is_gradient: bool, fwd_tensor: "_core.Tensor") -> "ExpectedConnection":
        self = object.__new__(cls)
        self._type = ExpectedConnectionType.FwdGrad if is_gradient else ExpectedConnectionType.Fwd
        self._fwd_tensor = Tensor._from_pb_tensor(fwd_tensor)
        return self

    def __repr__(self) -> str:
        return f"({self._type}, {self._fwd_tensor})"

    @property
    def fwd_tensor(self) -> Tensor:
        """The tensor of the forward graph."""
        return self._fwd_tensor

    @property
    def connection_type(self) -> ExpectedConnectionType:
        """Whether it is the tensor itself or its gradient."""
        return self._type


class GradGraphInfo:
    """A gradient graph, and how it connects to its forward graph."""

    def __init__(self) -> None:
        """Raises TypeError: infos come from `autodiff`."""
        raise TypeError("GradGraphInfo cannot be constructed directly; `autodiff` returns it.")

    _pb_info: "_core.GradInfo"
    _expected_inputs: Tuple[ExpectedConnection, ...]
    _expected_outputs: Tuple[ExpectedConnection, ...]

    @classmethod
    def _from_pb(cls, pb_info: "_core.GradInfo") -> "GradGraphInfo":
        self = object.__new__(cls)
        self._pb_info = pb_info
        self._graph = Graph._from_pb(pb_info.graph)
        self._forward_graph = Graph._from_pb(pb_info.forward)
        self._expected_inputs = tuple(ExpectedConnection._make(*c) for c in pb_info.inputs)
        self._expected_outputs = tuple(ExpectedConnection._make(*c) for c in pb_info.outputs)
        return self

    @property
    def graph(self) -> Graph:
        """The gradient graph."""
        return self._graph

    @property
    def forward_graph(self) -> Graph:
        """The graph that it was made of."""
        return self._forward_graph

    @property
    def expected_inputs(self) -> Tuple[ExpectedConnection, ...]:
        """What each input stands for: gradients of outputs of the forward graph first, then its tensors."""
        return self._expected_inputs

    @property
    def expected_outputs(self) -> Tuple[ExpectedConnection, ...]:
        """What each output stands for: gradients of inputs of the forward graph."""
        return self._expected_outputs

    @property
    def inputs(self) -> Tuple[Tensor, ...]:
        """The forward tensor of each input."""
        return tuple(c.fwd_tensor for c in self._expected_inputs)

    @property
    def outputs(self) -> Tuple[Tensor, ...]:
        """The forward tensor of each output."""
        return tuple(c.fwd_tensor for c in self._expected_outputs)

    def __repr__(self) -> str:
        def rows(connections: Iterable[ExpectedConnection]) -> str:
            return "".join(f"    {connection!r}\n" for connection in connections)

        return (
            f"GradGraphInfo[\n  graph={self._graph.id}\n  expected_inputs=[\n{rows(self._expected_inputs)}  "
            "]\n"
            f"  expected_outputs=[\n{rows(self._expected_outputs)}  ]\n]"
        )

    def inputs_dict(self, fwd_call_info: "CallSiteInfo") -> Dict[Tensor, Tensor]:
        """What a call of the gradient graph needs of a call of the forward graph.

        Args:
            fwd_call_info: The call of the forward graph.

        Returns:
            For each input of the gradient graph that is a forward tensor, that tensor's value at the call: an
            input or output of it. To be passed as `inputs_dict` to the call of the gradient graph.

        Raises:
            TypeError: The call is of another graph, or is no call.
        """
        if not hasattr(fwd_call_info, "called_graph"):
            raise TypeError(
                f"The call of graph {self._forward_graph.id} is what `ops.call_with_info` returns, not "
                f"{fwd_call_info!r}."
            )
        if fwd_call_info.called_graph != self._forward_graph:
            raise TypeError(
                f"The call is of graph {fwd_call_info.called_graph.id}; the gradients are of graph "
                f"{self._forward_graph.id}."
            )
        return {
            own: fwd_call_info.graph_to_parent(connection.fwd_tensor)
            for own, connection in zip(self._graph.inputs, self._expected_inputs)
            if connection.connection_type is ExpectedConnectionType.Fwd
        }

    def fwd_graph_ins_to_grad_parent_outs(self, grad_call_info: "CallSiteInfo") -> Dict[Tensor, Tensor]:
        """The gradients at a call of the gradient graph, by input of the forward graph.

        Args:
            grad_call_info: The call of the gradient graph.
        """
        return {
            fwd: grad_call_info.graph_to_parent(own) for fwd, own in zip(self.outputs, self._graph.outputs)
        }

    def fwd_parent_ins_to_grad_parent_outs(
        self, fwd_call_info: "CallSiteInfo", grad_call_info: "CallSiteInfo"
    ) -> Dict[Tensor, Tensor]:
        """The gradients at a call of the gradient graph, by what was passed to a call of the forward graph.

        Args:
            fwd_call_info: The call of the forward graph.
            grad_call_info: The call of the gradient graph.
        """
        gradients = self.fwd_graph_ins_to_grad_parent_outs(grad_call_info)
        return {fwd_call_info.graph_to_parent(fwd): gradient for fwd, gradient in gradients.items()}


def _tensors(name: str, given: Optional[Iterable[Tensor]]) -> Optional[List[Tensor]]:
    if isinstance(given, Tensor):
        raise TypeError(f"`{name}` is a list of tensors, also where it is one: [{given.id}].")
    return None if given is None else list(given)


def autodiff(
    graph: Graph,
    grads_provided: Optional[Iterable[Tensor]] = None,
    grads_required: Optional[Iterable[Tensor]] = None,
    called_graphs_grad_info: Optional[Mapping[Graph, GradGraphInfo]] = None,
    return_all_grad_graphs: bool = False,
) -> Union[GradGraphInfo, Dict[Graph, GradGraphInfo]]:
    """Makes the graph that computes the gradients of a graph's inputs from those of its outputs.

    Tensors of the forward graph that the gradients need become outputs of it, also at its calls. Graphs that
    it calls are differentiated too.

    Args:
        graph: The graph.
        grads_provided: Outputs whose gradients will be given, in the order of the gradient graph's inputs; by
            default all.
        grads_required: Inputs whose gradients are wanted, in the order of the gradient graph's outputs; by
            default all.
        called_graphs_grad_info: Gradient graphs to be used for called graphs.
        return_all_grad_graphs: Whether to return the infos of all graphs that were differentiated.

    Returns:
        The info of the graph's gradient graph, or all infos by forward graph.

    Raises:
        TypeError: `graph` is no graph, or a single tensor is given for a list.
        ValueError: A tensor is no output or input of the graph.
        popart_exception: The graph changes a tensor in place, calls one that must not be differentiated, or
            can't gain the outputs that the gradients need.

    Examples:
        >>> x, w = popxl.variable([1.0, 2.0]), popxl.variable([3.0, 4.0])
        >>> graph = ir.create_graph(lambda x, w: ops.sum(x * w), x, w)
        >>> forward = ops.call_with_info(graph, x, w)
        >>> grads = transforms.autodiff(graph, grads_required=[graph.inputs[1]])
        >>> (dw,) = ops.call(grads.graph, popxl.constant(1.0), inputs_dict=grads.inputs_dict(forward))
        >>> run(dw)
        array([1., 2.], dtype=float32)
    """
    if not isinstance(graph, Graph):
        raise TypeError(
            "`graph` must be a popxl.Graph, as `ir.create_graph` returns; it is "
            f"{graph!r} of type {type(graph)}."
        )
    known: List["_core.GradInfo"] = [info._pb_info for info in (called_graphs_grad_info or {}).values()]
    made = _core.autodiff(
        graph._pb_graph,
        _tensors("grads_provided", grads_provided),
        _tensors("grads_required", grads_required),
        known,
    )
    infos = {info.forward_graph: info for info in map(GradGraphInfo._from_pb, made)}
    return infos if return_all_grad_graphs else infos[graph]
