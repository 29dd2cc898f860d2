"""The GPT-2 programs against the same model in NumPy, float64, written out."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import gpt2  # noqa: E402

CONFIG = gpt2.Config(layers=2, heads=2, width=8, vocabulary=11, positions=7)
BATCH, TOKENS, RATE = 2, 5, 0.01


def weights_of(seed: int) -> gpt2.Arrays:
    """Initial weights with norms and biases that are not 1 and 0."""
    rng = np.random.default_rng(seed)
    weights = gpt2.initial_weights(CONFIG, seed)
    return {n: (8 * w + rng.normal(0, 0.3, w.shape)).astype(np.float32) / 4 for n, w in weights.items()}


def numpy_logits(w: dict, tokens: np.ndarray) -> np.ndarray:
    """Logits (batch, tokens, vocabulary)."""

    def norm(x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        return scaled * w[f"{name}.scale"] + w[f"{name}.shift"]

    def linear(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    batch, length = tokens.shape
    x = w["tokens"][tokens] + w["positions"][:length]
    for i in range(CONFIG.layers):
        parts = np.split(linear(norm(x, f"layer{i}.norm1"), f"layer{i}.qkv"), 3, axis=-1)
        q, k, v = (p.reshape(batch, length, CONFIG.heads, -1).transpose(0, 2, 1, 3) for p in parts)
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(CONFIG.width // CONFIG.heads)
        scores = np.where(np.tri(length, dtype=bool), np.exp(scores), 0)
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ v
        x = x + linear(mixed.transpose(0, 2, 1, 3).reshape(x.shape), f"layer{i}.out")
        z = linear(norm(x, f"layer{i}.norm2"), f"layer{i}.up")
        x = x + linear(0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))), f"layer{i}.down")
    return norm(x, "norm") @ w["tokens"].T


def numpy_loss(w: dict, tokens: np.ndarray, labels: np.ndarray) -> float:
    logits = numpy_logits(w, tokens).reshape(-1, CONFIG.vocabulary)
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-logs[np.arange(len(logs)), labels.reshape(-1)].mean())


def batch_of(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens, some of them several times, and the tokens after them."""
    pieces = np.random.default_rng(seed).integers(0, CONFIG.vocabulary, (BATCH, TOKENS + 1)).astype(np.int32)
    return pieces[:, :-1], pieces[:, 1:]


def wide(weights: gpt2.Arrays) -> dict[str, np.ndarray]:
    return {name: value.astype(np.float64) for name, value in weights.items()}


def test_loss_gradients_and_updates():
    """Gradients along random directions, from central differences of the loss."""
    start = weights_of(0)
    tokens, labels = batch_of(1)
    training = gpt2.Training(CONFIG, start, BATCH, TOKENS, RATE)
    with training.session as session:
        first = training.run(tokens, labels)
        moments = {n: session.get_tensor_data(m) for n, m in training.adam.moments.items()}
        after = {n: session.get_tensor_data(v) for n, v in training.variables.items()}
        second = training.run(tokens, labels)
    w = wide(start)
    assert first == pytest.approx(numpy_loss(w, tokens, labels), rel=1e-5)
    assert second == pytest.approx(numpy_loss(wide(after), tokens, labels), rel=1e-5)
    rng = np.random.default_rng(2)
    assert set(moments) == set(start)
    for name, moment in moments.items():
        gradient = moment / (1 - gpt2.BETA1)
        for _ in range(3):
            direction = rng.normal(size=gradient.shape)
            ends = [numpy_loss({**w, name: w[name] + h * direction}, tokens, labels) for h in (1e-5, -1e-5)]
            wanted = (ends[0] - ends[1]) / 2e-5
            scale = np.linalg.norm(gradient) * np.sqrt(gradient.size)
            assert np.sum(gradient * direction) == pytest.approx(wanted, rel=1e-3, abs=1e-5 * scale), name
        step = RATE * gradient / (np.abs(gradient) + gpt2.EPSILON)  # of Adam's first step
        clear = np.abs(gradient) > 1e-6
        np.testing.assert_allclose((w[name] - after[name])[clear], step[clear], 1e-3, 1e-6, err_msg=name)


def test_decoding():
    """The logits after every token, with the keys and values of those before it from the cache."""
    weights = weights_of(3)
    tokens = np.random.default_rng(4).integers(0, CONFIG.vocabulary, (1, CONFIG.positions))
    wanted = numpy_logits(wide(weights), tokens)[0]
    decoding = gpt2.Decoding(CONFIG, weights)
    with decoding.session:
        for _ in range(2):  # what the cache holds of a sequence before does not matter
            for position, token in enumerate(tokens[0]):
                got = decoding.run(token, position)
                np.testing.assert_allclose(got, wanted[position], 1e-4, 1e-5, err_msg=f"position {position}")
        prompt = [int(t) for t in tokens[0, :2]]
        text = list(prompt)
        while len(text) < 5:
            text.append(int(numpy_logits(wide(weights), np.array([text]))[0, -1].argmax()))
        assert decoding.continued(prompt, 3) == text[2:]


def test_one_graph_serves_all_layers():
    counts = []
    for layers in (1, 3):
        config = CONFIG._replace(layers=layers)
        training = gpt2.Training(config, gpt2.initial_weights(config, 0), BATCH, TOKENS, RATE)
        counts.append(len(training.ir._pb_ir.getAllGraphs()))
    assert counts[0] == counts[1]


def run_script(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "examples" / "gpt2.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_script():
    done = run_script("--steps", "3", "--prompt", "the ", "--length", "4")
    assert done.returncode == 0, done.stderr
    first, text = done.stdout.split("\n", 1)
    assert first.startswith("3 steps in ") and text.startswith("the ")


def test_bad_arguments(tmp_path):
    done = run_script("--length", "200")
    assert done.returncode == 2 and "1 to 128 bytes together" in done.stderr
    short = tmp_path / "short.txt"
    short.write_text("short")
    done = run_script("--text", str(short))
    assert done.returncode == 2 and "more than 128 bytes" in done.stderr
