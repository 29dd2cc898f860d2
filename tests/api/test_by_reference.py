"""What graphs do to their inputs in place: whether it reaches the caller, through calls, loops and branches."""

from typing import List

import numpy as np
import pytest

import popart
import popxl
from popxl import ops

both_engines = pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])


def grow(x):
    x += 1.0
    return x * 1.0


def grow_by_reference(x: popxl.TensorByRef):
    x += 1.0
    return x * 1.0


class Variables:
    """A program on two variables, of 1 and 10, with whatever `build` makes of them."""

    def __init__(self, build):
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.a, self.b = popxl.variable(1.0, name="a"), popxl.variable(10.0, name="b")
            results = build(self.ir, self.a, self.b) or ()
            self.streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
            for stream, t in zip(self.streams, results):
                ops.host_store(stream, t)

    def run(self, reference=False):
        """The variables and the results after one run."""
        with popxl.Session(self.ir, reference=reference) as session:
            outputs = session.run()
            variables = session.get_tensors_data([self.a, self.b])
        return [float(v) for v in variables.values()], [outputs[s].tolist() for s in self.streams]


def positions(kind):
    """A graph whose first input is by reference, said in one of the ways there are."""

    def plain(x: popxl.TensorByRef, y):
        x += y

    def in_list(xs: List[popxl.TensorByRef], y):
        xs[0] += y

    def variadic(y, *xs: popxl.TensorByRef):
        (x,) = xs
        x += y

    def by_name(y, **xs: popxl.TensorByRef):
        x = xs["x"]
        x += y

    def made_inside(y):
        x = popxl.graph_input((), popxl.float32, "x", by_ref=True)
        x += y

    def build(ir, a, b):
        spec = popxl.TensorSpec((), popxl.float32)
        if kind == "plain":
            ops.call(ir.create_graph(plain, spec, spec), a, b)
        elif kind == "list":
            ops.call(ir.create_graph(in_list, [spec], spec), [a], b)
        elif kind == "variadic":
            ops.call(ir.create_graph(variadic, spec, spec), b, a)
        elif kind == "by name":
            ops.call(ir.create_graph(by_name, spec, x=spec), b, a)
        else:
            graph = ir.create_graph(made_inside, spec)
            ops.call(graph, b, inputs_dict={graph.inputs_by_name["x"]: a})

    return build


@both_engines
@pytest.mark.parametrize("kind", ["plain", "list", "variadic", "by name", "made inside"])
def test_ways_to_say_by_reference(kind, reference):
    assert Variables(positions(kind)).run(reference) == ([11, 10], [])


@both_engines
def test_by_value_does_not_reach_the_caller(reference):
    assert Variables(lambda ir, a, b: ops.call(ir.create_graph(grow, a), a)).run(reference) == ([1, 10], [2])


@both_engines
@pytest.mark.parametrize("by_reference", [(True, True, True), (True, False, True), (False, True, True)])
def test_three_levels_deep(by_reference, reference):
    """The change reaches the caller only where every level passes it on."""

    def build(ir, a, b):
        graph = ir.create_graph(grow_by_reference if by_reference[2] else grow, a)
        for level in (1, 0):
            inner = graph

            def plain(x):
                return ops.call(inner, x)

            def passing_on(x: popxl.TensorByRef):
                return ops.call(inner, x)

            graph = ir.create_graph(passing_on if by_reference[level] else plain, a)
        return ops.call(graph, a)

    expected = 2 if all(by_reference) else 1
    assert Variables(build).run(reference) == ([expected, 10], [2])


@both_engines
def test_declared_modified(reference):
    def build(ir, a, b):
        graph = ir.create_graph(grow, a)
        info = ops.call_with_info(graph, a)
        info.set_parent_input_modified(a)
        assert info._op.modifiesIndex(0)
        return info.outputs

    assert Variables(build).run(reference) == ([2, 10], [2])


def test_declared_modified_where_the_graph_writes():
    def build(ir, a, b):
        graph = ir.create_graph(lambda x, y: ops.add_(ops.reshape_(x, (1,)), y), a, b)
        info = ops.call_with_info(graph, a, b)
        for t in (a, b):
            info.set_parent_input_modified(t, infer_modified_regions=True)
        assert [info._op.modifiesIndex(i) for i in range(2)] == [True, False]
        with pytest.raises(ValueError):
            info.set_parent_input_modified(info.outputs[0])

    assert Variables(build).run() == ([11, 10], [])


@both_engines
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_carried_by_reference(count, reference):
    """A carried operand by reference has the last value afterwards."""

    def build(ir, a, b):
        graph = ir.create_graph(grow_by_reference, a)
        info = ops.repeat_with_info(graph, count, a)
        assert info._op.modifiesIndex(2)
        return info.outputs

    assert Variables(build).run(reference) == ([1 + count, 10], [1 + count])


@both_engines
def test_other_inputs_of_a_loop(reference):
    """By reference the changes add up in the caller's memory; by value each time sees the same."""

    def body(total, by_value, by_reference: popxl.TensorByRef):
        by_value += 1.0
        by_reference += 1.0
        return total + by_value + by_reference

    def build(ir, a, b):
        graph = ir.create_graph(body, a, a, b)
        info = ops.repeat_with_info(graph, 3, 0.0, a, b)
        assert [info._op.modifiesIndex(i) for i in (2, 3, 4)] == [False, False, True]
        return info.outputs

    assert Variables(build).run(reference) == ([1, 13], [3 * 2 + 11 + 12 + 13])


