"""Gradients of loops, branches and calls against finite differences in float64."""

import numpy as np
import pytest
from api.programs import XS, B, Program, W, X, cell, check_gradients, less, make_graph

import popxl
from popxl import ops
from popxl.transforms import autodiff


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
