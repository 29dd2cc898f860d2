"""Checkpoints: what is saved is loaded again, whatever happens on the way."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import popxl
import pytest

VALUES = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.array([0.5, -2], np.float16),
    "counter": np.array(7, np.int32),
    "flags": np.array([True, False, True]),
    "none": np.empty((0, 3), np.float32),
}


def program(values: dict = VALUES) -> tuple:
    """Variables of these values; a run adds 1 to `w`."""
    ir = popxl.Ir()
    with ir.main_graph:
        variables = {name: popxl.variable(value, name=name) for name, value in values.items()}
        if "w" in variables:
            variables["w"] += 1
    return ir, variables


@pytest.mark.parametrize("name", ["whole.safetensors", "folder"])
@pytest.mark.parametrize("max_file_bytes", [1, 4 << 30])
def test_round_trip(tmp_path: pathlib.Path, name: str, max_file_bytes: int) -> None:
    ir, _ = program()
    with popxl.Session(ir, "cpu") as session:
        session.run()
        popxl.checkpoint.save(session, tmp_path / "new" / name, max_file_bytes)
    other, variables = program({k: np.zeros_like(v) for k, v in VALUES.items()})
    with popxl.Session(other, "cpu") as session:
        popxl.checkpoint.load(session, tmp_path / "new" / name)
        loaded = session.get_tensors_data(variables.values())
        for key, variable in variables.items():
            expected = VALUES[key] + 1 if key == "w" else VALUES[key]
            np.testing.assert_array_equal(loaded[variable], expected)
        session.run()  # the device has them too
        np.testing.assert_array_equal(session.get_tensor_data(variables["w"]), VALUES["w"] + 2)


def test_other_libraries_read_it(tmp_path: pathlib.Path) -> None:
    from safetensors.numpy import load_file

    ir, _ = program()
    popxl.checkpoint.save(popxl.Session(ir, "cpu"), tmp_path / "a.safetensors")
    read = load_file(tmp_path / "a.safetensors")
    assert read.keys() == VALUES.keys()
    for name, value in VALUES.items():
        np.testing.assert_array_equal(read[name], value)


def test_float8(tmp_path: pathlib.Path) -> None:
    bits = {"w8": np.array([1.5, -0.25, 240], np.float32)}
    data = popxl.utils.host_pow2scale_cast_to_fp8(bits["w8"], popxl.float8_143, 0, True)
    ir, _ = program({"w8": data})
    popxl.checkpoint.save(popxl.Session(ir, "cpu"), tmp_path)
    other, variables = program({"w8": np.zeros_like(data)})
    session = popxl.Session(other, "cpu")
    popxl.checkpoint.load(session, tmp_path)
    assert session.get_tensor_data(variables["w8"]).tobytes() == data.tobytes()


def test_save_replaces_and_leaves_nothing_else(tmp_path: pathlib.Path) -> None:
    ir, _ = program()
    with popxl.Session(ir, "cpu") as session:
        popxl.checkpoint.save(session, tmp_path, max_file_bytes=1)
        first = {p.name for p in tmp_path.iterdir()}
        session.run()
        popxl.checkpoint.save(session, tmp_path)
    second = {p.name for p in tmp_path.iterdir()}
    assert len(first) == len(VALUES) + 1
    assert len(second) == 2
    assert first & second == {"model.safetensors.index.json"}


def test_killed_while_saving(tmp_path: pathlib.Path) -> None:
    """Killed at any write, the folder still holds the checkpoint before or the new one, whole."""
    ir, variables = program()
    session = popxl.Session(ir, "cpu")
    popxl.checkpoint.save(session, tmp_path)
    writes = 0
    while True:
        code = (
            "import os, signal, sys; sys.path[:0] = " + repr([str(pathlib.Path(__file__).parent)]) + "\n"
            "import popxl, test_checkpoint as t\n"
            f"left = [{writes}]\n"
            "def count(call):\n"
            "    def counted(*arguments):\n"
            "        if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
            "        left[0] -= 1\n"
            "        return call(*arguments)\n"
            "    return counted\n"
            "os.replace, os.fsync = count(os.replace), count(os.fsync)\n"
            "values = dict(t.VALUES, w=t.VALUES['w'] + 1)\n"
            f"popxl.checkpoint.save(popxl.Session(t.program(values)[0], 'cpu'), {str(tmp_path)!r}, 20)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        popxl.checkpoint.load(session, tmp_path)
        value = session.get_tensor_data(variables["w"])
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        assert (value == VALUES["w"]).all() or (value == VALUES["w"] + 1).all()
        writes += 1
    assert writes > 6
    assert (value == VALUES["w"] + 1).all()


def test_groups(tmp_path: pathlib.Path) -> None:
    def grouped(groups: int, value: np.ndarray, replication: int = 4) -> tuple:
        ir = popxl.Ir(replication=replication)
        with ir.main_graph:
            grouping = ir.replica_grouping(group_size=replication // groups)
            v = popxl.variable(value, name="v", replica_grouping=grouping)
        return popxl.Session(ir, "cpu"), v

    session, _ = grouped(2, np.array([[1, 2], [1, 2]], np.float32))
    popxl.checkpoint.save(session, tmp_path / "equal")
    session, _ = grouped(2, np.array([[1, 2], [3, 4]], np.float32))
    popxl.checkpoint.save(session, tmp_path / "different")

    session, v = grouped(1, np.zeros(2, np.float32), replication=2)
    popxl.checkpoint.load(session, tmp_path / "equal")
    np.testing.assert_array_equal(session.get_tensor_data(v), [1, 2])
    with pytest.raises(ValueError, match="v was saved with 2 groups of replicas that have different values; .* with 1"):
        popxl.checkpoint.load(session, tmp_path / "different")
    np.testing.assert_array_equal(session.get_tensor_data(v), [1, 2])

    session, v = grouped(2, np.zeros((2, 2), np.float32), replication=2)
    popxl.checkpoint.load(session, tmp_path / "different")
    np.testing.assert_array_equal(session.get_tensor_data(v), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"more": np.zeros(1, np.float32)}, r"it lacks \['more'\] and has \[\] more"),
        ({"w": None}, r"it lacks \[\] and has \['w'\] more"),
        ({"w": np.zeros((3, 2), np.float32)}, r"w has shape \(3, 2\); .* has it as \(2, 3\)"),
        ({"w": np.zeros((2, 3), np.float16)}, "w is float16; .* has it as float32"),
    ],
)
def test_other_variables(tmp_path: pathlib.Path, change: dict, message: str) -> None:
    popxl.checkpoint.save(popxl.Session(program()[0], "cpu"), tmp_path)
    values = {k: np.zeros_like(v) for k, v in VALUES.items()}
    values = {k: v for k, v in {**values, **change}.items() if v is not None}
    ir, variables = program(values)
    session = popxl.Session(ir, "cpu")
    with pytest.raises(ValueError, match=message):
        popxl.checkpoint.load(session, tmp_path)
    assert all((session.get_tensor_data(v) == 0).all() for v in variables.values())


def test_not_strict(tmp_path: pathlib.Path) -> None:
    popxl.checkpoint.save(popxl.Session(program({"a": VALUES["w"], "b": VALUES["w"]})[0], "cpu"), tmp_path)
    ir, variables = program({"b": np.zeros((2, 3), np.float32), "c": np.ones(1, np.float32)})
    session = popxl.Session(ir, "cpu")
    popxl.checkpoint.load(session, tmp_path, strict=False)
    np.testing.assert_array_equal(session.get_tensor_data(variables["b"]), VALUES["w"])
    np.testing.assert_array_equal(session.get_tensor_data(variables["c"]), [1])


@pytest.mark.parametrize("damage", ["cut", "header", "data", "gone"])
def test_damaged(tmp_path: pathlib.Path, damage: str) -> None:
    ir, _ = program()
    session = popxl.Session(ir, "cpu")
    popxl.checkpoint.save(session, tmp_path)
    (part,) = tmp_path.glob("*.safetensors")
    content = bytearray(part.read_bytes())
    if damage == "cut":
        part.write_bytes(content[:-3])
    elif damage == "header":
        part.write_bytes(content[:8] + b"?" + content[9:])
    elif damage == "data":
        content[-1] ^= 1
        part.write_bytes(content)
    else:
        part.unlink()
    with pytest.raises(FileNotFoundError if damage == "gone" else ValueError, match=part.name):
        popxl.checkpoint.load(session, tmp_path)


def test_index_without_its_tensors(tmp_path: pathlib.Path) -> None:
    session = popxl.Session(program()[0], "cpu")
    popxl.checkpoint.save(session, tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["ghost"] = content["weight_map"]["w"]
    index.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"files do not have: \['ghost'\]"):
        popxl.checkpoint.load(session, tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"weight_map": [1]}', b'{"weight_map": {"w": 3}}', b"\xff"])
def test_damaged_index(tmp_path: pathlib.Path, content: bytes) -> None:
    session = popxl.Session(program()[0], "cpu")
    popxl.checkpoint.save(session, tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_bytes(content)
    with pytest.raises(ValueError, match=f"{index} is no index of a checkpoint, or is damaged"):
        popxl.checkpoint.load(session, tmp_path)


@pytest.mark.parametrize("folder", ["../elsewhere/", "{elsewhere}/", ""])
def test_index_reads_files_beside_it_only(tmp_path: pathlib.Path, folder: str) -> None:
    session = popxl.Session(program()[0], "cpu")
    for name in ("here", "elsewhere"):
        popxl.checkpoint.save(session, tmp_path / name)
    (part,) = (tmp_path / "elsewhere").glob("*.safetensors")
    index = tmp_path / "here" / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    named = folder.format(elsewhere=tmp_path / "elsewhere") + part.name
    content["weight_map"] = dict.fromkeys(content["weight_map"], named)
    index.write_text(json.dumps(content))
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "here" / part.name)):
        popxl.checkpoint.load(session, tmp_path / "here")


def test_nothing_there(tmp_path: pathlib.Path) -> None:
    session = popxl.Session(program()[0], "cpu")
    for name in ("nowhere", "nowhere.safetensors"):
        with pytest.raises(FileNotFoundError):
            popxl.checkpoint.load(session, tmp_path / name)
