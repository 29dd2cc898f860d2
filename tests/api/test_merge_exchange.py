"""Transfers that are merged: what is left in the graph, and what the program does."""

import numpy as np
import pytest

import popxl
from popxl import ops, transforms


def types(graph):
    return [op.opType() for op in graph._pb_graph.getOps()]


@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
def test_merged_transfers_run(reference):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        a, b = popxl.h2d_stream((2,), popxl.float32), popxl.h2d_stream((2,), popxl.float32)
        sinks = [popxl.d2h_stream((2,), popxl.float32) for _ in range(3)]
        buffer = popxl.remote_buffer((2,), popxl.float32, 2)
        v = popxl.variable(np.float32([5, 6]))
        ops.remote_store(buffer, 1, v)
        with transforms.io_tile_exchange():
            x = ops.host_load(a, "x")
            y = ops.host_load(b, "y")
            z = ops.remote_load(buffer, 1, "z")
            ops.host_store(sinks[0], v)
        ops.host_store(sinks[1], x - y)
        ops.host_store(sinks[2], z + x)
    assert types(ir.main_graph).count("MultiExchange") == 1 and "HostLoad" not in types(ir.main_graph)
    assert x.name == "x_hostload" and x.shape == (2,) and not x._pb_tensor.erased
    assert ir.get_all_h2d_streams() == {a, b}
    text = ir._pb_ir.text()
    assert popxl._core.Ir.parse(text).text() == text
    with popxl.Session(ir, reference=reference) as session:
        got = session.run({a: [1, 2], b: [10, 20]})
    assert [got[s].tolist() for s in sinks] == [[5, 6], [-9, -18], [6, 8]]


def test_transfers_that_depend_on_each_other_stay_apart():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(False):
        a, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        with transforms.merge_exchange():
            x = ops.host_load(a)
            ops.host_store(sink, x + 1)
    assert "MultiExchange" not in types(ir.main_graph)
    with ir.main_graph, pytest.raises(RuntimeError, match="More than one op is left of io_tile_exchange"):
        with transforms.io_tile_exchange():
            ops.host_store(sink, ops.host_load(a))


def test_the_order_of_a_stream_is_kept():
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph:
        a, sink = popxl.h2d_stream((), popxl.float32), popxl.d2h_stream((), popxl.float32)
        with transforms.merge_exchange():
            x, y = ops.host_load(a), ops.host_load(a)
        with popxl.in_sequence():
            ops.host_store(sink, x)
            ops.host_store(sink, y)
    with popxl.Session(ir) as session:
        assert session.run({a: [1.0, 2.0]})[sink].tolist() == [1, 2]
