"""The memory of a session, known before it runs: sizes, what is in use at the peak, whether it fits."""

import numpy as np
import pytest

import popxl
from popxl import ops


def two_products() -> popxl.Session:
    """At the second product three tensors of 64 KiB are in use: its operands and its result."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        sink = popxl.d2h_stream((128, 128), popxl.float32, "sink")
        w = popxl.variable(np.ones((128, 128), np.float32), name="w")
        first = ops.matmul(w, w)
        ops.host_store(sink, ops.matmul(first, ops.exp(w)))
    return popxl.Session(ir)


def test_peak_names_tensors_ops_and_lines():
    report = two_products().memory()
    assert report.peak_op == "matmul" and "test_memory.py:" in report.peak_location
    large = [item for item in report.at_peak if item.bytes == 128 * 128 * 4]
    assert sorted(item.op for item in large) == ["exp", "matmul", "matmul"]
    assert all("test_memory.py:" in item.location and item.graph == "main" for item in large)
    assert all(item.type == "float32 (128, 128)" for item in large)
    sizes = [item.bytes for item in report.at_peak]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) <= report.live_lower_bound <= report.frame_bytes  # sizes are rounded up to 64 bytes
    assert report.live_lower_bound < sum(sizes) + 64 * len(sizes)


def test_peak_inside_a_called_graph():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        sink = popxl.d2h_stream((64,), popxl.float32, "sink")
        x = popxl.variable(np.ones((64, 64), np.float32), name="x")
        kept = ops.softmax(x[0], 0)

        def body(x: popxl.Tensor):
            return ops.sum(ops.exp(x) @ ops.sin(x), 0)

        graph = ir.create_graph(body, x.spec)
        (y,) = ops.call(graph, x)
        ops.host_store(sink, y + kept)
    report = popxl.Session(ir).memory()
    graphs = {item.graph for item in report.at_peak}
    assert report.peak_op == "matmul" and "main" in graphs and len(graphs) == 2
    assert {item.op for item in report.at_peak if item.graph == "main"} >= {"softmax"}  # in use during the call


def test_fits():
    report = two_products().memory()
    assert report.total == report.frame_bytes + report.variable_bytes + report.constant_bytes
    assert report.fits(report.total) and not report.fits(report.total - 1)
    with pytest.raises(ValueError, match="a size of -1 bytes: it must not be negative"):
        report.fits(-1)


def test_table():
    report = two_products().memory()
    lines = str(report).splitlines()
    assert lines[0] == (
        f"memory: frame {report.frame_bytes}, variables 65536, constants 0, total {report.total} bytes"
    )
    assert lines[1].startswith("the frame is fullest at `matmul` at ")
    assert any(" float32 (128, 128)  // matmul" in line for line in lines)
    assert len(lines) == 2 + len(report.at_peak)
    short = report.table(limit=1).splitlines()
    assert len(short) == 4 and short[3].endswith(f"in {len(report.at_peak) - 1} more")


def test_an_empty_program_needs_nothing():
    report = popxl.Session(popxl.Ir()).memory()
    assert report.total == 0 and report.at_peak == [] and report.fits(0)
    assert str(report) == "memory: frame 0, variables 0, constants 0, total 0 bytes\n"


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("changed", [False, True])
def test_carried_values_of_a_loop(count, kept, changed):
    """Iteration 0 reads the operand where it lies, or takes its memory over, and never changes it for others."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((3,), popxl.float32, "source")
        sinks = [popxl.d2h_stream((3,), popxl.float32, f"sink{i}") for i in range(2)]
        start = ops.host_load(source) * 2.0

        def body(x: popxl.Tensor):
            return (ops.relu_(x) if changed else x) * 3.0

        (y,) = ops.repeat(ir.create_graph(body, start), count, start)
        ops.host_store(sinks[0], y)
        ops.host_store(sinks[1], start + 1.0 if kept else y)
    session = popxl.Session(ir)
    given = np.array([1, -2, 3], np.float32)
    with session:
        for _ in range(2):
            outputs = session.run({source: given})
    want = 2 * given
    for _ in range(count):
        want = (np.maximum(want, 0) if changed else want) * 3
    np.testing.assert_array_equal(outputs[sinks[0]], want)
    np.testing.assert_array_equal(outputs[sinks[1]], 2 * given + 1 if kept else want)


def test_carried_values_that_share_memory():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        sinks = [popxl.d2h_stream((2,), popxl.float32, f"sink{i}") for i in range(2)]
        v = popxl.variable([1.0, 2.0], name="v")
        start = v * 1.0

        def body(a: popxl.Tensor, b: popxl.Tensor):
            return a + b, a * 2.0

        results = ops.repeat(ir.create_graph(body, start, start), 3, start, start)
        for sink, result in zip(sinks, results):
            ops.host_store(sink, result)
    with popxl.Session(ir) as session:
        outputs = session.run()
    a = b = np.array([1, 2], np.float32)
    for _ in range(3):
        a, b = a + b, a * 2
    np.testing.assert_array_equal(outputs[sinks[0]], a)
    np.testing.assert_array_equal(outputs[sinks[1]], b)


def test_a_carried_value_that_the_loop_also_changes_by_reference():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        sink = popxl.d2h_stream((2,), popxl.float32, "sink")
        v = popxl.variable([1.0, 2.0], name="v")

        def body(a: popxl.Tensor, v: popxl.TensorByRef):
            ops.add_(v, popxl.constant([10.0, 10.0]))
            return a + v

        (y,) = ops.repeat(ir.create_graph(body, v, v), 2, v, v)
        ops.host_store(sink, y)
    with popxl.Session(ir) as session:
        outputs = session.run()
        np.testing.assert_array_equal(outputs[sink], [1 + 11 + 21, 2 + 12 + 22])
        np.testing.assert_array_equal(session.get_tensor_data(v), [21, 22])
