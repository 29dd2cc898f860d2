"""Runs over several instances that fail: everyone ends, and says what it was doing."""

import os
import pathlib
import subprocess
import sys
import time

PROGRAM = """
import os, signal
import numpy as np
import popdist, popxl
from popxl import ops
from popxl.ops import collectives

ir = popxl.Ir(replication="popdist")
with ir.main_graph, popxl.in_sequence():
    x_stream = popxl.h2d_stream((), popxl.float32)
    x = ops.host_load(x_stream)
    {body}
with popxl.Session(ir, "cpu") as session:
    session.run({{x_stream: np.arange(2) if popdist.getInstanceIndex() == 0 else np.arange(2) + 2}})
    if popdist.getInstanceIndex() == 1:
        {last_words}
    session.run({{x_stream: np.zeros(2)}})
"""
REDUCE = "collectives.replicated_all_reduce_(x)  # here"


def launch(
    folder: pathlib.Path, body: str, last_words: str = "pass", program: str = PROGRAM
) -> subprocess.CompletedProcess:
    file = folder / "program.py"
    file.write_text(program.format(body=body, last_words=last_words))
    command = [sys.executable, "-m", "popdist.poprun", "--num-instances=2", "--num-replicas=4", sys.executable, str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def line_of(folder: pathlib.Path) -> int:
    lines = (folder / "program.py").read_text().splitlines()
    return next(i + 1 for i, line in enumerate(lines) if "# here" in line)


def test_killed(tmp_path: pathlib.Path) -> None:
    started = time.monotonic()
    done = launch(tmp_path, REDUCE, "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode != 0
    assert time.monotonic() - started < 60  # of which the start takes most; nothing hangs
    place = f"`replicated_all_reduce_` at {tmp_path / 'program.py'}:{line_of(tmp_path)} (replicas 0 to 1)"
    assert f"instance 0 was waiting for the others in {place}" in done.stderr
    assert "poprun: instance 1 (replicas 2 to 3, host localhost) failed first" in done.stderr


def test_exception(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, REDUCE, "raise ArithmeticError('of one instance')")
    assert done.returncode != 0
    assert "ArithmeticError: of one instance" in done.stderr
    place = f"`replicated_all_reduce_` at {tmp_path / 'program.py'}:{line_of(tmp_path)} (replicas 0 to 1)"
    assert f"instance 0 was waiting for the others in {place}, but instance 1 has ended without it" in done.stderr


def test_ended_when_its_session_is_gone(tmp_path: pathlib.Path) -> None:
    last = "del session\nif popdist.getInstanceIndex() == 1:\n    os.kill(os.getpid(), signal.SIGTERM)\n"
    done = launch(tmp_path, REDUCE, program=PROGRAM + last)
    assert done.returncode != 0
    place = f"`replicated_all_reduce_` at {tmp_path / 'program.py'}:{line_of(tmp_path)} (replicas 2 to 3)"
    assert f"instance 1 was busy after {place} when the run was ended" in done.stderr


def test_a_forked_process_is_no_instance(tmp_path: pathlib.Path) -> None:
    """It is told so, and the others are not told that it has ended."""
    text = PROGRAM.format(body=REDUCE, last_words="pass").partition("    if popdist")[0]
    child = (
        "    if os.fork() == 0:\n"
        "        for work in (lambda: session.run({x_stream: np.zeros(2)}), lambda: popxl.Session(ir, 'cpu')):\n"
        "            try:\n"
        "                work()\n"
        "            except RuntimeError as error:\n"
        "                print(error)\n"
        "        raise SystemExit\n"
        "    os.wait()\n"
        "    session.run({x_stream: np.zeros(2)})\n"
        "    print('end')\n"
    )
    program = tmp_path / "program.py"
    program.write_text(text + child)
    command = [sys.executable, "-m", "popdist.poprun", "--num-instances=2", "--num-replicas=4"]
    done = subprocess.run([*command, sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("forked from the one that the session belongs to, which is one of several instances") == 2
    assert done.stdout.count("this process was forked from instance") == 2
    assert done.stdout.splitlines().count("end") == 2


def test_replicas_of_different_instances_that_disagree(tmp_path: pathlib.Path) -> None:
    body = (
        "graphs = [ir.create_graph(lambda t: collectives.replicated_all_reduce(t), x),"
        " ir.create_graph(lambda t: t + 1, x)]\n"
        "    large = ops.greater(x, popxl.constant(1.5))\n"
        "    (y,) = ops.conditional(large, *graphs, then_inputs=[x], else_inputs=[x])  # here\n"
        "    v = popxl.variable(0.0)\n"
        "    v += y"
    )
    done = launch(tmp_path, body)
    assert done.returncode != 0
    assert f"program.py:{line_of(tmp_path)}" in done.stderr
    assert "replicas 0, 1" in done.stderr
    assert "replicas 2, 3" in done.stderr


def test_more_replicas_than_instances_run(tmp_path: pathlib.Path) -> None:
    """The variables that poprun sets, without MPI around them."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(body=REDUCE, last_words="pass"))
    place = {"POPDIST_NUM_TOTAL_REPLICAS": "4", "POPDIST_NUM_LOCAL_REPLICAS": "2", "POPDIST_REPLICA_INDEX_OFFSET": "2"}
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env={**os.environ, **place})
    assert done.returncode == 1
    assert "the program has 4 replicas, of which this process is to run 2 from number 2 on" in done.stderr
    assert "does not fit process 0 of 1" in done.stderr


def test_run_that_fails_on_one_instance_though_it_goes_on(tmp_path: pathlib.Path) -> None:
    """It has left the others, who do not wait for it, and is told so."""
    body = (
        "x = collectives.replicated_all_reduce(x)\n"
        "    buffer = popxl.remote_buffer((), popxl.float32, 1)\n"
        "    entry = ops.cast(ops.host_load(popxl.h2d_stream((), popxl.float32, name='entry')), popxl.int32)\n"
        "    ops.remote_store(buffer, entry, x)"
    )
    program = tmp_path / "program.py"
    text = PROGRAM.format(body=body, last_words="pass").partition("with popxl.Session")[0]
    program.write_text(
        text + "entry_stream = next(s for s in ir.get_all_h2d_streams() if s.tensor_id == 'entry')\n"
        "feed = {x_stream: np.zeros(2), entry_stream: np.full(2, popdist.getInstanceIndex())}\n"
        "with popxl.Session(ir, 'cpu') as session:\n"
        "    for _ in range(2):\n"
        "        try:\n"
        "            session.run(feed)\n"
        "        except Exception as error:\n"
        "            print('caught', error, flush=True)\n"
        "            session.weights_from_host()\n"
    )
    command = [sys.executable, "-m", "popdist.poprun", "--num-instances=2", "--num-replicas=4"]
    done = subprocess.run([*command, sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "has 1 entries" in done.stdout or "no entry 1" in done.stdout, done.stdout
    assert "instance 0 was waiting for the others in `replicated_all_reduce`" in done.stderr
    assert "but instance 1 has ended without it" in done.stderr
