"""The rules about the tree itself hold, and the checks that watch them notice a breach."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest


@pytest.fixture
def size_budget(root):
    """Returns the module tools/size_budget.py."""
    spec = importlib.util.spec_from_file_location("size_budget", root / "tools" / "size_budget.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", ["size_budget.py", "check_layers.py"])
def test_tree_keeps_the_rules(root, script):
    result = subprocess.run([sys.executable, root / "tools" / script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_long_file_is_an_error(size_budget):
    errors, _ = size_budget.check_file(pathlib.Path("src/base/long.cpp"), "int x;\n" * 801)
    assert len(errors) == 1 and "801 lines" in errors[0]


def test_long_function_is_reported_in_both_languages(size_budget):
    body = "  f();\n" * 60
    _, reports = size_budget.check_file(pathlib.Path("src/a.cpp"), f"void f() {{\n{body}}}\n")
    assert reports == ["src/a.cpp:1: function of 62 lines; aim for 60"]
    _, reports = size_budget.check_file(pathlib.Path("a.py"), "def f():\n" + "    f()\n" * 60)
    assert reports == ["a.py:1: function of 61 lines; aim for 60"]


def test_path_outside_the_checkout_is_an_error(size_budget):
    for name in ("/work" + "/main/x", "/root" + "/x", f"{pathlib.Path.home()}/x"):
        errors, _ = size_budget.check_file(pathlib.Path("README.md"), f"see {name}\n")
        assert len(errors) == 1, name
    assert size_budget.check_file(pathlib.Path("README.md"), "the frame/" + "work/ of it\n") == ([], [])


@pytest.mark.parametrize("file, message", [("src/base/none.cpp", "there is no file"), ("README.md", "does not compile")])
def test_a_named_file_that_is_not_checked_is_an_error(root, tmp_path, file, message):
    (tmp_path / "compile_commands.json").write_text("[]")
    command = [sys.executable, root / "tools" / "tidy.py", "--build", tmp_path, file]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr and file in result.stderr
