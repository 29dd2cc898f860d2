"""The examples of docstrings run, each in a new program whose main graph is entered."""

import doctest
import importlib
import pathlib

import numpy as np
import pytest

import popxl
from popxl import ops, transforms

PACKAGE = pathlib.Path(popxl.__file__).parent
SOURCES = sorted(file for file in PACKAGE.rglob("*.py") if file.stem != "__init__")
MODULES = [
    importlib.import_module(".".join(("popxl", *file.relative_to(PACKAGE).with_suffix("").parts))) for file in SOURCES
]
EXAMPLES = [
    example for module in MODULES for example in doctest.DocTestFinder().find(module, globs={}) if example.examples
]


def run(tensor: popxl.Tensor) -> np.ndarray:
    """What a tensor of the current program holds when it runs."""
    stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
    ops.host_store(stream, tensor)
    with popxl.Session(popxl.gir(), "cpu") as session:
        return session.run()[stream]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example(example):
    ir = popxl.Ir()
    example.globs = {"np": np, "popxl": popxl, "ops": ops, "transforms": transforms, "ir": ir, "run": run}
    report: list[str] = []
    with ir.main_graph:
        results = doctest.DocTestRunner().run(example, out=report.append)
    assert results.attempted and not results.failed, "".join(report)


def test_examples_are_found():
    names = {example.name for example in EXAMPLES}
    assert {"popxl.ir.Ir.create_graph", "popxl.ops.call.call", "popxl.transforms.autodiff.autodiff"} <= names