@both_engines
def test_while_loops_by_reference(reference):
    """A body that counts in the caller's memory, and a carried operand that has the last value afterwards."""

    def body(x: popxl.TensorByRef, count: popxl.TensorByRef):
        count += 1.0
        return x * 2.0

    def build(ir, a, b):
        small = ir.create_graph(lambda x: ops.greater(popxl.constant(20.0), x), a)
        return ops.while_loop(small, ir.create_graph(body, a, b), 9, a, b)

    assert Variables(build).run(reference) == ([32, 15], [32])


@both_engines
def test_conditions_by_reference(reference):
    """A condition that counts how often it is asked, in the caller's memory."""

    def small(x, count: popxl.TensorByRef):
        count += 1.0
        return ops.greater(popxl.constant(20.0), x)

    def build(ir, a, b):
        body = ir.create_graph(lambda x, count: x * 2.0, a, b)
        return ops.while_loop(ir.create_graph(small, a, b), body, 9, a, b)

    assert Variables(build).run(reference) == ([1, 16], [32])


@both_engines
def test_slices_by_reference(reference):
    """A scan may change the slices of a tensor in place."""

    def body(total, x: popxl.TensorByRef):
        x += total
        return total + 1.0

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        xs = popxl.variable([10.0, 20.0, 30.0])
        (last,), _ = ops.scan(ir.create_graph(body, xs[0], xs[0]), [0.0], [xs])
    with popxl.Session(ir, reference=reference) as session:
        session.run()
        assert session.get_tensor_data(xs).tolist() == [10, 21, 32]


def test_unwritten_reference_in_a_loop_is_not_modified():
    def build(ir, a, b):
        def body(x, y: popxl.TensorByRef):
            return x + y

        info = ops.repeat_with_info(ir.create_graph(body, a, b), 2, a, b)
        assert not info._op.modifiesIndex(3)
        return info.outputs

    assert Variables(build).run() == ([1, 10], [21])


def test_same_memory_by_reference_twice():
    def both(x: popxl.TensorByRef, y: popxl.TensorByRef):
        x += 1.0
        y += 1.0

    def same(ir, a, b):
        ops.call(ir.create_graph(both, a, b), a, a)

    def overlapping(ir, a, b):
        ops.call(ir.create_graph(both, a, b), a, ops.reshape_(a, ()))

    for build in (same, overlapping):
        with pytest.raises(popart.popart_exception, match="the same memory by reference twice"):
            popxl.Session(Variables(build).ir)

    def by_value_too(x: popxl.TensorByRef, y):
        x += y

    program = Variables(lambda ir, a, b: ops.call(ir.create_graph(by_value_too, a, b), a, a))
    assert program.run() == ([2, 10], [])


def test_branches_take_no_references():
    ir = popxl.Ir()
    with ir.main_graph:
        a = popxl.variable(1.0)
        graphs = ir.create_graph(grow_by_reference, a), ir.create_graph(grow, a)
        for yes, no in (graphs, graphs[::-1]):
            with pytest.raises(NotImplementedError, match="by reference"):
                ops.conditional(popxl.constant(True), yes, no, [a], [a])


@both_engines
@pytest.mark.parametrize("value", [True, False])
def test_branches_with_unequal_inputs(value, reference):
    def build(ir, a, b):
        yes = ir.create_graph(lambda x, y, z: x + y + z, a, b, b)
        no = ir.create_graph(grow, a)
        return ops.conditional(popxl.constant(value), yes, no, [a, b, 5.0], [a])

    assert Variables(build).run(reference) == ([1, 10], [16 if value else 2])


@both_engines
def test_traffic_in_bodies(reference, capfd):
    """Loads, stores, remote buffers and prints inside of a loop, a branch and a call."""
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((), popxl.float32), popxl.d2h_stream((), popxl.float32)
        buffer = popxl.remote_buffer((), popxl.float32, 4)

        def exchange(k):
            with popxl.in_sequence():
                ops.remote_store(buffer, k, ops.host_load(source) * 2.0)
                ops.host_store(sink, ops.print_tensor(ops.remote_load(buffer, k), "loaded"))
            return k + 1

        k = popxl.constant(0)
        inner = ir.create_graph(exchange, k)
        keep = ir.create_graph(lambda k: k + 0, k)

        def body(k):
            (k,) = ops.call(inner, k)
            return ops.conditional(ops.greater(popxl.constant(9), k), keep, keep, [k], [k])

        ops.repeat(ir.create_graph(body, k), 4, k)
    with popxl.Session(ir, reference=reference) as session:
        assert session.run({source: [1, 2, 3, 4]})[sink].tolist() == [2, 4, 6, 8]
    assert capfd.readouterr().err.count("loaded") == 4


def test_a_graph_is_compiled_once():
    def build(ir, a, b):
        graph = ir.create_graph(lambda x: ops.sin(x), a)
        (x,) = ops.call(graph, a)
        (x,) = ops.repeat(graph, 4, x)
        return ops.conditional(popxl.constant(True), graph, graph, [x], [x])

    program = Variables(build)
    with popxl.Session(program.ir) as session:
        text = session.program_text()
    assert text.count("\n@") == 2  # main and the graph
