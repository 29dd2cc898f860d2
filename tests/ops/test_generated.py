"""What popxl-gen writes into the repository is what the op table gives now."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("POPXL_BUILD", ROOT / "build" / "release"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    subprocess.run([BUILD / "popxl-gen", folder], check=True)
    return folder


@pytest.mark.parametrize("file", ["python/popxl/ops/_generated.py", "docs/ops.md"])
def test_committed_file_is_up_to_date(fresh, file):
    assert (ROOT / file).read_text() == (fresh / file).read_text(), (
        f"{file} is out of date: build, and commit it"
    )


def test_header_declares_what_the_source_defines(fresh):
    header = (fresh / "include" / "popxl" / "ops.h").read_text()
    source = (fresh / "src" / "ops_generated.cpp").read_text()
    assert header.count("std::source_location where") == source.count("std::source_location where") > 100
