"""Remote buffers in files, of which every instance has one."""

import contextlib
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time

import pytest

PROGRAM = """
import pathlib, shutil, sys
import numpy as np
import popdist, popxl
from popxl import ops
from popxl.ops import collectives

replication = "popdist" if popdist.isPopdistEnvSet() else 4
ir = popxl.Ir(replication=replication)
with ir.main_graph, popxl.in_sequence():
    buffer = popxl.replica_sharded_buffer((6,), popxl.float32, entries=3)
    w = popxl.remote_replica_sharded_variable(np.arange(6, dtype=np.float32), buffer, 2, name="w")
    x = popxl.d2h_stream(buffer.tensor_shape, popxl.float32)
    count = ops.remote_load(buffer, 0) + 1
    ops.remote_store(buffer, 0, count)
    shard = ops.remote_load(buffer, 2) * 2
    ops.remote_store(buffer, 2, shard)
    ops.host_store(x, collectives.replicated_all_reduce(count))
with popxl.Session(ir, "ipu_model", remote_storage=popxl.RemoteStorage(sys.argv[1], 64)) as session:
    for run in range(int(sys.argv[2])):
        file = pathlib.Path(sys.argv[1]) / "replica-2.remote"
        if popdist.getInstanceIndex() == 1:
            shutil.copy(file, f"{file}.{run}")
        got = session.run()[x]
    print(got.flat[0], session.get_tensor_data(w).tolist())
"""


def start(
    folder: pathlib.Path, instances: int, runs: int = 1, text: str = PROGRAM
) -> subprocess.CompletedProcess:
    program = folder / "program.py"
    program.write_text(text)
    launcher = [sys.executable, "-m", "popdist.poprun", f"--num-instances={instances}", "--num-replicas=4"]
    command = [*(launcher if instances > 1 else []), sys.executable, str(program), str(folder / f"state-{instances}"), str(runs)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("instances", [1, 2, 4])
def test_each_instance_goes_on_with_its_file(tmp_path, instances):
    for run in (1, 2, 3):
        done = start(tmp_path, instances)
        assert done.returncode == 0, done.stderr
        expected = f"{4.0 * run} {[float(i * 2**run) for i in range(6)]}"
        assert done.stdout.splitlines() == [expected] * instances


def test_an_instance_that_was_killed_a_run_earlier(tmp_path):
    """The others go back to the state that all have. Further apart, the files are refused."""
    start(tmp_path, 2, runs=3)
    folder = tmp_path / "state-2"
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "replica-2.remote").write_bytes(files["replica-2.remote.2"])
    done = start(tmp_path, 2)
    assert done.stdout.splitlines() == [f"12.0 {[i * 8.0 for i in range(6)]}"] * 2
    for name in ("replica-0.remote", "replica-2.remote"):
        (folder / name).write_bytes(files[name])
    (folder / "replica-2.remote").write_bytes(files["replica-2.remote.1"])
    done = start(tmp_path, 2)
    assert done.returncode != 0
    assert done.stderr.count("go back to one that all have: instance 0 has state 4, instance 1 has state 2;") == 2


COUNTER = """
import os, pathlib, random, sys, time
import numpy as np
import popdist, popxl
from popxl import ops

folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
me = popdist.getInstanceIndex()
ir = popxl.Ir(replication="popdist")
with ir.main_graph, popxl.in_sequence():
    buffer = popxl.remote_buffer((20000,), popxl.float32, 3)
    adds = popxl.h2d_stream((), popxl.float32)
    out = popxl.d2h_stream((3, 20000), popxl.float32)
    added = ops.host_load(adds)
    values = [ops.remote_load(buffer, i) + added for i in range(3)]
    for i, value in enumerate(values):
        ops.remote_store(buffer, i, value)
    ops.host_store(out, ops.concat([ops.reshape(value, (1, 20000)) for value in values]))
with popxl.Session(ir, "ipu_model", remote_storage=popxl.RemoteStorage(folder / "state", 100000)) as session:
    if what == "look":
        counts = np.unique(session.run({adds: 0})[out])
        (folder / f"look-{me}").write_text(" ".join(str(int(count)) for count in counts))
    else:
        chance, count = random.Random(int(what) + me), 0
        (folder / f"pid-{me}").write_text(f"{os.getpid()} is ready")
        done = open(folder / f"done-{me}", "r+b", buffering=0)  # a write is whole or not at all
        while True:
            time.sleep(chance.choice([0, 0, 0.001, 0.01]))
            count = int(session.run({adds: 1})[out][0, 0])
            done.seek(0)
            done.write(b"%09d" % count)
"""
LAUNCHER = [sys.executable, "-m", "popdist.poprun", "--num-instances=2", "--num-replicas=2", sys.executable]


def _run_and_kill(folder: pathlib.Path, program: pathlib.Path, chance: random.Random) -> None:
    """Runs two instances, which exchange nothing, and kills each at a moment of its own, milliseconds apart."""
    pids = [folder / "pid-0", folder / "pid-1"]
    for file in pids:
        file.unlink(missing_ok=True)
    command = [*LAUNCHER, str(program), str(folder), str(chance.randrange(2**30))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not all(file.exists() and file.read_text().endswith("ready") for file in pids):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.3))
        for file in chance.sample(pids, 2):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
            time.sleep(chance.uniform(0, 0.01))
        assert process.wait(timeout=60) != 0


def test_instances_that_are_killed_at_any_moment_go_on_from_one_run(tmp_path):
    """From one that both had done: none that both reported is lost, and at most one that one of them did."""
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    program = tmp_path / "program.py"
    program.write_text(COUNTER)
    done = [tmp_path / "done-0", tmp_path / "done-1"]
    state = "0"
    for _ in range(5):
        for file in done:
            file.write_text(state)
        _run_and_kill(tmp_path, program, chance)
        subprocess.run([*LAUNCHER, str(program), str(tmp_path), "look"], check=True, timeout=60)
        state, other = ((tmp_path / f"look-{i}").read_text() for i in range(2))
        assert state == other, "instances go on from different runs"
        reported = [int(file.read_text()) for file in done]
        assert min(reported) <= int(state) <= max(reported) + 1
        assert int(state) >= max(reported) - 1


def test_no_instance_waits_for_one_whose_file_is_torn(tmp_path):
    start(tmp_path, 2)
    file = tmp_path / "state-2" / "replica-2.remote"
    data = bytearray(file.read_bytes())
    at = data.index(struct.pack("<2f", 8.0, 10.0))  # replica 2's shard of w
    data[at] ^= 1
    file.write_bytes(data)
    session = "popxl.Session(ir, remote_storage=popxl.RemoteStorage(sys.argv[1], 64))"
    lines = PROGRAM.split("with popxl.Session")[0]
    lines += f"try:\n    {session}\nexcept RuntimeError as error:\n"
    lines += "    print(error, flush=True)\n    import time\n    time.sleep(60)\n    print('waited in vain')\n"
    done = start(tmp_path, 2, text=lines)
    assert "is torn in" in done.stdout
    assert "instance 0 was waiting for the others in copying variables to the host" in done.stderr
    assert "waited in vain" not in done.stdout
