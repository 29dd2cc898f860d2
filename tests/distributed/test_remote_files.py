"""Remote buffers in files, of which every instance has one."""

import pathlib
import struct
import subprocess
import sys

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
    assert "of the processes that left them one had done 2 commits and another 4" in done.stderr


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
