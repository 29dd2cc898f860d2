"""Transforms that programs apply, and the functions that copy and move parts of programs."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops, transforms
from popxl.transforms import ExpectedConnectionType as Kind
from popxl.transforms import autodiff

X = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)


def stored(t):
    stream = popxl.d2h_stream(t.shape, t.dtype)
    ops.host_store(stream, t)
    return stream


def deep(x, w):
    return ops.sum(ops.tanh(ops.sin(ops.tanh(x @ w)) @ w))


def test_recomputed_gradients():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X), popxl.variable(X.T)
        graph = ir.create_graph(deep, x, w)
        kept = autodiff(graph)
        recomputed = transforms.recompute(kept)
        call = ops.call_with_info(graph, x, w)
        streams = []
        for info in (kept, recomputed):
            grads = ops.call(info.graph, popxl.constant(1.0), inputs_dict=info.inputs_dict(call))
            streams.append([stored(t) for t in grads])
    assert len(kept.inputs) > 3
    assert recomputed.expected_inputs[0].connection_type is Kind.FwdGrad
    assert set(recomputed.inputs[1:]) == set(graph.inputs)
    assert recomputed.outputs == kept.outputs
    with popxl.Session(ir) as session:
        outputs = session.run()
    for a, b in zip(*streams):
        np.testing.assert_array_equal(outputs[a], outputs[b])


def test_loads_are_not_recomputed():
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream((2, 2), popxl.float32)
        x = popxl.variable(X)
        graph = ir.create_graph(lambda x: ops.sum(ops.sin(x * ops.host_load(stream))), x)
        info = transforms.recompute(autodiff(graph))
        call = ops.call_with_info(graph, x)
        (dx,) = ops.call(info.graph, popxl.constant(1.0), inputs_dict=info.inputs_dict(call))
        sink = stored(dx)
    data = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    with popxl.Session(ir) as session:
        np.testing.assert_allclose(session.run({stream: data})[sink], np.cos(X * data) * data, rtol=1e-5)


def test_passes_by_name():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        stored(ops.exp(x) + ops.exp(x))
    assert "cse" in transforms.pass_names()
    assert transforms.run_pass(ir, "cse") and not transforms.run_pass(ir, "cse")
    with pytest.raises(ValueError, match="there is no pass `csa`"):
        transforms.run_pass(ir, "csa")


def test_cloned_graphs():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        graph = ir.create_graph(lambda x: ops.sin(x) + 2.0, x)
        copy = transforms.clone_graph(graph)
        with copy:
            popxl.graph_output(copy.outputs[0] * 3.0)
        sinks = [stored(t) for t in (*ops.call(graph, x), *ops.call(copy, x))]
        with pytest.raises(ValueError, match="main graph can't be cloned; outline it first"):
            transforms.clone_graph(ir.main_graph)
        graph._pb_graph.setCanBeRecursivelyAutodiffed(False)
        assert not transforms.clone_graph(graph)._pb_graph.getCanBeRecursivelyAutodiffed()
    assert len(graph.outputs) == 1 and len(copy.outputs) == 2
    with popxl.Session(ir) as session:
        outputs = session.run()
    for sink, want in zip(sinks, (np.sin(X) + 2, np.sin(X) + 2, 3 * np.sin(X) + 6)):
        np.testing.assert_allclose(outputs[sink], want, rtol=1e-5)


def test_copied_ops_keep_their_order():
    def change(x: popxl.TensorByRef):
        with popxl.in_sequence():
            before = x * 1.0
            x += 1.0
            return before + x

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X)
        graph = ir.create_graph(change, x)
        copies = transforms.copy_ops(graph, ir.main_graph, {graph.inputs[0]: x})
        sink = stored(copies[graph.outputs[0]])
    with popxl.Session(ir) as session:
        np.testing.assert_allclose(session.run()[sink], 2 * X + 1)
        np.testing.assert_allclose(session.get_tensor_data(x), X + 1)


def test_main_graphs_become_loop_bodies():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        step, rate = popxl.variable(0.0), popxl.variable(0.5)
        unused = popxl.variable(1.0)
        step += rate
    graph, variables = transforms.outline_main(ir, "training_step")
    assert variables == (step, rate) and [t.name for t in graph.inputs] == [step.name, rate.name]
    with ir.main_graph:
        ops.repeat(graph, 6, *variables)
    with popxl.Session(ir) as session:
        session.run()
        values = session.get_tensors_data([step, rate, unused])
    assert [float(v) for v in values.values()] == [3.0, 0.5, 1.0]


def test_ops_that_cannot_be_copied_leave_no_copy():
    ir, other = popxl.Ir(), popxl.Ir()
    x = popxl.TensorSpec((2, 2), popxl.float32)
    graph = ir.create_graph(lambda x, y: x * 2.0 + y, x, x)
    flat = ir.create_graph(lambda x: ops.reshape(x + 1.0, (4,)), x)
    with ir.main_graph:
        small = popxl.variable([1.0])
        with pytest.raises(ValueError, match="say which tensor stands for it"):
            transforms.copy_ops(graph, ir.main_graph, {graph.inputs[0]: small})
        with pytest.raises(popart.popart_exception, match="can't be seen as shape"):
            transforms.copy_ops(flat, ir.main_graph, {flat.inputs[0]: small})
        with pytest.raises(ValueError, match="which is of another Ir"):
            transforms.copy_ops(graph, other.main_graph, {})
        results = [t for t in ir.main_graph.tensors if type(t) is popxl.Tensor]
    assert not results


def test_uses_replaced():
    ir = popxl.Ir()
    with ir.main_graph:
        x, other = popxl.variable(X), popxl.variable(X + 1.0)
        y = ops.sin(x)
        sink = stored(y)
        graph = ir.create_graph(lambda x: x * 2.0, x)
        for wrong, message in (
            (graph.inputs[0], "is of graph"),
            (popxl.variable([1.0]), "must have one type"),
            (popxl.variable(X.astype(int)), "must have one type"),
            (y, "`sin` at .*test_transforms.py:.* reads it and must run before"),
        ):
            with pytest.raises(ValueError, match=message):
                transforms.replace_uses(ir.main_graph, x, wrong)
        with popxl.in_sequence():
            first, last = x * 1.0, other * 1.0
        with pytest.raises(ValueError, match="`mul` at .* reads it and must run before"):
            transforms.replace_uses(ir.main_graph, x, last)
        transforms.replace_uses(ir.main_graph, x, other)
    with popxl.Session(ir) as session:
        np.testing.assert_allclose(session.run()[sink], np.sin(X + 1), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ir, graph, x: transforms.clone_graph(x), "`graph` must be a popxl.Graph"),
        (lambda ir, graph, x: transforms.copy_ops(graph, x, {}), "`target` must be a popxl.Graph"),
        (lambda ir, graph, x: transforms.copy_ops(graph, graph, {x: 1.0}), "`tensors` must be a popxl.Tensor"),
        (lambda ir, graph, x: transforms.outline_main(graph), "`ir` must be a popxl.Ir"),
        (lambda ir, graph, x: transforms.add_output(graph, 1.0), "`tensor` must be a popxl.Tensor"),
        (lambda ir, graph, x: transforms.remove_output(ir, 0), "`graph` must be a popxl.Graph"),
        (lambda ir, graph, x: transforms.replace_uses(graph, x, None), "`new` must be a popxl.Tensor"),
        (lambda ir, graph, x: transforms.make_grad_info(graph, x, [], []), "`graph` must be a popxl.Graph"),
    ],
)
def test_what_is_no_part_of_a_program(call, message):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        graph = ir.create_graph(lambda x: x * 2.0, x)
        with pytest.raises(TypeError, match=message):
            call(ir, graph, x)


def test_outputs_gained_and_removed():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        graph = ir.create_graph(lambda x: ops.sin(x) * 2.0, x)
        call = ops.call_with_info(graph, x)
        loop = ops.repeat_with_info(graph, 3, x)
        inner = next(t for t in graph.tensors if t not in (*graph.inputs, *graph.outputs) and t.rank == 2)
        transforms.add_output(graph, inner)
        assert len(call.outputs) == 2 and loop.outputs[1].shape == (3, 2, 2)
        sinks = [stored(call.outputs[1]), stored(loop.outputs[1])]
        fresh = ir.create_graph(lambda x: (x + 1.0, x + 2.0), x)
        transforms.remove_output(fresh, 0)
        sinks.append(stored(*ops.call(fresh, x)))
        with pytest.raises(IndexError, match="no output 1"):
            transforms.remove_output(fresh, 1)
        branches = [ir.create_graph(lambda x: x + 1.0, x) for _ in range(2)]
        ops.conditional(popxl.constant(True), *branches, [x], [x])
        with pytest.raises(popart.popart_exception, match=r"can.t gain output .* one of two branches"):
            transforms.add_output(branches[0], branches[0].inputs[0])
    with popxl.Session(ir) as session:
        outputs = session.run()
    states = [np.sin(X)]
    for _ in range(2):
        states.append(np.sin(2 * states[-1]))
    for sink, want in zip(sinks, (np.sin(X), np.stack(states), X + 2)):
        np.testing.assert_allclose(outputs[sink], want, rtol=1e-5)


def by_hand(ir, x):
    """A graph with a gradient that is not its own: three times what comes."""
    square = ir.create_graph(lambda x: x * x, x)
    grad = ir.create_graph(lambda dy, x: dy * 3.0 + x * 0.0, x, x)
    inputs = [(Kind.FwdGrad, square.outputs[0]), (Kind.Fwd, square.inputs[0])]
    return square, grad, inputs, [(Kind.FwdGrad, square.inputs[0])]


@pytest.mark.parametrize("lower", [False, True])
def test_gradient_graphs_made_by_hand(lower):
    import popart._internal.ir as _ir

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        square, grad, inputs, outputs = by_hand(ir, x)
        if lower:
            sides = [
                [_ir.ExpectedConnection(t.id, _ir.ExpectedConnectionType[kind.value]) for kind, t in side]
                for side in (inputs, outputs)
            ]
            own = _ir.BwdGraphInfo(grad.id, *sides)
            info = transforms.GradGraphInfo._from_pb(own.to_grad_info(square._pb_graph))
        else:
            info = transforms.make_grad_info(square, grad, inputs, outputs)
        outer = ir.create_graph(lambda x: ops.sum(*ops.call(square, x)), x)
        made = autodiff(outer, called_graphs_grad_info={square: info})
        call = ops.call_with_info(outer, x)
        (dx,) = ops.call(made.graph, popxl.constant(1.0), inputs_dict=made.inputs_dict(call))
        sink = stored(dx)
        with pytest.raises(ValueError, match="1 connections"):
            transforms.make_grad_info(square, grad, inputs[:1], outputs)
        with pytest.raises(ValueError, match="not of the forward graph"):
            transforms.make_grad_info(square, grad, [(Kind.Fwd, x)] * 2, outputs)
        for wrong in (
            ([(Kind.FwdGrad, square.inputs[0]), inputs[1]], outputs),
            (inputs, [(Kind.Fwd, square.inputs[0])]),
            (inputs, [(Kind.FwdGrad, square.outputs[0])]),
        ):
            with pytest.raises(ValueError, match="can't stand for"):
                transforms.make_grad_info(square, grad, *wrong)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[sink], np.full((2, 2), 3, np.float32))


def test_loops_built_by_hand():
    import popart._internal.ir  # noqa: F401  (names for the lower level)

    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X), popxl.variable(X)
        graph = ir.create_graph(lambda x: x * 2.0, x)
        loop = ops.repeat_with_info(graph, 2, x)
        with graph:
            other = popxl.graph_input((2, 2), popxl.float32, "other")
            more = other + 1.0
        op = loop._op
        op.addLoopInput(3, w.id, other.id)
        result = popxl.Tensor._from_pb_tensor(op.addLoopOutput(1, "more", more.id))
        sink = stored(result)
        with pytest.raises(ValueError, match="not the input"):
            op.addLoopInput(2, w.id, other.id, True)
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[sink], X + 2)


def test_notebooks_show_graphs(monkeypatch):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((100, 100)), name="<x>")
        graph = ir.create_graph(lambda x: ops.sin(x), x)
        stored(*ops.call(graph, x))
    for shown in (ir._repr_html_(), graph._repr_html_()):
        assert "sin" in shown and "<pre" in shown and "</svg>" in shown
    assert "&lt;x&gt;" in ir._repr_html_() and len(ir._repr_html_()) < 100_000
    assert graph.to_text().startswith("graph @")
    monkeypatch.setenv("PATH", "")  # without Graphviz there is no picture
    assert "<pre" in graph._repr_html_() and "<svg" not in graph._repr_html_()
