"""Ops of a program's own, from Python: functions on arrays and compositions."""

import threading
from typing import Any, Callable, List, Tuple

import numpy as np
import pytest

import popart
import popart._internal.ir as _ir
import popxl
from api.leaky import fresh, leaky_array, leaky_array_gradient, leaky_tensor, leaky_tensor_gradient
from popxl import ops, transforms

array_op = popxl.custom_op("test_leaky_array", forward=leaky_array, gradient=leaky_array_gradient)
mixed_op = popxl.custom_op("test_leaky_mixed", forward=leaky_array, compose_gradient=leaky_tensor_gradient)
composed_op = popxl.custom_op("test_leaky_composed", compose=leaky_tensor)
written_op = popxl.custom_op(
    "test_leaky_written", compose=leaky_tensor, compose_gradient=leaky_tensor_gradient
)
array_gradient_op = popxl.custom_op(
    "test_leaky_array_gradient", compose=leaky_tensor, gradient=leaky_array_gradient
)
LEAKY = [array_op, mixed_op, composed_op, written_op, array_gradient_op]
every_leaky = pytest.mark.parametrize("leaky", LEAKY, ids=lambda op: op.__name__)
both_engines = pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])


def run(build: Callable[..., Any], *arrays: np.ndarray, reference: bool = False) -> List[np.ndarray]:
    """What a function of tensors gives for arrays."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        made = build(*(popxl.variable(a, popxl.dtype.as_dtype(a.dtype)) for a in arrays))
        streams = []
        for t in made if isinstance(made, (list, tuple)) else [made]:
            streams.append(popxl.d2h_stream(t.shape, t.dtype))
            ops.host_store(streams[-1], t)
    text = ir.to_text()
    assert popxl.Ir.from_text(text).to_text() == text
    with popxl.Session(ir, "cpu", reference=reference) as session:
        results = session.run()
    return [results[s] for s in streams]


def leaky_reference(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > 0, x, x * alpha)


@both_engines
@every_leaky
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 4)])
def test_value(leaky, dtype, shape, reference):
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    (got,) = run(lambda t: leaky(t, alpha=0.25), x, reference=reference)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, leaky_reference(x, x.dtype.type(0.25)))


@both_engines
@every_leaky
def test_gradient_through_a_call(leaky, reference):
    x = np.array([-2.0, -0.5, 0.5, 3.0], np.float32)
    dy = np.array([1.0, 2.0, 3.0, 4.0], np.float32)

    def build(t, seed):
        graph = t.ir.create_graph(lambda a: ops.mul(leaky(a + a, alpha=0.5), a), t.spec)
        site = ops.call_with_info(graph, t)
        info = transforms.autodiff(graph)
        return ops.call(info.graph, seed, inputs_dict=info.inputs_dict(site))

    (dx,) = run(build, x, dy, reference=reference)
    np.testing.assert_allclose(dx, dy * np.where(x > 0, 4 * x, 2 * x), rtol=1e-6)


@pytest.mark.parametrize("leaky", [mixed_op, composed_op, written_op], ids=lambda op: op.__name__)
def test_second_gradient(leaky):
    """Of leaky(x)**3, whose second derivative is 6 leaky(x) leaky'(x)**2."""
    x = np.array([-2.0, -0.5, 0.5, 3.0])

    def cube(t):
        y = leaky(t, alpha=0.5)
        return y * y * y

    def gradient_of(function, t):
        graph = t.ir.create_graph(function, t.spec)
        info = transforms.autodiff(graph)
        one = popxl.constant(np.ones(4), popxl.float64)
        return ops.call(info.graph, one, inputs_dict=info.inputs_dict(ops.call_with_info(graph, t)))[0]

    (got,) = run(lambda t: gradient_of(lambda a: gradient_of(cube, a), t), x)
    np.testing.assert_allclose(got, 6 * leaky_reference(x, 0.5) * np.where(x > 0, 1, 0.5) ** 2, rtol=1e-12)


@both_engines
@every_leaky
def test_repeat(leaky, reference):
    x = np.array([-8.0, 1.0], np.float32)

    def build(t):
        graph = t.ir.create_graph(lambda a: leaky(a, alpha=0.5), t.spec)
        return ops.repeat(graph, 3, t)[0]

    np.testing.assert_array_equal(run(build, x, reference=reference)[0], [-1.0, 1.0])


@every_leaky
def test_order_of_changes_in_place(leaky):
    """The op reads its operand before what comes later changes it, and its result is its own memory."""

    def build(t):
        y = leaky(t, alpha=0.5)
        ops.exp_(t)
        z = ops.relu_(leaky(y, alpha=0.25))
        return y, z, t

    x = np.array([-2.0, 3.0], np.float32)
    y, z, t = run(build, x)
    np.testing.assert_array_equal(y, [-1.0, 3.0])
    np.testing.assert_array_equal(z, [0.0, 3.0])
    np.testing.assert_allclose(t, np.exp(x), rtol=1e-6)


