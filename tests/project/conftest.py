"""Where the checkout and its build are."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    """Returns the root of the checkout."""
    return pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build(root: pathlib.Path) -> pathlib.Path:
    """Returns the folder of the build under test."""
    return pathlib.Path(os.environ.get("POPXL_BUILD", root / "build" / "release"))
