"""Running one of two graphs."""

from typing import Iterable, Mapping, Optional, Tuple, Union

from popxl import _core
from popxl.graph import Graph
from popxl.ops.call import CallSiteInfo, arrange_inputs
from popxl.tensor import Tensor, TensorLike

__all__ = ["ConditionalSiteInfo", "conditional", "conditional_with_info"]

_Inputs = Optional[Iterable[Union[TensorLike, Iterable[TensorLike]]]]
_InputsDict = Optional[Mapping[Tensor, TensorLike]]


class ConditionalSiteInfo(CallSiteInfo):
    """A place where one of two graphs is run.

    The operands are the condition, the inputs of the then-branch and the inputs of the else-branch.
    """

    @property
    def called_graph(self) -> Tuple[Graph, Graph]:
        """The graphs of the then-branch and of the else-branch."""
        then_graph, else_graph = (Graph._from_pb(g) for g in self._branches())
        return then_graph, else_graph

    def _branches(self) -> Tuple["_core.Graph", "_core.Graph"]:
        return self._op.attr("then_branch"), self._op.attr("else_branch")

    def _first_operand(self, then_branch: bool) -> int:
        return 1 if then_branch else 1 + len(self._branches()[0].inputs)

    def _locate(self, idx: int) -> Tuple[bool, int]:
        """The branch and the input that an operand is for."""
        counts = [len(g.inputs) for g in self._branches()]
        if not 1 <= idx <= sum(counts):
            raise IndexError(
                f"No branch has an input for operand {idx}: operands 1 to {sum(counts)} are inputs."
            )
        is_then = idx <= counts[0]
        return is_then, idx - self._first_operand(is_then)

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """The operand that provides an input of a branch.

        Args:
            idx: Index of the input.
            then_branch: Which branch.

        Raises:
            IndexError: The branch has no such input.
        """
        count = len(self._branches()[0 if then_branch else 1].inputs)
        if not 0 <= idx < count:
            raise IndexError(f"The branch has {count} inputs, there is no input {idx}.")
        return self._first_operand(then_branch) + idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """The input of its branch that an operand provides.

        Args:
            idx: Index of the operand.

        Raises:
            IndexError: The operand is no branch's input.
        """
        return self._locate(idx)[1]

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Whether an operand is an input of the then-branch.

        Args:
            idx: Index of the operand.

        Raises:
            IndexError: The operand is no branch's input.
        """
        return self._locate(idx)[0]

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """The result that an output of a branch becomes.

        Args:
            idx: Index of the output.
            then_branch: Which branch.

        Raises:
            IndexError: The branch has no such output.
        """
        count = len(self._branches()[0 if then_branch else 1].outputs)
        if not 0 <= idx < count:
            raise IndexError(f"The branch has {count} outputs, there is no output {idx}.")
        return idx

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """The output of a branch that becomes a result.

        Args:
            idx: Index of the result.
            then_branch: Which branch.

        Raises:
            IndexError: There is no such result.
        """
        return self.graph_to_parent_output_index(idx, then_branch)

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """The tensor of the parent graph for an input or output of a branch.

        Args:
            graph_tensor: The input or output; the then-branch is searched first.

        Raises:
            ValueError: The tensor is no input and no output of either.
        """
        wanted = graph_tensor._pb_tensor
        for graph, first in zip(self._branches(), (self._first_operand(True), self._first_operand(False))):
            if wanted in graph.inputs:
                return Tensor._from_pb_tensor(self._op.inputs[first + graph.inputs.index(wanted)])
            if wanted in graph.outputs:
                return Tensor._from_pb_tensor(self._op.outputs[graph.outputs.index(wanted)])
        raise self._unknown(graph_tensor)

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """The input of a branch that a tensor of the parent graph provides.

        Args:
            parent_tensor: An operand; where it is given more than once, the first input is returned.

        Raises:
            ValueError: The tensor is passed to no branch.
        """
        operands = self._op.inputs[1:]
        if parent_tensor._pb_tensor not in operands:
            raise ValueError(f"Tensor {parent_tensor.id} is passed to no branch here.")
        is_then, index = self._locate(1 + operands.index(parent_tensor._pb_tensor))
        return Tensor._from_pb_tensor(self._branches()[0 if is_then else 1].inputs[index])

    def set_parent_input_modified(self, parent_tensor: Tensor, infer_modified_regions: bool = True) -> None:
        """Not available: inputs of a branch are passed by value.

        Args:
            parent_tensor: An operand.
            infer_modified_regions: Not used.

        Raises:
            NotImplementedError: In any case.
        """
        raise NotImplementedError("A branch of a conditional can't modify an input of the parent graph.")


def conditional(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: _Inputs = None,
    else_inputs: _Inputs = None,
    then_inputs_dict: _InputsDict = None,
    else_inputs_dict: _InputsDict = None,
) -> Tuple[Tensor, ...]:
    """Runs one of two graphs.

    Args:
        cond: A bool tensor of one element: true runs `then_branch`.
        then_branch: A graph.
        else_branch: A graph with outputs of the same number, shapes and dtypes.
        then_inputs: Inputs of `then_branch` by position, as for `call`.
        else_inputs: Inputs of `else_branch` by position.
        then_inputs_dict: Inputs of `then_branch` by the input that they are for.
        else_inputs_dict: Inputs of `else_branch` by the input that they are for.

    Returns:
        Tensors for the outputs.

    Raises:
        ValueError: The branches have different numbers of outputs, or as for `call`.
        TypeError: As for `call`.
        NotImplementedError: A branch has an input by reference.
        popart_exception: Shapes or dtypes do not fit.

    Examples:
        >>> x = popxl.variable(-2.0)
        >>> negated, same = ir.create_graph(lambda t: -t, x), ir.create_graph(lambda t: t * 1, x)
        >>> (size,) = ops.conditional(ops.greater(popxl.constant(0.0), x), negated, same, [x], [x])
        >>> run(size)
        array(2., dtype=float32)
    """
    return conditional_with_info(
        cond, then_branch, else_branch, then_inputs, else_inputs, then_inputs_dict, else_inputs_dict
    ).outputs


def conditional_with_info(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: _Inputs = None,
    else_inputs: _Inputs = None,
    then_inputs_dict: _InputsDict = None,
    else_inputs_dict: _InputsDict = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """Runs one of two graphs, like `conditional`.

    Args:
        cond: As for `conditional`.
        then_branch: As for `conditional`.
        else_branch: As for `conditional`.
        then_inputs: As for `conditional`.
        else_inputs: As for `conditional`.
        then_inputs_dict: As for `conditional`.
        else_inputs_dict: As for `conditional`.
        check_inputs: As for `call_with_info`.

    Returns:
        How the tensors of the graphs correspond.

    Raises:
        ValueError: As for `conditional`.
        TypeError: As for `call`.
        NotImplementedError: A branch has an input by reference.
    """
    operands = arrange_inputs(then_branch, "then_branch", then_inputs, then_inputs_dict, check_inputs)
    operands += arrange_inputs(else_branch, "else_branch", else_inputs, else_inputs_dict, check_inputs)
    then_outputs, else_outputs = then_branch.outputs, else_branch.outputs
    if len(then_outputs) != len(else_outputs):
        raise ValueError(
            f"The branches of a conditional need the same number of outputs: {then_branch.id} has "
            f"{len(then_outputs)} and "
            f"{else_branch.id} has {len(else_outputs)}."
        )
    for graph in (then_branch, else_branch):
        for graph_input in graph._by_ref_inputs:
            raise NotImplementedError(
                f"Input {graph_input.id} is by reference (TensorByRef); a branch of a conditional takes "
                f"inputs by value."
            )
    names = [f"{yes.name}_or_{no.name}" for yes, no in zip(then_outputs, else_outputs)]
    attributes = {"then_branch": then_branch, "else_branch": else_branch}
    return ConditionalSiteInfo(_core.create_op("conditional", [cond, *operands], attributes, False, names))
