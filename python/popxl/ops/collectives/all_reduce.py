"""Reductions across the devices of one replica."""

from typing import List, Optional

from popxl.errors import UndefinedValue
from popxl.ops._build import expect, integers, many
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.tensor import Tensor


def all_reduce(ts: List[Tensor], ipus: Optional[List[int]] = None, op: CollectiveOps = "add") -> List[Tensor]:
    """Reduces tensors on several devices of a replica; every device gets the result.

    Args:
        ts: A tensor for each device, of one shape and dtype.
        ipus: The devices; by default where the tensors are.
        op: The reduction: "add", "mean", "mul", "min", "max", "and", "or" or "square_add". Gradients pass
            through "add" alone; each operand's is the sum of the results'.

    Returns:
        A result for each device.

    Raises:
        ValueError: There is no such reduction, no tensor, another number of `ipus`, or nothing determines a
            tensor's device.
    """
    return _all_reduce(ts, ipus, op)


def all_reduce_identical_inputs(
    ts: List[Tensor], ipus: Optional[List[int]] = None, op: CollectiveOps = "add"
) -> List[Tensor]:
    """Tensors that are equal on all devices, as they are; the gradient of each is the sum of all gradients.

    Args:
        ts: As for `all_reduce`; equal, so that nothing has to be exchanged.
        ipus: As for `all_reduce`.
        op: As for `all_reduce`: the reduction of the gradients.

    Returns:
        A result for each device.

    Raises:
        ValueError: As for `all_reduce`.
    """
    return _all_reduce(ts, ipus, op, identical_inputs=True)


def all_reduce_identical_grad_inputs(
    ts: List[Tensor], ipus: Optional[List[int]] = None, op: CollectiveOps = "add"
) -> List[Tensor]:
    """`all_reduce` of which the gradients of the results are equal on all devices: each passes as it is.

    Args:
        ts: As for `all_reduce`.
        ipus: As for `all_reduce`.
        op: As for `all_reduce`.

    Returns:
        A result for each device.

    Raises:
        ValueError: As for `all_reduce`.
    """
    return _all_reduce(ts, ipus, op, identical_grad_inputs=True)


def _all_reduce(
    ts: List[Tensor],
    ipus: Optional[List[int]],
    op: CollectiveOps,
    identical_inputs: bool = False,
    identical_grad_inputs: bool = False,
) -> List[Tensor]:
    if not isinstance(ts, (list, tuple)):
        raise TypeError(f"`ts` must be a list of tensors, one for each device; it is {ts!r}.")
    for i, t in enumerate(ts):
        expect(t, Tensor, f"ts[{i}]")
    if ipus is None:
        try:
            ipus = [t.ipu for t in ts]
        except UndefinedValue as error:
            raise ValueError("Could not infer the ipu of all tensors. Please specify `ipus`.") from error
    ipus = list(integers(ipus, "ipus"))
    if len(ts) != len(ipus):
        raise ValueError(f"`ipus` must name the device of each of the {len(ts)} tensors; it has {len(ipus)}.")
    attributes = {
        "op": to_collective_op(op),
        "ipus": tuple(ipus),
        "identical_inputs": identical_inputs,
        "identical_grad_inputs": identical_grad_inputs,
    }
    names = tuple(f"all_reduce_out_{i}" for i in range(len(ts)))
    return list(many("all_reduce", ts, attributes, False, names))
