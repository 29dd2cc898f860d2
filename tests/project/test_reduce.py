"""tools/reduce.py takes out of a program what its failure does not need."""

import subprocess
import sys

PROGRAM = """ir {
  stream "in" : float32 (2,) host_to_device
  stream "out" : float32 (2,) device_to_host
  graph @main {
    %w = variable float32 (2,) [1.0, 2.0]
    %x_init = init {shape = [2], dtype = float32}
    %x = host_load %x_init {stream = "in"}
    %a = add %x, %w
    %b, %c = call @f(%a, %w)
    %d = mul %b, %c
    %e = exp %d
    host_store %e {stream = "out"}
  }
  graph @f(%t: float32 (2,), %u: float32 (2,)) -> (%v, %r) {
    %s = sin %t
    %v = tanh %s
    %r = sub %s, %u
  }
}
"""


def reduce(root, tmp_path, *options):
    """Runs the tool; returns its status and what it wrote."""
    source, result = tmp_path / "program.ir", tmp_path / "reduced.ir"
    source.write_text(PROGRAM)
    command = [sys.executable, root / "tools" / "reduce.py", *options, "-o", result, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, result.read_text() if result.exists() else ""


def test_a_program_is_reduced_to_what_fails(root, tmp_path):
    done, text = reduce(root, tmp_path, "--command", "! grep -q tanh {}")
    assert done.returncode == 0, done.stderr
    assert "tanh" in text
    assert not any(op in text for op in ("sin", "sub", "exp", "mul", "host_load", "variable"))
    assert len(text.splitlines()) < 12, text


def test_a_program_that_does_not_fail(root, tmp_path):
    done, text = reduce(root, tmp_path)
    assert done.returncode == 1 and "does not fail" in done.stderr and not text


def test_files_that_can_not_be_used(root, tmp_path):
    command = [sys.executable, root / "tools" / "reduce.py"]
    binary = tmp_path / "binary.ir"
    binary.write_bytes(b"\xff\xfe")
    for file in (tmp_path / "missing.ir", tmp_path, binary):
        done = subprocess.run([*command, file], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("reduce.py: ") and "Traceback" not in done.stderr
