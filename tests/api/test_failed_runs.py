"""Runs that fail half way, and runs that are refused: what the error says, and what is left as it was."""

import re

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.ops import var_updates

HERE = re.escape(__file__.rsplit("/", 1)[-1])


class Loop:
    """Adds up the entries of a stream in a repeat; it takes `taken` of them, a run may give `given`."""

    def __init__(self, taken: int = 3, given: int = 3) -> None:
        self.ir = popxl.Ir()
        self.ir.num_host_transfers = given
        with self.ir.main_graph, popxl.in_sequence():
            self.source = popxl.h2d_stream((2,), popxl.float32, "source")
            self.sink = popxl.d2h_stream((2,), popxl.float32, "sink")
            self.total = popxl.variable(np.zeros(2, np.float32), name="total")
            self.other = popxl.variable(np.ones(2, np.float32), name="other")
            with popxl.in_sequence():
                graph = self.ir.create_graph(self.body, self.total)
            ops.repeat(graph, taken, self.total)

    def body(self, total: popxl.TensorByRef) -> None:
        value = ops.host_load(self.source)
        var_updates.accumulate_(total, value)
        ops.host_store(self.sink, total)


def failing() -> Loop:
    """The third entry is missing when the variable has been updated twice."""
    return Loop(taken=3, given=2)


ENTRIES = np.array([[1, 2], [3, 4]], np.float32)


def test_error_names_stream_op_and_line():
    loop = failing()
    with popxl.Session(loop.ir, "cpu", weights_to_host_on_exit=False) as session:
        with pytest.raises(Exception, match="source") as caught:
            session.run({loop.source: ENTRIES})
    assert isinstance(caught.value, (ValueError, popart.popart_exception, popart.poplar_exception))
    assert not isinstance(caught.value, popart.popart_internal_exception)
    assert "host_load" in str(caught.value)
    assert re.search(HERE + r":\d+", str(caught.value))


def test_session_refuses_to_run_until_variables_are_written():
    loop = failing()
    with popxl.Session(loop.ir, "cpu") as session:
        with pytest.raises(Exception, match="source"):
            session.run({loop.source: ENTRIES})
        for _ in range(2):
            with pytest.raises(popart.popart_runtime_error, match="write_variables_data or weights_from_"):
                session.run({loop.source: ENTRIES})
        session.weights_from_host()
        with pytest.raises(Exception, match="source"):
            session.run({loop.source: ENTRIES})
        session.write_variable_data(loop.total, np.full(2, 5, np.float32))
        with pytest.raises(Exception, match="source"):
            session.run({loop.source: ENTRIES})
        np.testing.assert_array_equal(session.get_tensor_data(loop.total), [5, 5])


def test_host_keeps_the_last_good_values():
    loop = failing()
    with popxl.Session(loop.ir, "cpu") as session:
        session.write_variable_data(loop.total, np.array([7, 8], np.float32))
        with pytest.raises(Exception, match="source"):
            session.run({loop.source: ENTRIES})
        np.testing.assert_array_equal(session.get_tensor_data(loop.total), [7, 8])
        session.weights_to_host()
        values = session.get_tensors_data([loop.total, loop.other])
        np.testing.assert_array_equal(values[loop.total], [7, 8])
    np.testing.assert_array_equal(session.get_tensor_data(loop.total), [7, 8])
    with session, pytest.raises(Exception, match="source"):  # entering writes the variables
        session.run({loop.source: ENTRIES})
    np.testing.assert_array_equal(session.get_tensor_data(loop.total), [7, 8])


