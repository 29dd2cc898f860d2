"""Builds and runs programs of one op.

As a program: `harness.py FILE` saves the results of all rows with big inputs.
"""

import sys
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

import popxl
from ops.case import Case
from popxl import ops, transforms
from popxl.context import get_current_context


def as_list(value: Any) -> List[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def make_inputs(case: Case, arrays: Sequence[np.ndarray], transposed: bool = False) -> List[popxl.Tensor]:
    """Variables (or constants) for the arrays; `transposed`: as views of variables laid out the other way."""
    out = []
    each = get_current_context().ir.replica_grouping(group_size=1)
    for i, array in enumerate(arrays):
        dtype = popxl.dtype.as_dtype(array.dtype)
        if i in case.constants:
            out.append(popxl.constant(array, dtype))
        elif transposed and array.ndim > 1 and not (case.updates and i == 0):
            first = 0 if case.replicas == 1 else 1
            axes = [*range(first), *reversed(range(first, array.ndim))]
            turned = np.ascontiguousarray(array.transpose(axes))
            out.append(ops.transpose(popxl.variable(turned, dtype, replica_grouping=each)))
        else:
            out.append(popxl.variable(array, dtype, replica_grouping=each))
    return out


def store(tensors: Sequence[popxl.Tensor]) -> List[popxl.DeviceToHostStream]:
    streams = []
    for t in tensors:
        streams.append(popxl.d2h_stream(t.shape, t.dtype))
        ops.host_store(streams[-1], t)
    return streams


def run(
    ir: popxl.Ir, streams: Sequence[popxl.DeviceToHostStream], reference: bool = False
) -> List[np.ndarray]:
    """Runs once. Streams from the host get 0, 1, 2, ..."""
    inputs = {
        s: np.arange(np.prod(s.shape)).reshape(s.shape).astype(s.dtype.as_numpy())
        for s in ir.get_all_h2d_streams()
    }
    with popxl.Session(ir, "cpu", reference=reference) as session:
        results = session.run(inputs)
    return [results[stream] for stream in streams]


def build(
    case: Case,
    arrays: Sequence[np.ndarray],
    call: Optional[Callable[..., Any]] = None,
    transposed: bool = False,
) -> Tuple[popxl.Ir, List[popxl.Tensor], List[popxl.DeviceToHostStream]]:
    """A program that calls the op and stores what it gives."""
    ir = popxl.Ir(case.replicas)
    with ir.main_graph, popxl.in_sequence():
        outputs = as_list((call or case.call)(*make_inputs(case, arrays, transposed)))
        streams = store(outputs)
    return ir, outputs, streams


def evaluate(
    case: Case, arrays: Sequence[np.ndarray], transposed: bool = False, reference: bool = False
) -> List[np.ndarray]:
    ir, _, streams = build(case, arrays, transposed=transposed)
    return run(ir, streams, reference)


def evaluate_inplace(
    case: Case, arrays: Sequence[np.ndarray], reference: bool = False
) -> Tuple[List[np.ndarray], np.ndarray]:
    """What the in-place op gives, and what its first operand holds afterwards."""
    ir = popxl.Ir(case.replicas)
    with ir.main_graph, popxl.in_sequence():
        first, *rest = make_inputs(case, arrays)
        # Another way to the same values, so that the variable itself stays as it is.
        operand = first + 0 if first.dtype != popxl.bool else ops.logical_not(ops.logical_not(first))
        outputs = as_list(case.inplace(operand, *rest))
        streams = store([*outputs, operand])
    *results, after = run(ir, streams, reference)
    return results, after


def first_result(case: Case, arrays: Sequence[np.ndarray]) -> Callable[..., popxl.Tensor]:
    """A function of the inputs that are not constants."""

    def forward(*tensors: popxl.Tensor) -> popxl.Tensor:
        own = iter(tensors)
        values = [
            popxl.constant(array, popxl.dtype.as_dtype(array.dtype)) if i in case.constants else next(own)
            for i, array in enumerate(arrays)
        ]
        return as_list(case.call(*values))[0]

    return forward


def gradients(
    case: Case, arrays: Sequence[np.ndarray], cotangent: np.ndarray, reference: bool = False
) -> List[np.ndarray]:
    """Gradients of sum(cotangent * first output) with respect to `case.grad`, by autodiff."""
    ir = popxl.Ir(case.replicas)
    with ir.main_graph:
        inputs = make_inputs(case, arrays)
        places = [i for i in range(len(inputs)) if i not in case.constants]
        passed = [inputs[i] for i in places]
        graph = ir.create_graph(first_result(case, arrays), *passed)
        wanted = [graph.inputs[places.index(i)] for i in case.grad]
        site = ops.call_with_info(graph, *passed)
        info = transforms.autodiff(graph, grads_provided=graph.outputs[:1], grads_required=wanted)
        each = ir.replica_grouping(group_size=1)
        seed = popxl.variable(cotangent, graph.outputs[0].dtype, replica_grouping=each)
        grads = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(site))
        streams = store(grads)
    return run(ir, streams, reference)


