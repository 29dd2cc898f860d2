"""The executable cache over processes: log lines, nothing is generated twice, results keep their bits."""

import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest

#: A training step whose results are printed in full.
PROGRAM = """
import numpy as np
import popxl
from popxl import ops, transforms

def build(x, w):
    return ops.sum(ops.{activation}(ops.dropout(x @ w, popxl.constant([1, 2], popxl.uint32), p=0.25)))

for repeat in range({repeats}):
    rng = np.random.default_rng(1)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(rng.normal(size=(16, 8)).astype(np.float32), name="x")
        w = popxl.variable(rng.normal(size=(8, 33)).astype(np.float32), name="w")
        graph = ir.create_graph(build, x, w)
        info = ops.call_with_info(graph, x, w)
        backward = transforms.autodiff(graph)
        grads = ops.call(backward.graph, popxl.constant(1.0), inputs_dict=backward.inputs_dict(info))
        ops.scaled_add_(w, grads[1], b=-0.1)
        ops.softmax(w, axis=-1)
    with popxl.Session(ir, "cpu") as session:
        session.run()
    print(session.get_tensor_data(w).tobytes().hex())
"""


def start(cache: pathlib.Path | None, activation: str = "gelu", repeats: int = 1, **environment: str) -> subprocess.Popen:
    env = {**os.environ, "POPART_LOG_LEVEL": "DEBUG", **environment}
    if cache is not None:
        env["POPXL_CACHE_DIR"] = str(cache)
    text = PROGRAM.format(activation=activation, repeats=repeats)
    return subprocess.Popen(
        [sys.executable, "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> tuple[str, str]:
    """What it printed and what it logged."""
    out, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    return out, log


def counts(log: str) -> tuple[int, int]:
    """Results that the compilation found in the cache, and new ones."""
    found = re.search(r"Executable cache: (\d+) results of the compilation were there, (\d+) are new", log)
    assert found, log
    return int(found[1]), int(found[2])


def test_another_process_generates_nothing(tmp_path):
    out, log = finish(start(tmp_path))
    assert "Starting compilation" in log and "Loading serialized" not in log
    found, new = counts(log)
    assert found == 0
    again, log = finish(start(tmp_path))
    assert "Starting compilation" not in log
    assert counts(log) == (new, 0)
    assert again == out
    path = str(next(tmp_path.glob("*.popef")))
    assert f"Loading serialized PopART executable from {path}" in log
    assert re.search(f"PopEF file inferred to have hash .*{re.escape(path)}", log)
    assert finish(start(tmp_path, POPART_LOG_LEVEL="OFF"))[1] == ""


def test_without_a_cache_the_bits_are_the_same(tmp_path):
    assert finish(start(tmp_path))[0] == finish(start(tmp_path))[0] == finish(start(None))[0]


def test_another_program_takes_what_it_shares(tmp_path):
    _, log = finish(start(tmp_path))
    total = counts(log)[1]
    _, log = finish(start(tmp_path, activation="tanh"))
    assert "Starting compilation" in log
    found, new = counts(log)
    assert found + new == total
    if total:  # on a machine that has machine code for groups: the updates and dropout masks are the same
        assert found > 0 and new > 0


def test_preload(tmp_path):
    finish(start(tmp_path))
    _, log = finish(start(tmp_path, POPART_PRELOAD_POPEF="full-preload"))
    assert "Performing preload of popef file" in log and "Completed preload of popef file" in log
    assert "preload of" not in finish(start(tmp_path))[1]


def test_files_of_no_use_are_named(tmp_path):
    finish(start(tmp_path))
    first = next(tmp_path.glob("*.popef"))
    finish(start(tmp_path, activation="tanh"))
    second = next(path for path in tmp_path.glob("*.popef") if path != first)
    (tmp_path / "bad.popef").write_text("no cache file")
    first.write_bytes(second.read_bytes())
    _, log = finish(start(tmp_path))
    assert "Starting compilation" in log
    assert f"Cache file hash did not match the IR hash {first.stem}" in log
    assert re.search("Ignoring cache file because it does not contain an executable .*bad.popef", log)
    assert "Loading serialized" in finish(start(tmp_path))[1]


def _with_results(file: bytes, result: bytes) -> bytes:
    """The file with another content of each result, and checksums that fit."""
    at = 12 + 2 * 32  # magic, version, and the digests of library and program
    (graphs,) = struct.unpack_from("<Q", file, at)
    at += 8 + 32 * graphs
    (results,) = struct.unpack_from("<Q", file, at)
    at += 8
    out = file[:at]
    for _ in range(results):
        (size,) = struct.unpack_from("<Q", file, at + 32)
        out += file[at : at + 32] + struct.pack("<Q", len(result)) + result
        at += 40 + size
    assert at + 32 == len(file)
    return out + hashlib.sha256(out).digest()


def test_a_result_that_can_not_be_used_is_replaced(tmp_path):
    out, log = finish(start(tmp_path))
    total = counts(log)[1]
    file = next(tmp_path.glob("*.popef"))
    whole = file.read_bytes()
    file.write_bytes(_with_results(whole, b"no result"))
    again, log = finish(start(tmp_path))
    assert "Loading serialized" in log
    assert counts(log) == (total, total)
    assert again == out
    assert file.read_bytes() == whole


def test_a_folder_that_has_no_name_or_can_not_be_made(tmp_path):
    """One warning for each, and the program runs without a cache."""
    (tmp_path / "file").write_text("")
    program = (
        "import popxl\n"
        "for path in ['', '', {folder!r}, {folder!r}]:\n"
        "    ir = popxl.Ir()\n"
        "    ir._pb_ir.getSessionOptions().enableEngineCaching = True\n"
        "    ir._pb_ir.getSessionOptions().cachePath = path\n"
        "    popxl.Session(ir)\n"
    )
    text = program.format(folder=str(tmp_path / "file" / "sub"))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path, check=True)
    nameless, unusable = done.stderr.splitlines()
    assert "The executable cache has no folder: `enableEngineCaching` is set, and `cachePath` is empty;" in nameless
    assert re.search("The executable cache in .*/file/sub can't be written \\(Not a directory\\);", unusable)
    for line in (nameless, unusable):
        assert "option `cachePath` or the environment variable POPXL_CACHE_DIR" in line
    assert os.listdir(tmp_path) == ["file"]


def test_processes_that_use_one_folder_at_once(tmp_path):
    """Each of them reads, writes and removes: the folder has room for about two of three programs."""
    activations = ("gelu", "tanh", "relu")
    expected = {name: finish(start(tmp_path / "alone", name))[0] for name in activations}
    size = max(path.stat().st_size for path in (tmp_path / "alone").iterdir())
    environment = {"POPXL_CACHE_BYTES": str(size * 5 // 2), "POPXL_NUM_THREADS": "1", "POPART_LOG_LEVEL": "WARN"}
    processes = [(name, start(tmp_path / "cache", name, 25, **environment)) for name in activations * 2]
    for name, process in processes:
        out, log = finish(process)
        assert set(out.split()) == set(expected[name].split())
        assert log == ""
    left = list((tmp_path / "cache").iterdir())
    assert left and all(path.suffix == ".popef" for path in left)


@pytest.mark.parametrize("limit", ["many", "-1", "1e9"])
def test_a_limit_must_be_a_number(tmp_path, limit):
    process = start(tmp_path, POPXL_CACHE_BYTES=limit)
    _, log = process.communicate(timeout=120)
    assert process.returncode != 0
    assert f"ValueError: POPXL_CACHE_BYTES is `{limit}`; give the number of bytes" in log