@both_engines
def test_several_results_and_types(reference):
    def infer(x, k, *, dtype):
        if k.dtype != popxl.int32:
            raise TypeError(f"k is {k.dtype}, not int32")
        return popxl.TensorSpec(x.shape[:-1], x.dtype), popxl.TensorSpec(k.shape, dtype)

    def forward(
        x, k, *, dtype: popxl.dtype, factors: Tuple[float, ...] = (2.0,), label: str = "a", on: bool = True
    ):
        assert (factors, label, on) == ((2.0, 3.0), "b", False)
        return x.sum(-1), (k * 2).astype(dtype.as_numpy())

    def gradient(grad_total, x, *, dtype):
        return np.repeat(grad_total[..., None], x.shape[-1], -1)

    op = popxl.custom_op(
        fresh("sums"), forward=forward, infer=infer, gradient=gradient, results=("total", "twice")
    )
    x, k = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.int32)
    extra = {"dtype": popxl.uint8, "factors": (2.0, 3.0), "label": "b", "on": False}
    total, twice = run(lambda x, k: op(x, k, **extra), x, k, reference=reference)
    np.testing.assert_array_equal(total, [3, 12])
    assert twice.dtype == np.uint8
    np.testing.assert_array_equal(twice, [2, 4, 6])
    message = "(?s)TypeError: k is .*int16.*in op `sums"
    with popxl.Ir().main_graph, pytest.raises(popart.popart_exception, match=message):
        op(popxl.variable(x), popxl.variable(k.astype(np.int16), popxl.int16), **extra)


def test_float8_and_bool():
    flip = popxl.custom_op(
        fresh("flip"),
        forward=lambda x, b: (x[::-1], ~b),
        infer=lambda x, b: (x, b),
        results=("flipped", "other"),
    )
    ir = popxl.Ir()
    data = np.array([1.0, 2.0, 4.0], np.float32)
    with ir.main_graph:
        half = popxl.variable(data.astype(np.float16))
        x = ops.pow2scale_cast_to_fp8(half, popxl.constant(0), popxl.float8_143)
        y, b = flip(x, popxl.constant([True, False], popxl.bool))
        back = ops.pow2scale_cast_from_fp8(y, popxl.constant(0), popxl.float16)
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in (back, b)]
        for stream, t in zip(streams, (back, b)):
            ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    np.testing.assert_array_equal(results[streams[0]], data[::-1])
    np.testing.assert_array_equal(results[streams[1]], [False, True])


def test_composition_of_own_ops_and_constants():
    inner = popxl.custom_op(fresh("inner"), compose=lambda x: x * popxl.constant([1.0, 2.0]))
    outer = popxl.custom_op(
        fresh("outer"),
        compose=lambda x: (inner(array_op(x, alpha=0.5)), x, popxl.constant([7.0, 8.0])),
        results=("a", "b", "c"),
    )
    a, b, c, x = run(lambda t: (*outer(t), ops.add_(outer(t)[1], t)), np.array([-2.0, 3.0], np.float32))
    np.testing.assert_array_equal(a, [-1, 6])
    np.testing.assert_array_equal(b, [-2, 3])
    np.testing.assert_array_equal(c, [7, 8])
    np.testing.assert_array_equal(x, [-4, 6])


def test_composition_is_traced_once_and_fuses():
    calls = []

    def compose(x):
        calls.append(x.shape)
        return ops.relu(x) + x

    op = popxl.custom_op(fresh("once"), compose=compose)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(), popxl.name_scope("here"):
        x = popxl.variable(np.ones((2, 2), np.float32))
        ops.add_(x, op(op(x)))
    before = len(calls)
    with popxl.Session(ir, "cpu") as session:
        with session.profile() as profile:
            session.run()
        np.testing.assert_array_equal(session.get_tensor_data(x), np.full((2, 2), 5))
    assert calls == [(2, 2)] and before == 1
    assert len(profile.entries) == 1, "not one group of elementwise ops"


def test_profile_names_the_function():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(3, np.float32))
        stream = popxl.d2h_stream(x.shape, x.dtype)
        ops.host_store(stream, array_op(x))
    with popxl.Session(ir, "cpu") as session, session.profile() as profile:
        session.run()
    assert "test_leaky_array" in str(profile)


def test_arrays_are_read_only_and_stay():
    kept = []

    def forward(x):
        kept.append(x)
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        return x + x

    op = popxl.custom_op(fresh("keeps"), forward=forward)
    run(lambda t: op(t), np.array([1.0, 2.0], np.float32))
    np.testing.assert_array_equal(kept[0], [1, 2])


def test_op_types():
    ir = popxl.Ir()
    with ir.main_graph:
        array_op(popxl.variable([1.0]))
    (op,) = ir.main_graph._pb_graph.getOps()
    assert op.opType() == "TestLeakyArray" and isinstance(op, _ir.op.TestLeakyArrayOp)
    assert array_op.__doc__ == "x where it is positive, alpha x elsewhere."