def test_values_of_earlier_good_runs_are_not_given_back_stale():
    """The host has the values of before the good run; the failed one has spoilt the device's."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((), popxl.float32, "source")
        fails = popxl.h2d_stream((), popxl.bool, "fails")
        total = popxl.variable(np.float32(0), name="total")
        other = popxl.variable(np.float32(1), name="other")
        var_updates.accumulate_(total, ops.host_load(source))

        def once_more() -> popxl.Tensor:
            return ops.host_load(source)

        def zero() -> popxl.Tensor:
            return popxl.constant(0.0)

        branches = ir.create_graph(once_more), ir.create_graph(zero)
        sink = popxl.d2h_stream((), popxl.float32, "sink")
        ops.host_store(sink, ops.conditional(ops.host_load(fails), *branches)[0])
    session = popxl.Session(ir, "cpu")
    with pytest.raises(popart.popart_runtime_error, match="are lost"), session:
        session.run({source: np.float32(5), fails: False})
        with pytest.raises(ValueError, match="source"):
            session.run({source: np.float32(5), fails: True})
        for use in (
            lambda: session.get_tensor_data(total),
            lambda: session.write_variable_data(total, np.float32(2)),
            session.weights_to_host,
        ):
            with pytest.raises(popart.popart_runtime_error, match="are lost"):
                use()
        # Leaving says it too: nothing is silently lost.
    with session:
        session.run({source: np.float32(5), fails: False})
        with pytest.raises(ValueError, match="source"):
            session.run({source: np.float32(5), fails: True})
        session.write_variables_data({total: np.float32(2), other: np.float32(3)})
        session.run({source: np.float32(5), fails: False})
        assert session.get_tensor_data(total) == 7
        assert session.get_tensor_data(other) == 3


def test_another_session_is_not_affected():
    loop = failing()
    bad = popxl.Session(loop.ir, "cpu")
    with bad, pytest.raises(Exception, match="source"):
        bad.run({loop.source: ENTRIES})
    loop.ir.num_host_transfers = 3
    good = popxl.Session(loop.ir, "cpu")
    with good:
        out = good.run({loop.source: np.ones((3, 2), np.float32)})[loop.sink]
    np.testing.assert_array_equal(out, [[1, 1], [2, 2], [3, 3]])


@pytest.mark.parametrize(
    "inputs, error",
    [
        (None, ValueError),
        (np.zeros((3, 3), np.float32), ValueError),
        (np.zeros((2, 2), np.float32), ValueError),
        (np.zeros(2, np.float32), ValueError),
        (np.zeros((3, 2), np.complex64), TypeError),
        ("text", (TypeError, ValueError)),
    ],
)
def test_refused_runs_change_nothing(inputs, error):
    loop = Loop()
    good = np.ones((3, 2), np.float32)
    out = np.full((3, 2), 9, np.float32)
    with popxl.Session(loop.ir, "cpu") as session:
        session.run({loop.source: good})
        kept = inputs.copy() if isinstance(inputs, np.ndarray) else inputs
        with pytest.raises(error, match="source"):
            session.run_with_outputs({} if inputs is None else {loop.source: inputs}, {loop.sink: out})
        if isinstance(inputs, np.ndarray):
            np.testing.assert_array_equal(inputs, kept)
        np.testing.assert_array_equal(out, 9)
        np.testing.assert_array_equal(session.get_tensor_data(loop.total), [3, 3])
        session.run_with_outputs({loop.source: good}, {loop.sink: out})
        np.testing.assert_array_equal(out, [[4, 4], [5, 5], [6, 6]])


def test_refused_outputs_change_nothing():
    loop = Loop()
    good = {loop.source: np.ones((3, 2), np.float32)}
    with popxl.Session(loop.ir, "cpu") as session:
        for outputs, error in (
            ({}, ValueError),
            ({loop.sink: np.zeros((2, 2), np.float32)}, ValueError),
            ({loop.sink: np.zeros((3, 2), np.float64)}, TypeError),
            ({loop.sink: [[0.0] * 2] * 3}, TypeError),
        ):
            with pytest.raises(error, match="sink"):
                session.run_with_outputs(good, outputs)
            np.testing.assert_array_equal(session.get_tensor_data(loop.total), 0)
        np.testing.assert_array_equal(session.run(good)[loop.sink][-1], [3, 3])
