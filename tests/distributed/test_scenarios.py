"""Groupings x shards x storage x instances."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("scenarios.py")


@pytest.mark.parametrize("instances", [1, 2, 4, 8])
def test_scenarios(instances: int) -> None:
    poprun = [sys.executable, "-m", "popdist.poprun", "--num-replicas=8", f"--num-instances={instances}"]
    done = subprocess.run([*poprun, sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["84 scenarios"] * instances
