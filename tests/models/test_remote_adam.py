"""Training with Adam's state in remote buffers: the same bits in RAM and in files, and what NumPy computes."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import remote_adam  # noqa: E402

import popxl  # noqa: E402

LAYERS, WIDTH, BATCH, STEPS = 5, 128, 32, 4
STATE = 2 * LAYERS * WIDTH * WIDTH * 4


def trained(storage):
    training = remote_adam.Training(LAYERS, WIDTH, BATCH, storage=storage)
    with training.session:
        losses = [training.run(training.data(step)) for step in range(STEPS)]
        return losses, training.session.get_tensors_data(training.weights)


def by_numpy():
    """The losses of the same training in float64."""
    training = remote_adam.Training(LAYERS, WIDTH, BATCH)
    weights = [w.astype(np.float64) for w in training.session.get_tensors_data(training.weights).values()]
    moments = [[np.zeros_like(w), np.zeros_like(w)] for w in weights]
    losses = []
    for step in range(STEPS):
        x, y = (a.astype(np.float64) for a in training.data(step).values())
        layers = [x]
        for w in weights:
            layers.append(np.maximum(layers[-1] @ w, 0))
        losses.append(np.mean((layers[-1] - y) ** 2))
        gradient = 2 * (layers[-1] - y) / y.size
        for i in reversed(range(LAYERS)):
            gradient = gradient * (layers[i + 1] > 0)
            dw, gradient = layers[i].T @ gradient, gradient @ weights[i].T
            for moment, beta, term in zip(moments[i], (0.9, 0.99), (dw, dw * dw)):
                moment *= beta
                moment += (1 - beta) * term
            first, second = (m / (1 - beta ** (step + 1)) for m, beta in zip(moments[i], (0.9, 0.99)))
            weights[i] = weights[i] - 1e-3 * first / (np.sqrt(second) + 1e-8)
    return losses


@pytest.mark.parametrize("part", [1, 4, 40])
def test_state_in_files_trains_the_same_bits(tmp_path, part):
    losses, weights = trained(None)
    np.testing.assert_allclose(losses, by_numpy(), rtol=1e-4)
    losses_by_file, weights_by_file = trained(popxl.RemoteStorage(tmp_path, STATE // part))
    assert losses == losses_by_file
    np.testing.assert_array_equal(list(weights.values()), list(weights_by_file.values()))


def test_the_example_prints_the_same_with_any_storage_and_threads(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "remote_adam.py"), "--layers=4", "--width=64", "--batch=16"]
    folder = ["--directory", str(tmp_path / "state"), "--ram-bytes=32768"]
    seen = set()
    for threads, options in (("1", []), ("2", folder), ("5", [])):
        environment = {**os.environ, "POPXL_NUM_THREADS": threads}
        text = subprocess.check_output([*command, "--steps=3", *options], env=environment, text=True)
        seen.add("".join(line.partition(", ")[0] for line in text.splitlines()))
    assert len(seen) == 1
