"""The models of the benchmarks give the same bits on any number of threads."""

import json
import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).with_name("bench_bits.py")


def hashes(threads: int) -> dict[str, str]:
    environment = {**os.environ, "POPXL_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(SCRIPT)]
    return json.loads(subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout)


def test_threads_do_not_change_bits():
    one = hashes(1)
    assert one
    for threads in (2, 4):
        assert hashes(threads) == one, f"{threads} threads"
