"""Remote buffers: variables kept in them, entries known only when a program runs, and what goes wrong."""

import re

import numpy as np
import pytest

import popart
import popxl
from popxl import ops

HERE = re.escape("test_remote.py")


def test_variables_in_a_buffer_are_updated_by_a_program():
    """Momentum that lives off the device: entry i of a loop over the layers of a stack."""
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((4,), popxl.float32, 3)
        kept = [popxl.remote_variable(row, buffer, i, name=f"row{i}") for i, row in enumerate(values)]
        entry = popxl.variable(0, popxl.uint32)

        def step(at: popxl.TensorByRef):
            with popxl.in_sequence():
                row = ops.remote_load(buffer, at)
                ops.remote_store(buffer, at, row * 2 + ops.cast(at, popxl.float32))
                ops.var_updates.copy_var_update_(at, at + 1)

        ops.repeat(ir.create_graph(step, entry), 3, entry)
    session = popxl.Session(ir)
    with session:
        session.run()
        got = session.get_tensors_data(kept)
    wanted = values * 2 + np.arange(3, dtype=np.float32)[:, None]
    for i, variable in enumerate(kept):
        np.testing.assert_array_equal(got[variable], wanted[i])
    session.write_variable_data(entry, np.uint32(0))
    session.write_variable_data(kept[1], values[1])
    with session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(kept[1]), wanted[1])
        np.testing.assert_array_equal(session.get_tensor_data(kept[2]), wanted[2] * 2 + 2)


def test_entries_outlive_runs_and_count_in_the_memory_report():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((8,), popxl.float64, 1)
        buffer.entries = 5  # more than when it was made
        out = popxl.d2h_stream((8,), popxl.float64, "out")
        total = ops.remote_load(buffer, 4)
        ops.host_store(out, total)
        ops.remote_store(buffer, 4, total + 1)
    with popxl.Session(ir) as session:
        assert session.memory().remote_bytes == 5 * 8 * 8
        for count in range(3):
            np.testing.assert_array_equal(session.run()[out], np.full(8, count))


def _session(use, entries=2):
    ir = popxl.Ir()
    with ir.main_graph:
        use(popxl.remote_buffer((2,), popxl.float32, entries))
    return popxl.Session(ir)


@pytest.mark.parametrize("entry", [2, -1, 2**31 - 1])
def test_an_entry_that_the_buffer_does_not_have(entry):
    session = _session(lambda buffer: ops.remote_load(buffer, popxl.variable(entry, popxl.int32)))
    with session, pytest.raises(ValueError, match=rf"at .*{HERE}:\d+ asks for entry {entry} of remote"):
        session.run()


def test_a_variable_in_an_entry_that_the_buffer_does_not_have():
    with pytest.raises(ValueError, match=rf"{HERE}:\d+ is in entry 2 of remote buffer 1, which has 2"):
        _session(lambda buffer: popxl.remote_variable([1.0, 2.0], buffer, 2))


def test_an_op_on_a_remote_variable():
    with pytest.raises(popart.popart_exception, match=r"`add` at .*use the result of a `remote_load`"):
        _session(lambda buffer: popxl.remote_variable([1.0, 2.0], buffer, 1) + 1)


def test_a_buffer_that_was_made_smaller():
    def use(buffer):
        ops.remote_load(buffer, 0)
        buffer.set_remote_buffer_info(popxl.float32, (1,), 1)

    with pytest.raises(ValueError, match=rf"type of an entry of remote buffer 1.*\n.*at .*{HERE}:\d+"):
        _session(use)


def test_a_buffer_that_is_too_large():
    with pytest.raises(ValueError, match="remote buffer 1 with .* is too large"):
        _session(lambda buffer: ops.remote_load(buffer, 0), 2**62).memory()


def test_text_form():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float16, 3)
        popxl.remote_variable(np.ones(2, np.float16), buffer, 2)
        ops.remote_store(buffer, 1, ops.remote_load(buffer, 2))
    text = ir.to_text(locations=False)
    assert "remote_load" in text and "remote_buffer 1 : float16 (2,) entries(3)" in text
    assert popxl.Ir.from_text(text).to_text(locations=False) == text


def test_a_variable_of_another_shape_with_as_many_elements():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((3,), popxl.float32, 1)
        popxl.remote_variable(np.array([[1, 2, 3]], np.float32), buffer, 0)
        stream = popxl.d2h_stream((3,), popxl.float32)
        ops.host_store(stream, ops.remote_load(buffer, 0))
    with popxl.Session(ir) as session:
        np.testing.assert_array_equal(session.run()[stream], [1, 2, 3])
