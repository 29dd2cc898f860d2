"""Writes the type stub of the compiled module: python/popxl/_core.pyi, or the file named as argument."""

import pathlib
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python" / "popxl"


def make_stub(target: pathlib.Path) -> None:
    """Generates the stub of python/popxl/_core into `target`."""
    # Imported by itself, the module's own Python package need not be importable while the stub is made.
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "_core", "-i", str(PACKAGE)]
    subprocess.run([*command, "-o", str(target)], check=True)


if __name__ == "__main__":
    make_stub(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE / "_core.pyi")