def second_gradients(
    case: Case, arrays: Sequence[np.ndarray], cotangent: np.ndarray, weights: Sequence[np.ndarray]
) -> List[np.ndarray]:
    """Gradients of sum(weights * gradients(...)) with respect to `case.grad` and the cotangent."""
    ir = popxl.Ir(case.replicas)
    with ir.main_graph:
        inputs = make_inputs(case, arrays)
        places = [i for i in range(len(inputs)) if i not in case.constants]
        forward = first_result(case, arrays)

        def first(seed: popxl.Tensor, *tensors: popxl.Tensor) -> Any:
            graph = ir.create_graph(forward, *tensors)
            wanted = [graph.inputs[places.index(i)] for i in case.grad]
            info = transforms.autodiff(graph, grads_provided=graph.outputs[:1], grads_required=wanted)
            site = ops.call_with_info(graph, *tensors)
            return ops.call(info.graph, seed, inputs_dict=info.inputs_dict(site))

        each = ir.replica_grouping(group_size=1)
        passed = [popxl.variable(cotangent, popxl.float64, replica_grouping=each)]
        passed += [inputs[i] for i in places]
        graph = ir.create_graph(first, *passed)
        site = ops.call_with_info(graph, *passed)
        wanted = [*(graph.inputs[1 + places.index(i)] for i in case.grad), graph.inputs[0]]
        info = transforms.autodiff(graph, grads_provided=graph.outputs[: len(weights)], grads_required=wanted)
        seeds = [popxl.variable(w, popxl.float64, replica_grouping=each) for w in weights]
        streams = store(ops.call(info.graph, *seeds, inputs_dict=info.inputs_dict(site)))
    return run(ir, streams)


def central_differences(case: Case, arrays: Sequence[np.ndarray], cotangent: np.ndarray) -> List[np.ndarray]:
    """The same gradients from the reference."""
    step = 1e-5
    out = []
    for index in case.grad:
        gradient = np.zeros(arrays[index].shape)
        for at in np.ndindex(*gradient.shape):
            sums = []
            for change in (step, -step):
                moved = [a.copy() for a in arrays]
                moved[index][at] += change
                sums.append(float(np.sum(cotangent * as_list(case.reference(*moved))[0])))
            gradient[at] = (sums[0] - sums[1]) / (2 * step)
        out.append(gradient)
    return out


def main() -> None:
    from ops.cases import CASES

    saved = {}
    for case in CASES:
        if case.big is None:
            continue
        rng = np.random.default_rng(7)
        arrays = [builder(rng) for builder in case.big]
        arrays = [a.astype("float32") if a.dtype == np.float64 else a for a in arrays]
        for i, result in enumerate(evaluate(case, arrays)):
            saved[f"{case.name}/{i}"] = result
    np.savez(sys.argv[1], **saved)


if __name__ == "__main__":
    main()
