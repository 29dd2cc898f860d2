"""Remote buffers in files: the same bits as in RAM, a bound on RAM, what a killed process leaves, what goes wrong."""

import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import popxl
from popxl import ops

PROGRAMS = pathlib.Path(__file__).parent / "remote_programs.py"


def _steps(layers: int, size: int, replicas: int = 1, looped: bool = False):
    """Momentum off the device, layer after layer: m = m / 2 + x * (layer + 1), and what it is goes to the host."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((size,), popxl.float32, layers)
        x = popxl.h2d_stream((size,), popxl.float32, "x")
        out = popxl.d2h_stream((size,), popxl.float32, "out")
        given = ops.host_load(x)

        def step(at: popxl.Tensor, gradient: popxl.Tensor):
            with popxl.in_sequence():
                moment = ops.remote_load(buffer, at) * 0.5 + gradient * (ops.cast(at, popxl.float32) + 1)
                ops.remote_store(buffer, at, moment)
            return at + 1

        first = popxl.constant(0, popxl.uint32)
        if looped:
            ops.repeat(ir.create_graph(step, first, given), layers, first, given)
        else:
            graph = ir.create_graph(step, first, given)
            for layer in range(layers):
                ops.call(graph, popxl.constant(layer, popxl.uint32), given)
        ops.host_store(out, ops.remote_load(buffer, layers - 1))
    return ir, x, out


def _inputs(runs: int, size: int, replicas: int):
    rows = np.random.default_rng(3).normal(size=(runs, replicas, size)).astype(np.float32)
    return rows if replicas > 1 else rows[:, 0]


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("room", [0, 1, 2.5, 100], ids="{} entries".format)
def test_files_give_the_bits_of_ram(tmp_path, room, looped, replicas):
    layers, size, runs = 9, 1500, 4
    inputs = _inputs(runs, size, replicas)
    wanted = np.zeros_like(inputs[0])
    for row in inputs:
        wanted = wanted * np.float32(0.5) + row * np.float32(layers)
    got = []
    for storage in (None, popxl.RemoteStorage(tmp_path, int(room * 4 * size))):
        ir, x, out = _steps(layers, size, replicas, looped)
        with popxl.Session(ir, "ipu_model", remote_storage=storage) as session:
            got.append([session.run({x: row})[out] for row in inputs])
    np.testing.assert_array_equal(*got)
    np.testing.assert_array_equal(got[0][-1], wanted)


def test_the_reference_engine_uses_files_too(tmp_path):
    ir, x, out = _steps(3, 5)
    inputs = _inputs(2, 5, 1)
    got = []
    for storage in (None, tmp_path):
        with popxl.Session(ir, reference=True, remote_storage=storage) as session:
            got.append([session.run({x: row})[out] for row in inputs])
    np.testing.assert_array_equal(*got)


def test_a_session_goes_on_where_another_ended(tmp_path):
    inputs = _inputs(4, 64, 1)
    ir, x, out = _steps(5, 64)
    with popxl.Session(ir) as session:
        wanted = [session.run({x: row})[out] for row in inputs]
    for row, value in zip(inputs, wanted):
        ir, x, out = _steps(5, 64)
        with popxl.Session(ir, remote_storage=tmp_path) as session:
            np.testing.assert_array_equal(session.run({x: row})[out], value)
            session.flush_remote_buffers()


def _counter(start: float = 0.0):
    """A variable in a remote buffer that every run adds 1 to, and one that it does not."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((3,), popxl.float32, 4)
        count = popxl.remote_variable(np.full(3, start, np.float32), buffer, 1, name="count")
        still = popxl.remote_variable(np.full(3, start, np.float32), buffer, 2, name="still")
        ops.remote_store(buffer, 1, ops.remote_load(buffer, 1) + 1)
    return ir, count, still


def test_variables_in_files_are_those_of_the_files(tmp_path):
    ir, count, still = _counter(5)
    with popxl.Session(ir, remote_storage=tmp_path) as session:
        session.run()
        session.run()
    ir, count, still = _counter(0)
    session = popxl.Session(ir, remote_storage=tmp_path)
    assert session.get_tensor_data(count).tolist() == [7.0] * 3
    assert session.get_tensor_data(still).tolist() == [5.0] * 3
    session.write_variable_data(still, np.full(3, 9, np.float32))  # the host's value is newer then
    with session:
        session.run()
        assert session.get_tensor_data(count).tolist() == [8.0] * 3
        assert session.get_tensor_data(still).tolist() == [9.0] * 3


