"""Loops and branches: their values, how often they run, what they refuse."""

import numpy as np
import pytest
from api.programs import XS, B, Program, W, X, cell, check_gradients, less, make_graph

import popart
import popxl
from popxl import ops
from popxl.transforms import autodiff


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


@pytest.mark.parametrize(
    "count, said",
    [(np.int32(5), "run 5 times"), (np.uint64(2**63), "run at least 9223372036854775807 times")],
)
def test_more_trips_than_allowed(count, said):
    ir = popxl.Ir()
    with ir.main_graph:
        x, n = popxl.variable(1.0), popxl.variable(count, downcast=False)
        (y,) = ops.repeat(make_graph(lambda x: x * 2.0, x), n, x, max_repeat_count=4)
        ops.host_store(popxl.d2h_stream((), popxl.float32), y)
    with popxl.Session(ir) as session:
        with pytest.raises(popart.poplar_application_runtime_error, match=f"{said}.*4 times at most"):
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
        message = "contains a modifying op: `add_` at .*test_loops"
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
        with pytest.raises(ValueError, match="(?s)float32 .1125899906842624,. is too large.*test_loops"):
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
