"""Gradient graphs as programs see them."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.transforms import ExpectedConnection, ExpectedConnectionType, GradGraphInfo, autodiff

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
W = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
B = np.array([0.1, 0.2], np.float32)


class Affine(popxl.Module):
    """x * W + b, with W and b as inputs of their own."""

    def build(self, x):
        self.w = popxl.graph_input(x.shape, x.dtype, "W")
        self.b = popxl.graph_input((x.shape[-1],), x.dtype, "b")
        return x * self.w + self.b


def make_affine():
    ir = popxl.Ir()
    affine = Affine()
    with ir.main_graph:
        x, w, b = (popxl.variable(data, name=name) for data, name in ((X, "x"), (W, "w"), (B, "b")))
        graph = ir.create_graph(affine, x)
        info = ops.call_with_info(graph, x, inputs_dict={affine.w: w, affine.b: b})
    return ir, affine, graph, info


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients(reverse):
    ir, affine, graph, call = make_affine()
    required = [affine.b, affine.w] if reverse else [affine.w, affine.b]
    info = autodiff(graph, grads_required=required)
    assert info.forward_graph is graph and list(info.outputs) == required
    assert [c.connection_type for c in info.expected_outputs] == [ExpectedConnectionType.FwdGrad] * 2
    assert info.expected_inputs[0].connection_type == ExpectedConnectionType.FwdGrad
    assert len(info.expected_inputs) == len(info.graph.inputs) and len(graph.outputs) == 2
    with ir.main_graph:
        seed = popxl.constant(np.full((2, 2), 2.0, np.float32))
        grads = ops.call_with_info(info.graph, seed, inputs_dict=info.inputs_dict(call))
        by_parent = info.fwd_parent_ins_to_grad_parent_outs(call, grads)
        streams = {t.name: popxl.d2h_stream(g.shape, g.dtype) for t, g in by_parent.items()}
        for t, g in by_parent.items():
            ops.host_store(streams[t.name], g)
    by_graph = info.fwd_graph_ins_to_grad_parent_outs(grads)
    assert all(t.name in g.name and t.shape == g.shape for t, g in by_graph.items())
    with popxl.Session(ir) as session:
        outputs = session.run()
    np.testing.assert_allclose(outputs[streams["w"]], 2 * X)
    np.testing.assert_allclose(outputs[streams["b"]], [4, 4])


def test_gradients_against_differences():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X, name="x")
        graph = ir.create_graph(lambda t: ops.sum(ops.exp(t) * t), x)
        info = autodiff(graph)
        call = ops.call_with_info(graph, x)
        (grad,) = ops.call(info.graph, popxl.constant(1.0), inputs_dict=info.inputs_dict(call))
        sink = popxl.d2h_stream(grad.shape, grad.dtype)
        ops.host_store(sink, grad)
    with popxl.Session(ir) as session:
        got = session.run()[sink]
    step, wide = 1e-6, X.astype(np.float64)
    differences = (np.exp(wide + step) * (wide + step) - np.exp(wide - step) * (wide - step)) / (2 * step)
    np.testing.assert_allclose(got, differences, rtol=1e-4)


def test_infos_come_from_autodiff():
    for cls in (GradGraphInfo, ExpectedConnection):
        with pytest.raises(TypeError):
            cls()
    _, _, graph, call = make_affine()
    info = autodiff(graph)
    text = repr(info)
    assert text.startswith("GradGraphInfo[") and text.endswith("]")
    assert text.index("graph=") < text.index("expected_inputs=") < text.index("expected_outputs=")
    _, _, _, foreign = make_affine()
    with pytest.raises(TypeError):
        info.inputs_dict(foreign)


def test_called_graphs():
    ir = popxl.Ir()
    spec = popxl.TensorSpec((2, 2), popxl.float32)
    inner = ir.create_graph(lambda a: a * a, spec)

    def body(a):
        (out,) = ops.call(inner, a)
        return out

    outer = ir.create_graph(body, spec)
    infos = autodiff(outer, return_all_grad_graphs=True)
    assert set(infos) == {inner, outer}
    ready = autodiff(outer, called_graphs_grad_info={inner: infos[inner]}, return_all_grad_graphs=True)
    assert ready[inner].graph == infos[inner].graph


def test_changes_in_place_have_no_gradient():
    ir = popxl.Ir()

    def body(a, b):
        a += b
        return a

    spec = popxl.TensorSpec((2,), popxl.float32)
    graph = ir.create_graph(body, spec, spec)
    with pytest.raises(popart.popart_exception) as caught:
        autodiff(graph)
    assert caught.value.args[0].startswith(f"The graph {graph.id} contains a modifying op")


def test_decompose_sum():
    import popart._internal.ir as lower

    ir = popxl.Ir()
    with ir.main_graph as graph:
        parts = [popxl.constant(float(i)) for i in range(4)]
        opid = lower.OperatorIdentifier("", "Sum", 1, lower.NumInputs(1, -1), 1)
        op = graph._pb_graph.createConnectedOp_SumOp(
            {i: t.id for i, t in enumerate(parts)}, {0: "total"}, opid, None
        )
        assert isinstance(op, lower.op.SumOp)
        sink = popxl.d2h_stream((), popxl.float32)
        ops.host_store(sink, popxl.Tensor._from_pb_tensor(op.outTensor(0)))
    popxl.transforms.decompose_sum(graph)
    assert sorted(op.opType() for op in graph._pb_graph.getOps()) == ["Add"] * 4 + ["HostStore", "Init"]
    with popxl.Session(ir) as session:
        assert session.run()[sink] == 6.0


def test_graphs_marked_as_unsafe():
    ir = popxl.Ir()
    spec = popxl.TensorSpec((2,), popxl.float32)
    inner = ir.create_graph(lambda a: a * a, spec)
    info = autodiff(inner)
    inner._pb_graph.setCanBeRecursivelyAutodiffed(False)
    outer = ir.create_graph(lambda a: ops.call(inner, a), spec)
    for graph in (inner, outer):
        with pytest.raises(popart.popart_exception, match="has been marked as unsafe to autodiff"):
            autodiff(graph)
    autodiff(outer, called_graphs_grad_info={inner: info})
