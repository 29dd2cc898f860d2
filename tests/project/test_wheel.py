"""The wheel holds everything: a program outside the checkout runs with it."""

import os
import pathlib
import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import numpy as np
    import popart
    import popdist
    import popxl
    from popxl import ops

    ir = popxl.Ir()
    with ir.main_graph:
        total = ops.add(popxl.variable(1.0), popxl.variable(2.0))
        stream = popxl.d2h_stream(total.shape, total.dtype)
        ops.host_store(stream, total)
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run()
    print(popxl.__file__, float(outputs[stream]))
    """
)


def run(*command: str, cwd: pathlib.Path, **environment: str) -> str:
    """Returns what the command prints; a failure shows both streams."""
    result = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_wheel_works_outside_the_checkout(root, tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path), str(root), cwd=tmp_path)
    (wheel,) = tmp_path.glob("openpopxl-*.whl")
    site = tmp_path / "site"
    run(*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel), cwd=tmp_path)
    file, total = run(sys.executable, "-c", PROGRAM, cwd=tmp_path, PYTHONPATH=str(site)).split()
    assert pathlib.Path(file).is_relative_to(site)
    assert float(total) == 3.0
    for name in ("_core.pyi", "py.typed"):
        assert (site / "popxl" / name).exists()