def test_a_variable_over_a_read_only_memmap_goes_on_too(tmp_path):
    """Its file of initial values stays as it is; with it in RAM each session begins with them."""
    np.full(3, 5, np.float32).tofile(tmp_path / "initial")

    def run(storage) -> list:
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            buffer = popxl.remote_buffer((3,), popxl.float32, 1)
            initial = np.memmap(tmp_path / "initial", np.float32, "r")
            count = popxl.remote_variable(initial, buffer, 0, name="count")
            out = popxl.d2h_stream((3,), popxl.float32, "out")
            value = ops.remote_load(buffer, 0) + 1
            ops.remote_store(buffer, 0, value)
            ops.host_store(out, value)
        session = popxl.Session(ir, remote_storage=storage)
        got = []
        for _ in range(2):  # contexts of one session
            with session:
                got += [session.run()[out][0], session.run()[out][0]]
        assert session.get_tensor_data(count).tolist() == [5.0] * 3
        return got

    assert run(tmp_path / "state") == [6, 7, 8, 9]
    assert run(tmp_path / "state") == [10, 11, 12, 13]
    assert run(None) == [6, 7, 6, 7]
    assert np.fromfile(tmp_path / "initial", np.float32).tolist() == [5.0] * 3


def test_a_variable_with_more_than_an_entry():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((5,), popxl.float32, 1)
        popxl.remote_variable(np.arange(5, dtype=np.float32), buffer, 0)
        buffer.set_remote_buffer_info(popxl.float32, (2,), 1)
    with pytest.raises(ValueError, match=r"float32 \(5,\); remote buffer 1, .* holds tensors of float32 \(2,\)"):
        popxl.Session(ir)


