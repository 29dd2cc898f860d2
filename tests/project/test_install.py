"""A project outside the checkout finds, links and runs the installed C++ library."""

import pathlib
import subprocess


def run(*command: object, cwd: pathlib.Path) -> str:
    """Returns what the command prints; a failure shows both streams."""
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_outside_project_links_the_installed_library(root, build, tmp_path):
    prefix, source, binary = tmp_path / "prefix", tmp_path / "source", tmp_path / "binary"
    run("cmake", "--install", build, "--prefix", prefix, "--component", "cpp", cwd=tmp_path)
    source.mkdir()
    for name in ("CMakeLists.txt", "main.cpp"):
        (source / name).write_text((root / "tests" / "install" / name).read_text())
    run("cmake", "-S", source, "-B", binary, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=tmp_path)
    run("cmake", "--build", binary, cwd=tmp_path)
    assert run(binary / "outside", cwd=tmp_path).split() == ["2", "4", "6"]


def test_every_installed_header_compiles_alone(build, tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", build, "--prefix", prefix, "--component", "cpp", cwd=tmp_path)
    headers = sorted(prefix.glob("include/popxl/**/*.h"))
    assert headers
    source = tmp_path / "one_header.cpp"
    for header in headers:
        source.write_text(f'#include "{header}"\n')
        flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", prefix / "include"]
        run("g++", *flags, source, cwd=tmp_path)
