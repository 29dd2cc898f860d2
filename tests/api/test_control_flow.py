"""Loops, branches and calls: their values, and their gradients against finite differences in float64."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.transforms import autodiff


def make_graph(function, *inputs):
    return popxl.gcg().ir.create_graph(function, *inputs)


def less(t, bound):
    return ops.greater(popxl.constant(bound, dtype=t.dtype), t)


class Program:
    """A function of variables as a program: its results, and how they change with the variables."""

    def __init__(self, function, arrays):
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.variables = [popxl.variable(a, dtype=popxl.float64) for a in arrays]
            results = function(*self.variables)
            self.streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
            for stream, t in zip(self.streams, results):
                ops.host_store(stream, t)
        # Programs read back as they print, and graphs that only the text shows unused still verify.
        assert popxl.Ir.from_text(self.ir.to_text()).to_text() == self.ir.to_text()
        self.session = popxl.Session(self.ir)

    def __call__(self, *arrays):
        with self.session:
            self.session.write_variables_data(dict(zip(self.variables, arrays)))
            outputs = self.session.run()
        return [np.array(outputs[s]) for s in self.streams]


def differentiable(function, times=1):
    """The value of a scalar function and its gradients, or of those of a weighted sum of its gradients."""
    if times == 0:
        return lambda *inputs: function(*inputs)

    def with_gradients(*inputs):
        graph = make_graph(function, *inputs)
        info = autodiff(graph)
        call = ops.call_with_info(graph, *inputs)
        seed = popxl.constant(np.ones(()), dtype=popxl.float64)
        grads = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        return [call.outputs[0], *grads]

    if times == 1:
        return with_gradients

    def weighted(*inputs):
        total = None
        for i, grad in enumerate(with_gradients(*inputs)[1:]):
            weights = np.cos(np.arange(grad.nelms) + i).reshape(grad.shape)
            term = ops.sum(grad * popxl.constant(weights, dtype=popxl.float64))
            total = term if total is None else total + term
        return total

    return differentiable(weighted, times - 1)


def check_gradients(function, *arrays, times=1, seed=0):
    """Compares gradients with central differences along random directions."""
    rng = np.random.default_rng(seed)
    gradients = Program(differentiable(function, times), arrays)
    value = Program(lambda *inputs: [differentiable(function, times)(*inputs)[0]], arrays)
    computed = gradients(*arrays)
    np.testing.assert_array_equal(computed[0], value(*arrays)[0])
    step = 1e-6
    for i, grad in enumerate(computed[1:]):
        assert grad.shape == np.shape(arrays[i])
        for _ in range(3):
            direction = rng.normal(size=grad.shape)
            ends = []
            for sign in (1, -1):
                moved = list(arrays)
                moved[i] = arrays[i] + sign * step * direction
                ends.append(value(*moved)[0])
            expected = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(np.sum(grad * direction), expected, rtol=2e-6, atol=2e-7)


RNG = np.random.default_rng(7)
X, W, B = RNG.normal(size=(2, 3)), 0.5 * RNG.normal(size=(3, 3)), RNG.normal(size=(3,))
XS = RNG.normal(size=(4, 2, 3))


def cell(h, w, b):
    return ops.tanh(h @ w + b)


def repeated(count):
    def function(x, w, b):
        (h,) = ops.repeat(make_graph(cell, x, w, b), count, x, w, b)
        return ops.sum(h * h)

    return function


def recurrent(reverse=False):
    """A scan that carries a state, takes a slice each time and gives one."""

    def step(h, x, w, b):
        h = ops.tanh(h @ w + x + b)
        return h, h * x

    def function(xs, w, b):
        h = popxl.constant(np.full((2, 3), 0.1), dtype=popxl.float64)
        graph = make_graph(step, h, popxl.TensorSpec((2, 3), popxl.float64), w, b)
        (h,), (ys,) = ops.scan(graph, [h], [xs], w, b, reverse=reverse)
        return ops.sum(h * h) + ops.sum(ys * ys * xs)

    return function


def doubled_until_large(x, w, b):
    """Newton-like steps while a sum is small: three times for X."""
    body = make_graph(lambda h, w, b: ops.tanh(h @ w + b) + h, x, w, b)
    cond = make_graph(lambda h: less(ops.sum(h * h), 60.0), x)
    (h,) = ops.while_loop(cond, body, 12, x, w, b)
    return ops.sum(h * h)


def as_often_as_a_tensor_says(x, w, b):
    (h,) = ops.repeat(make_graph(cell, x, w, b), popxl.constant(3), x, w, b, max_repeat_count=7)
    return ops.sum(h * h)


def branching(value):
    def function(x, w, b):
        condition = popxl.constant(value, popxl.bool)
        yes = make_graph(lambda x, w: ops.tanh(x @ w) * 2.0, x, w)
        no = make_graph(lambda x, b, also: ops.exp(x + b) * also, x, b, x)
        (out,) = ops.conditional(condition, yes, no, [x, w], [x, b, x])
        return ops.sum(out * out * x)

    return function


def branch_in_loop(x, w, b):
    """A body that takes one of two ways each time, as its values say, and calls a graph."""

    def body(h, k, w, b):
        odd = ops.equal(k % 2, popxl.constant(1))
        inner = make_graph(cell, h, w, b)
        (h,) = ops.conditional(
            odd,
            make_graph(lambda h, w, b: ops.call(inner, h, w, b), h, w, b),
            make_graph(lambda h: ops.sin(h) + h, h),
            [h, w, b],
            [h],
        )
        return h, k + 1

    k = popxl.constant(0)
    h, _ = ops.repeat(make_graph(body, x, k, w, b), 5, x, k, w, b)
    return ops.sum(h * h)


def loop_in_loop(x, w, b):
    inner = make_graph(cell, x, w, b)

    def outer(h, w, b):
        (h,) = ops.repeat(inner, 2, h, w, b)
        return ops.sin(h) * 1.5

    (h,) = ops.repeat(make_graph(outer, x, w, b), 3, x, w, b)
    return ops.sum(h * h)


def loop_in_call(x, w, b):
    graph = make_graph(lambda x, w, b: ops.repeat(make_graph(cell, x, w, b), 3, x, w, b), x, w, b)
    (first,) = ops.call(graph, x, w, b)
    (second,) = ops.call(graph, first, w, b)
    return ops.sum(first * second)


def same_graph_called_and_repeated(x, w, b):
    graph = make_graph(cell, x, w, b)
    (h,) = ops.call(graph, x, w, b)
    (h,) = ops.repeat(graph, 3, h, w, b)
    return ops.sum(h * h)


def dropped(x, w, b):
    """A loop with random numbers from a seed that it carries: gradients see the same numbers again."""

    def body(h, seed, w, b):
        seed, now = ops.split_random_seed(seed)
        return ops.dropout(ops.tanh(h @ w + b), now, 0.3), seed

    seed = popxl.constant(np.array([5, 9]), dtype=popxl.uint32)
    h, _ = ops.repeat(make_graph(body, x, seed, w, b), 4, x, seed, w, b)
    return ops.sum(h * h)


def swapped(x, w, b):
    """Carried values that change places, one of which is also stacked, and one input that nothing reads."""

    def body(p, q, w, b):
        return q, ops.tanh(p @ w), q

    (p, q), (qs,) = ops.scan(make_graph(body, x, x, w, b), [x, x + 1.0], [], w, b, length=3)
    return ops.sum(p * q) + ops.sum(qs * qs) + ops.sum(b * b)


def weights_carried(x, w, b):
    """Carried values that never change need no copy for each iteration."""
    body = make_graph(lambda x, w, b: (ops.tanh(x @ w + b), w), x, w, b)
    h, w = ops.repeat(body, 3, x, w, b)
    return ops.sum(h * h) + ops.sum(w * w)


FUNCTIONS = {
    "repeat": (repeated(4), X, W, B),
    "repeat once": (repeated(1), X, W, B),
    "repeat never": (repeated(0), X, W, B),
    "scan": (recurrent(), XS, W, B),
    "scan in reverse": (recurrent(reverse=True), XS, W, B),
    "while": (doubled_until_large, X, W, B),
    "trip count": (as_often_as_a_tensor_says, X, W, B),
    "then": (branching(True), X, W, B),
    "else": (branching(False), X, W, B),
    "branch in loop": (branch_in_loop, X, W, B),
    "loop in loop": (loop_in_loop, X, W, B),
    "loop in call": (loop_in_call, X, W, B),
    "called and repeated": (same_graph_called_and_repeated, X, W, B),
    "random numbers": (dropped, X, W, B),
    "swapped": (swapped, X, W, B),
    "weights carried": (weights_carried, X, W, B),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    check_gradients(*FUNCTIONS[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name):
    check_gradients(*FUNCTIONS[name], times=2)


@pytest.mark.parametrize("name", ["repeat", "while", "branch in loop", "called and repeated"])
def test_differentiating_twice_gives_the_same(name):
    function, *arrays = FUNCTIONS[name]

    def both(*inputs):
        graph = make_graph(function, *inputs)
        results = []
        provided = graph.outputs  # the graph may gain others
        infos = [autodiff(graph, grads_provided=provided) for _ in range(2)]
        call = ops.call_with_info(graph, *inputs)
        for info in infos:
            seed = popxl.constant(np.ones(()), dtype=popxl.float64)
            results.extend(ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call)))
        return results

    results = Program(both, arrays)(*arrays)
    for first, second in zip(results[:3], results[3:]):
        np.testing.assert_array_equal(first, second)


def test_values_of_a_scan():
    graph_inputs = XS, np.zeros((2, 3)), W

    def step(total, x, w):
        total = total + x @ w
        return total, total * 2.0

    def function(xs, start, w):
        graph = make_graph(step, start, start, w)
        results = []
        for reverse in (False, True):
            (last,), (all_totals,) = ops.scan(graph, [start], [xs], w, reverse=reverse)
            results += [last, all_totals]
        return results

    last, totals, last_back, totals_back = Program(function, graph_inputs)(*graph_inputs)
    expected = np.cumsum(XS @ W, axis=0)
    back = np.cumsum((XS @ W)[::-1], axis=0)[::-1]
    np.testing.assert_allclose(last, expected[-1])
    np.testing.assert_allclose(totals, 2 * expected)
    np.testing.assert_allclose(last_back, back[0])
    np.testing.assert_allclose(totals_back, 2 * back)


@pytest.mark.parametrize("start, expected", [(1.0, 16.0), (20.0, 20.0), (0.001, 0.032)])
def test_values_of_a_while_loop(start, expected):
    """Ends when the condition is false, at once where it never holds, and after as many times as allowed."""

    def function(x):
        body = make_graph(lambda x: x * 2.0, x)
        cond = make_graph(lambda x: less(x, 10.0), x)
        return ops.while_loop(cond, body, 5, x)

    assert Program(function, [np.array(start)])(np.array(start))[0] == expected


@pytest.mark.parametrize("trips, expected", [(-2, 1), (0, 1), (1, 2), (2, 4), (3, 8), (4, 16)])
@pytest.mark.parametrize("dtype", [popxl.int32, popxl.int64, popxl.uint8])
def test_trip_counts(trips, expected, dtype):
    if dtype == popxl.uint8 and trips < 0:
        trips, expected = 0, 1
    ir = popxl.Ir()
    with ir.main_graph:
        x, n = popxl.variable(1.0), popxl.variable(trips, dtype=dtype)
        (y,) = ops.repeat(make_graph(lambda x: x * 2.0, x), n, x, max_repeat_count=4)
        sink = popxl.d2h_stream((), popxl.float32)
        ops.host_store(sink, y)
    with popxl.Session(ir) as session:
        assert session.run()[sink] == expected


def test_more_trips_than_allowed():
    ir = popxl.Ir()
    with ir.main_graph:
        x, n = popxl.variable(1.0), popxl.variable(5)
        (y,) = ops.repeat(make_graph(lambda x: x * 2.0, x), n, x, max_repeat_count=4)
        ops.host_store(popxl.d2h_stream((), popxl.float32), y)
    with popxl.Session(ir) as session:
        with pytest.raises(popart.poplar_application_runtime_error, match="5 times.*4 times at most"):
            session.run()


def test_slices_of_times_that_did_not_run_are_zeros():
    def function(x):
        graph = make_graph(lambda go, x: (less(x, 3.0), x + 1.0, x * 1.0), less(x, 9.0), x)
        op = popxl._core.create_op(
            "repeat",
            [less(x, 9.0), x],
            {"graph": graph, "repeat_count": 5, "stacked": 1, "while_true": True},
            False,
            [],
        )
        return [popxl.Tensor._from_pb_tensor(t) for t in op.outputs[1:]]

    last, seen = Program(function, [np.array(1.0)])(np.array(1.0))
    assert last == 4 and seen.tolist() == [1, 2, 3, 0, 0]


def test_what_has_an_effect_runs_once():
    """Data loaded in a loop is kept for its gradient, not loaded again."""
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    data = np.array([2.0, 3.0, 5.0], np.float32)
    with ir.main_graph:
        stream = popxl.h2d_stream((), popxl.float32)
        x = popxl.variable(1.5)
        body = make_graph(lambda h: ops.print_tensor(ops.sin(h) * ops.host_load(stream)), x)
        graph = make_graph(lambda x: ops.repeat(body, 3, x), x)
        info = autodiff(graph)
        call = ops.call_with_info(graph, x)
        (grad,) = ops.call(info.graph, popxl.constant(1.0), inputs_dict=info.inputs_dict(call))
        sink = popxl.d2h_stream((), popxl.float32)
        ops.host_store(sink, grad)
    with popxl.Session(ir) as session:
        got = session.run({stream: data})[sink][0]
    h, slope = 1.5, 1.0
    for value in data:
        h, slope = np.sin(h) * value, slope * np.cos(h) * value
    np.testing.assert_allclose(got, slope, rtol=1e-5)


def test_effects_in_branches_run_once():
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream((), popxl.float32)
        x = popxl.variable(1.5)

        def both(x):
            yes = make_graph(lambda x: ops.sin(x) * ops.host_load(stream), x)
            no = make_graph(lambda x: x * 2.0, x)
            return ops.conditional(popxl.constant(True), yes, no, [x], [x])

        graph = make_graph(both, x)
        info = autodiff(graph)
        call = ops.call_with_info(graph, x)
        (grad,) = ops.call(info.graph, popxl.constant(1.0), inputs_dict=info.inputs_dict(call))
        sink = popxl.d2h_stream((), popxl.float32)
        ops.host_store(sink, grad)
    with popxl.Session(ir) as session:
        got = session.run({stream: np.float32(3)})[sink]
    np.testing.assert_allclose(got, 3 * np.cos(1.5), rtol=1e-5)


def test_changes_in_place_in_a_body_have_no_gradient():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.5)

        def change(h, w):
            h += w
            return h

        graph = make_graph(lambda x: ops.repeat(make_graph(change, x, x), 3, x, x), x)
        text = ir.to_text().split("{", 1)[1]  # after the counters
        message = "contains a modifying op: `add_` at .*test_control_flow"
        with pytest.raises(popart.popart_exception, match=message):
            autodiff(graph)
        assert ir.to_text().split("{", 1)[1] == text  # as it was before


def test_misuse():
    ir = popxl.Ir()
    with ir.main_graph:
        x, n = popxl.variable(1.0), popxl.variable(2)
        graph = make_graph(lambda x: x * 2.0, x)
        two = make_graph(lambda x: (x, x), x)
        with pytest.raises(ValueError, match="max_repeat_count"):
            ops.repeat(graph, n, x)
        with pytest.raises(popart.popart_exception, match="scalar"):
            ops.repeat(graph, popxl.variable([1, 2]), x, max_repeat_count=3)
        with pytest.raises(TypeError, match="float32"):
            ops.repeat(graph, x, x, max_repeat_count=3)
        with pytest.raises(ValueError, match="first dimension"):
            ops.scan(graph, [], [x])
        with pytest.raises(ValueError, match="first dimension"):
            ops.scan(graph, [x], [])
        with pytest.raises(TypeError, match="integer or a tensor, not 2.5"):
            ops.scan(graph, [x], [], length=2.5)
        with pytest.raises(ValueError, match="is 2, a fixed number: `max_repeat_count`, 3"):
            ops.repeat(graph, 2, x, max_repeat_count=3)
        with pytest.raises(ValueError, match="an output for each of 2"):
            ops.scan(graph, [x, x], [], length=2)
        with pytest.raises(popart.popart_exception, match="takes a slice of it"):
            ops.scan(graph, [], [popxl.variable(np.ones((2, 3)))])
        with pytest.raises(ValueError, match="gives one bool"):
            ops.while_loop(two, graph, 3, x)
        with pytest.raises(popart.popart_exception, match="input `go_on` of graph .* is bool"):
            ops.while_loop(graph, graph, 3, x)
        with pytest.raises(ValueError, match="Repeat count must be >= 0"):
            ops.while_loop(graph, graph, -3, x)


def test_more_iterations_than_memory_holds():
    """What a loop keeps of each iteration has a limit; how often it runs has none."""
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        graph = make_graph(lambda x: ops.sin(x), x)
        with pytest.raises(ValueError, match="(?s)float32 .1125899906842624,. is too large.*test_control_flow"):
            ops.scan(graph, [], [], x, length=2**50)
        outer = make_graph(lambda x: ops.repeat(graph, 2**50, x), x)
        text = ir.to_text().split("{", 1)[1]
        with pytest.raises(ValueError, match="each of the 1125899906842624 iterations of `repeat` at .*too large"):
            autodiff(outer)
        assert ir.to_text().split("{", 1)[1] == text
        with pytest.raises(ValueError, match="is too large: the limit is 2.47 bytes"):
            ops.init((2**30, 2**30), popxl.float32, "huge")
        with pytest.raises(ValueError, match="is too large"):
            ir.create_graph(lambda x: x, popxl.TensorSpec((2**62, 2**62), popxl.float32))


def test_scans_take_nested_inputs_and_arrays():
    def step(a, b, x, y):
        return a + x, b + y, a * b

    def function(a):
        graph = make_graph(step, a, a, a, a)
        last, stacked = ops.scan(graph, [(a, 1.0)], [[np.arange(3.0), np.ones(3)]])
        return [*last, *stacked]

    a, b, products = Program(function, [np.array(2.0)])(np.array(2.0))
    assert (a, b, products.tolist()) == (5.0, 4.0, [2.0, 4.0, 9.0])


def test_a_count_beyond_signed_integers():
    ir = popxl.Ir()
    with ir.main_graph:
        x, n = popxl.variable(1.0), popxl.variable(np.array(2**63, np.uint64), dtype=popxl.uint64)
        (y,) = ops.repeat(make_graph(lambda x: x * 2.0, x), n, x, max_repeat_count=4)
        ops.host_store(popxl.d2h_stream((), popxl.float32), y)
    with popxl.Session(ir) as session:
        with pytest.raises(popart.poplar_application_runtime_error, match="at least 9223372036854775807 times"):
            session.run()


def test_a_body_that_is_also_a_branch():
    """The loop gets a body of its own: a branch gives no more than the other one."""

    def function(x, w, b):
        body, other = make_graph(cell, x, w, b), make_graph(lambda x, w, b: x * 1.0, x, w, b)
        (h,) = ops.repeat(body, 3, x, w, b)
        (y,) = ops.conditional(popxl.constant(True), body, other, [h, w, b], [h, w, b])
        return ops.sum(y * y)

    check_gradients(function, X, W, B)


def test_gradient_graphs_given_for_what_a_body_calls():
    """They are used; one for the body itself is refused."""

    def function(x, w, b):
        inner = make_graph(cell, x, w, b)
        body = make_graph(lambda x, w, b: ops.call(inner, x, w, b), x, w, b)
        outer = make_graph(lambda x, w, b: ops.repeat(body, 2, x, w, b), x, w, b)
        given = autodiff(inner)
        with pytest.raises(popart.popart_exception, match="a loop or a conditional runs that graph"):
            autodiff(outer, called_graphs_grad_info={body: autodiff(body)})
        info = autodiff(outer, called_graphs_grad_info={inner: given})
        step = next(g for g in info.graph.called_graphs)
        assert given.graph in step.called_graphs
        return [x]

    Program(function, (X, W, B))


@pytest.mark.parametrize(
    "attributes, error, message",
    [
        ({"stacked": 3}, ValueError, "3 outputs of graph .* can't be stacked"),
        ({"stacked": -1}, ValueError, "-1 outputs of graph .* can't be stacked"),
        ({"scanned": 3}, ValueError, "3 inputs of graph .* can't be scanned"),
        ({"scanned": -1}, ValueError, "-1 inputs of graph .* can't be scanned"),
        ({"scanned": 1}, ValueError, "^To repeat the subgraph"),
        ({"repeat_count": -1}, ValueError, "^Repeat count must be >= 0"),
        ({"while_true": True}, popart.popart_exception, "carried bool of one element"),
        ({"while_true": True, "reverse": True}, ValueError, "in reverse"),
    ],
)
def test_loops_that_are_none(attributes, error, message):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        graph = make_graph(lambda x, y: (y, x), x, x)
        with pytest.raises(error, match=message):
            popxl._core.create_op("repeat", [x, x], {"graph": graph, "repeat_count": 2, **attributes}, False, [])
