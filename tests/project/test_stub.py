"""The committed type stub of the compiled module is the one that the module gives now."""

import subprocess
import sys


def test_stub_is_up_to_date(root, tmp_path):
    fresh = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, root / "tools" / "make_stub.py", fresh], check=True)
    committed = root / "python" / "popxl" / "_core.pyi"
    assert committed.read_text() == fresh.read_text(), "python/popxl/_core.pyi is out of date: run `make stub`"
