"""The README's program runs and computes what its comments say."""

import re
import subprocess
import sys

import numpy as np


def test_readme_program(root, tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    file = tmp_path / "program.py"
    file.write_text(program)
    result = subprocess.run([sys.executable, file], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    expected = np.ones((3, 2)) - x.T @ np.full((4, 2), 0.1)
    printed = np.array([float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", result.stdout)])
    np.testing.assert_allclose(printed, expected.ravel(), atol=1e-5)