@pytest.mark.parametrize("ram_bytes", [None, 0, 1 << 20])
def test_a_variable_with_less_than_an_entry(tmp_path, ram_bytes):
    """The rest of the entry stays when the variable is written."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((8,), popxl.float32, 1)
        part = popxl.remote_replica_sharded_variable(np.arange(5, dtype=np.float32), buffer, 0)
        out = popxl.d2h_stream((8,), popxl.float32, "out")
        value = ops.remote_load(buffer, 0)
        ops.host_store(out, value)
        ops.remote_store(buffer, 0, value + 10)
    storage = None if ram_bytes is None else popxl.RemoteStorage(tmp_path, ram_bytes)
    with popxl.Session(ir, "ipu_model", remote_storage=storage) as session:
        assert session.run()[out].tolist() == [[0, 1, 2, 3, 4, 0, 0, 0]] * 2
        assert session.get_tensor_data(part).tolist() == [10, 11, 12, 13, 14]
        session.write_variable_data(part, np.zeros(5, np.float32))
        assert session.run()[out].tolist() == [[0, 0, 0, 0, 0, 10, 10, 10]] * 2


def test_a_run_that_fails_leaves_the_files_as_they_were(tmp_path):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, 2)
        at = popxl.h2d_stream((), popxl.int32, "at")
        out = popxl.d2h_stream((2,), popxl.float32, "out")
        value = ops.remote_load(buffer, 0) + 1
        ops.remote_store(buffer, 0, value)
        ops.host_store(out, value)
        ops.remote_load(buffer, ops.host_load(at))
    for room in (0, 1 << 20):
        folder = tmp_path / str(room)
        with popxl.Session(ir, remote_storage=popxl.RemoteStorage(folder, room)) as session:
            assert session.run({at: 1})[out][0] == 1
            with pytest.raises(ValueError, match="asks for entry 7 of remote buffer 1"):
                session.run({at: 7})
            session.weights_from_host()
            assert session.run({at: 1})[out][0] == 2
        with popxl.Session(ir, remote_storage=folder) as session:
            assert session.run({at: 1})[out][0] == 3


def _run(*arguments, **options) -> subprocess.Popen:
    command = [sys.executable, str(PROGRAMS), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def _output(*arguments) -> str:
    process = _run(*arguments)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return text


def test_the_bound_on_ram_is_held(tmp_path):
    """4 and 16 times the bound: what the process has beyond the program with one entry stays below the bound."""
    bound, entry = 16 << 20, 1 << 20
    slack = 4 << 20
    base = int(_output("rss", tmp_path / "base", 1, entry, bound))
    for entries in (64, 256):
        most = int(_output("rss", tmp_path / str(entries), entries, entry, bound))
        assert most <= base + bound + slack, f"{most - base} bytes more than with one entry; {bound} are allowed"


@pytest.mark.parametrize("sync", [False, True])
def test_a_process_killed_at_any_moment_loses_no_run(tmp_path, sync):
    """Each run adds 1 to all entries: the file has a whole number of runs, at least those that were reported."""
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    done = 0
    for _ in range(6):
        process = _run("count", tmp_path, int(sync), "forever")
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        reported = [int(line) for line in process.communicate()[0].splitlines(True) if line.endswith("\n")]
        done = max([done, *reported])
        counts = {int(float(value)) for value in _output("count", tmp_path, int(sync), "look").split()}
        assert len(counts) == 1, f"entries of different runs: {counts}"
        count = counts.pop()
        assert done <= count <= done + 1
        done = count


def _made(folder: pathlib.Path) -> pathlib.Path:
    """The file of three runs."""
    ir, _, _ = _counter()
    with popxl.Session(ir, remote_storage=folder) as session:
        for _ in range(3):
            session.run()
    return folder / "replica-0.remote"


def _again(folder: pathlib.Path) -> np.ndarray:
    ir, count, _ = _counter()
    return popxl.Session(ir, remote_storage=folder).get_tensor_data(count)


def test_a_file_that_is_cut_off(tmp_path):
    file = _made(tmp_path)
    whole = file.read_bytes()
    data = len(whole) - 4096  # 4 entries of two slots of 64 bytes
    places = {0: "too short", 9: "too short", 13000: "its list of entries", data + 300: "entry 2 of remote buffer 1"}
    for size, what in places.items():
        file.write_bytes(whole[:size])
        with pytest.raises(RuntimeError, match=what):
            _again(tmp_path)
        assert file.read_bytes() == whole[:size]
    file.write_bytes(whole)
    assert _again(tmp_path).tolist() == [3.0] * 3


@pytest.mark.parametrize("piece", [16, 512])
def test_any_damage_is_told_or_does_no_harm(tmp_path, piece):
    """Pieces of the file become zeros, or what they were a run before, as when the machine stops."""
    file = _made(tmp_path / "a")
    whole = file.read_bytes()
    ir, _, _ = _counter()
    with popxl.Session(ir, remote_storage=tmp_path / "a") as session:
        pass  # stores all again
    after = file.read_bytes()
    assert after != whole
    folder = tmp_path / "b"
    folder.mkdir()
    errors = 0
    for old in (bytes(len(after)), whole):
        for at in range(0, len(after), piece):
            damaged = after[:at] + old[at : at + piece] + after[at + piece :]
            if damaged == after:
                continue
            (folder / file.name).write_bytes(damaged)
            try:
                assert _again(folder).tolist() == [3.0] * 3
            except RuntimeError as error:
                errors += 1
                assert re.search(r"torn|damaged|cut off|another program", str(error)), error
    assert errors > 3


def test_an_entry_that_is_torn_is_named_where_it_is_loaded(tmp_path):
    def program():
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            buffer = popxl.remote_buffer((1024,), popxl.float32, 3)
            ops.remote_load(buffer, 2)
            ops.remote_store(buffer, 2, popxl.constant(np.ones(1024, np.float32)))
        return ir

    with popxl.Session(program(), remote_storage=tmp_path) as session:
        session.run()
    file = tmp_path / "replica-0.remote"
    data = bytearray(file.read_bytes())
    at = data.index(struct.pack("<f", 1.0) * 1024)
    data[at + 2048 : at + 4096] = bytes(2048)
    file.write_bytes(data)
    with popxl.Session(program(), remote_storage=tmp_path) as session:
        with pytest.raises(RuntimeError, match=r"`remote_load` at .*entry 2 of remote buffer 1 is torn in .*remote:"):
            session.run()


@pytest.mark.parametrize(
    "entries, size, what",
    [
        (4, 4, r"`buffer 1: float32 \(3,\), 4 entries of 12 bytes` where this one has `buffer 1: float32 \(4,\)"),
        (5, 3, r"`buffer 1: float32 \(3,\), 4 entries of 12 bytes` where this one has .* 5 entries of 12"),
    ],
)
def test_a_file_of_another_program(tmp_path, entries, size, what):
    file = _made(tmp_path)
    before = file.read_bytes()
    ir = popxl.Ir()
    with ir.main_graph:
        ops.remote_load(popxl.remote_buffer((size,), popxl.float32, entries), 0)
    with pytest.raises(RuntimeError, match=f"belongs to another program: it has {what}"):
        popxl.Session(ir, remote_storage=tmp_path)
    assert file.read_bytes() == before
    file.write_bytes(b"a letter" * 4096)
    with pytest.raises(RuntimeError, match="no file of remote buffers or is damaged: it begins with other bytes"):
        popxl.Session(ir, remote_storage=tmp_path)
    assert file.read_bytes() == b"a letter" * 4096


def test_one_session_at_a_time_has_a_file(tmp_path):
    ir, _, _ = _counter()
    with popxl.Session(ir, remote_storage=tmp_path):
        with pytest.raises(RuntimeError, match="is in use by another session; detach that one first"):
            popxl.Session(ir, remote_storage=tmp_path)
    with popxl.Session(ir, remote_storage=tmp_path) as session:
        session.run()


def test_a_forked_process_leaves_the_files_alone(tmp_path):
    """It is told so, ends as any other, and does not keep its parent from the files either."""
    done = _output("fork", tmp_path).splitlines()
    told = [
        r"child: this process was forked from the one that the session belongs to, which keeps remote buffers in /",
        r"child: .*replica-0.remote is in use by another session",
        "child: 1.0 in RAM",
        "child ends with 0",
        "parent: 2.0",
        "parent: 3.0",
    ]
    assert len(done) == len(told)
    for pattern in told:
        assert any(re.match(pattern, line) for line in done), done


def test_a_process_that_was_killed_while_it_made_the_file(tmp_path):
    (tmp_path / "replica-0.remote.new").write_bytes(b"part of it")
    _made(tmp_path)
    assert os.listdir(tmp_path) == ["replica-0.remote"]
    assert _again(tmp_path).tolist() == [3.0] * 3


def test_folders_that_can_hold_no_file(tmp_path):
    ir, _, _ = _counter()
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="can't make the folder .*file/sub for remote buffers: Not a directory"):
        popxl.Session(ir, remote_storage=tmp_path / "file" / "sub")
    with pytest.raises(RuntimeError, match="can't make .*/proc"):
        popxl.Session(ir, remote_storage="/proc/remote")
    with pytest.raises(ValueError, match="names no folder"):
        popxl.Session(ir, remote_storage="")
    with pytest.raises(ValueError, match="-1 bytes of RAM for remote buffers"):
        popxl.Session(ir, remote_storage=popxl.RemoteStorage(tmp_path, -1))
    with popxl.Session(ir) as session, pytest.raises(ValueError, match="attached"):
        session._pb_session._release()
        session._pb_session._engine.flush_remote_buffers()


def test_a_disk_that_is_too_small(tmp_path):
    """Nothing is left behind, and no write meets a full disk later: its space is taken when the file is made."""
    ir = popxl.Ir()
    with ir.main_graph:
        ops.remote_load(popxl.remote_buffer((1 << 20,), popxl.float32, 1 << 30), 0)
    with pytest.raises(RuntimeError, match=r"needs \d+ bytes, and its disk has \d+ free; make room, or name a folder"):
        popxl.Session(ir, remote_storage=tmp_path)
    assert os.listdir(tmp_path) == []
    limited = _run("limited", tmp_path, stderr=subprocess.STDOUT)
    assert "can't reserve the disk space of" in limited.communicate()[0]
    assert os.listdir(tmp_path) == []
    ir, x, out = _steps(4, 1 << 16)
    with popxl.Session(ir, remote_storage=tmp_path):
        file = tmp_path / "replica-0.remote"
        assert file.stat().st_blocks * 512 >= file.stat().st_size > 8 << 18


@pytest.mark.parametrize("ram_bytes", [0, 1 << 19, 1 << 24])
def test_a_disk_that_fails(tmp_path, ram_bytes):
    before, failed, after = _output("failing", tmp_path, ram_bytes).splitlines()
    assert (before, after) == ("1.0", "2.0")
    assert re.search(r"can't write to .*remote: File too large", failed)


def test_the_memory_report_has_what_is_in_ram(tmp_path):
    ir, _, _ = _steps(8, 1024)
    assert popxl.Session(ir).memory().remote_bytes == 8 * 4096
    assert popxl.Session(ir, remote_storage=popxl.RemoteStorage(tmp_path, 5000)).memory().remote_bytes == 5000
    assert popxl.Session(ir, remote_storage=tmp_path).memory().remote_bytes == 8 * 4096
