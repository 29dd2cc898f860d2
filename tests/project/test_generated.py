"""The committed files that popxl-gen writes are the ones that the op table gives now."""

import os
import subprocess

import pytest


@pytest.mark.parametrize("name", ["docs/ops.md", "python/popxl/ops/_generated.py"])
def test_generated_file_is_up_to_date(root, build, name):
    fresh = (build / "generated" / name).read_text()
    if os.environ.get("CI"):
        # The build has just rewritten the file in the checkout, so what counts is what was committed.
        show = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=root, capture_output=True, text=True, check=True)
        committed = show.stdout
    else:
        committed = (root / name).read_text()
    assert committed == fresh, f"{name} is out of date: build and commit it"