def test_exception_of_a_function_is_the_cause():
    def forward(x):
        raise KeyError("nothing there")

    op = popxl.custom_op(fresh("raises"), forward=forward)
    ir = popxl.Ir()
    with ir.main_graph:
        ops.print_tensor(op(popxl.variable([1.0])))
    with popxl.Session(ir, "cpu") as session:
        message = r"KeyError: 'nothing there'\s+in op `raises_.*test_custom_ops.py"
        with pytest.raises(popart.poplar_application_runtime_error, match=message) as caught:
            session.run()
    assert isinstance(caught.value.__cause__, KeyError)


def test_interrupt_stays_what_it_is():
    def forward(x):
        raise KeyboardInterrupt

    op = popxl.custom_op(fresh("interrupts"), forward=forward)
    with pytest.raises(KeyboardInterrupt):
        run(lambda t: op(t), np.ones(1, np.float32))


def test_gradients_that_are_none():
    """No gradient of one operand; the other's reaches through."""
    for kind in ("gradient", "compose_gradient"):
        op = popxl.custom_op(
            fresh("half"), forward=lambda a, b: a + b, **{kind: lambda grad: (None, grad + grad)}
        )

        def build(a, b, op=op):
            graph = a.ir.create_graph(op, a, b)
            info = transforms.autodiff(graph, grads_required=graph.inputs)
            one = popxl.constant([1.0])
            return ops.call(info.graph, one, inputs_dict=info.inputs_dict(ops.call_with_info(graph, a, b)))

        da, db = run(build, np.ones(1, np.float32), np.ones(1, np.float32))
        assert (float(da[0]), float(db[0])) == (0, 2)


def test_sessions_on_several_threads():
    """Functions of ops run while other threads hold the interpreter; nobody waits for each other for ever."""
    results: List[np.ndarray] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=(64, 64)).astype(np.float32)
        for _ in range(5):
            (got,) = run(lambda t: composed_op(array_op(t, alpha=0.5), alpha=0.25), x)
            results.append(np.array_equal(got, leaky_reference(x, np.float32(0.125))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(results) == 20 and all(results)


def test_replicas():
    """Functions run for every replica, on whichever thread; the exception of one ends the run."""

    def forward(x, *, fail: bool = False):
        if fail:
            raise ValueError("no")
        return x + x

    op = popxl.custom_op(fresh("replicated"), forward=forward)
    for fail in (False, True):
        ir = popxl.Ir(replication=8)
        with ir.main_graph:
            x = popxl.h2d_stream((3,), popxl.float32)
            y = composed_op(op(ops.host_load(x), fail=fail), alpha=0.5)
            out = popxl.d2h_stream((3,), popxl.float32)
            ops.host_store(out, y)
        data = np.random.default_rng(2).normal(size=(8, 3)).astype(np.float32)
        with popxl.Session(ir, "ipu_model") as session:
            if fail:
                with pytest.raises(popart.poplar_application_runtime_error, match="ValueError: no"):
                    session.run({x: data})
            else:
                np.testing.assert_array_equal(session.run({x: data})[out], leaky_reference(2 * data, 0.5))


@both_engines
def test_attributes_that_are_tuples(reference):
    def forward(x, *, shifts: tuple[int, ...], axes=(0, 1), scales=(1, 0.5), none: Tuple[float, ...] = ()):
        assert isinstance(shifts, tuple) and isinstance(scales, tuple) and none == ()
        return np.roll(x, shifts, axes) * x.dtype.type(sum(scales))

    op = popxl.custom_op(fresh("test_tuples"), forward=forward)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (got,) = run(lambda t: op(t, shifts=(1, 2)), x, reference=reference)
    np.testing.assert_array_equal(got, np.roll(x, (1, 2), (0, 1)) * np.float32(1.5))
    (got,) = run(lambda t: op(t, shifts=(1,), axes=(1,), scales=(2.0,)), x, reference=reference)
    np.testing.assert_array_equal(got, np.roll(x, 1, 1) * np.float32(2))


def test_attribute_named_as_one_of_the_gradient():
    """The op of a gradient has an attribute of its own."""

    def forward(x, *, like: float = 2.0):
        return x * x.dtype.type(like)

    def gradient(grad, *, like):
        return grad * grad.dtype.type(like)

    op = popxl.custom_op(fresh("test_like"), forward=forward, gradient=gradient)

    def build(x):
        graph = popxl.gcg().ir.create_graph(lambda t: op(t, like=3.0), x.spec)
        info = ops.call_with_info(graph, x)
        grads = transforms.autodiff(graph)
        return ops.call(grads.graph, popxl.constant([1.0, 1.0]), inputs_dict=grads.inputs_dict(info))

    (got,) = run(build, np.array([1.0, 2.0], np.float32))
    np.testing.assert_array_equal(got, [3, 3])
